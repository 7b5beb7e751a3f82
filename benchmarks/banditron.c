/* The Banditron over a whole stream, as fast as plain C goes once the label count is known.
 *
 * The label count is fixed at compile time (-DLABELS=9, at most 16). The weights of a feature are
 * one vector of 16 floats aligned to 64 bytes; lanes from LABELS on stay zero. A row's scores are
 * summed in 4 interleaved partial sums, so that additions overlap, and rows are added 4 features
 * at a time. Random draws are a counter put through splitmix64. Products and sums are rounded one
 * by one in a fixed order (-ffp-contract=off, no -ffast-math).
 *
 * Tried and slower on x86-64 with AVX-512: adding with whole vectors; finding the best label in one
 * scalar loop, by shuffles, or by a comparison mask; a masked or switched remainder of a row;
 * -funroll-loops; -O2.
 */
#include <stdint.h>

#define LANES 16
#define GOLDEN 0x9E3779B97F4A7C15ULL
_Static_assert(1 < LABELS && LABELS <= LANES, "one vector holds the weights of a feature");

typedef float floats __attribute__((vector_size(4 * LANES)));

static inline uint64_t splitmix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/* Draw t, uniform in [0, 1), of the sequence of draws named by `key`. */
static inline double uniform(uint64_t key, uint64_t t) {
  return (double)(splitmix(key + t * GOLDEN) >> 11) * (1.0 / 9007199254740992.0);
}

static inline floats scores(const floats *weights, const uint32_t *index, const float *value,
                            int64_t count) {
  floats sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sum0 += weights[index[i]] * value[i];
    sum1 += weights[index[i + 1]] * value[i + 1];
    sum2 += weights[index[i + 2]] * value[i + 2];
    sum3 += weights[index[i + 3]] * value[i + 3];
  }
  if (i < count) sum0 += weights[index[i]] * value[i];
  if (i + 1 < count) sum1 += weights[index[i + 1]] * value[i + 1];
  if (i + 2 < count) sum2 += weights[index[i + 2]] * value[i + 2];
  return (sum0 + sum1) + (sum2 + sum3);
}

/* The first label whose score is the largest. */
static inline int best(floats score) {
  float largest = score[0];
  for (int k = 1; k < LABELS; k++) largest = score[k] > largest ? score[k] : largest;
  int label = 0;
  while (label < LABELS - 1 && score[label] != largest) label++;
  return label;
}

/* Add step * row to the weights of one label. */
static inline void add(floats *weights, const uint32_t *index, const float *value, int64_t count,
                       int label, float step) {
  float *weight = (float *)weights + label;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    weight[(uint64_t)index[i] * LANES] += step * value[i];
    weight[(uint64_t)index[i + 1] * LANES] += step * value[i + 1];
    weight[(uint64_t)index[i + 2] * LANES] += step * value[i + 2];
    weight[(uint64_t)index[i + 3] * LANES] += step * value[i + 3];
  }
  for (; i < count; i++) weight[(uint64_t)index[i] * LANES] += step * value[i];
}

/* Plays the rows, epochs times over, from the given weights; returns the number of mistakes. */
int64_t banditron(floats *restrict weights, const uint32_t *restrict indices,
                  const float *restrict values, const int64_t *restrict starts,
                  const int64_t *restrict labels, int64_t rows, int64_t epochs, double gamma,
                  uint64_t seed) {
  const uint64_t whether = splitmix(seed + GOLDEN), which = splitmix(seed + 2 * GOLDEN);
  const double exploring = gamma / LABELS, exploiting = (1 - gamma) + exploring;
  const float when_right = (float)(1 / exploiting - 1), when_found = (float)(1 / exploring);
  int64_t mistakes = 0;
  for (int64_t t = 0, row = 0; t < rows * epochs; t++, row = row + 1 < rows ? row + 1 : 0) {
    const uint32_t *index = indices + starts[row];
    const float *value = values + starts[row];
    const int64_t count = starts[row + 1] - starts[row];
    const int greedy = best(scores(weights, index, value, count));
    const int explores = uniform(whether, t) < gamma;
    const int played = explores ? (int)(uniform(which, t) * LABELS) : greedy;
    const int right = played == labels[row];
    mistakes += !right;
    if (played == greedy) {
      add(weights, index, value, count, greedy, right ? when_right : -1.0f);
    } else {
      add(weights, index, value, count, greedy, -1.0f);
      if (right) add(weights, index, value, count, played, when_found);
    }
  }
  return mistakes;
}
