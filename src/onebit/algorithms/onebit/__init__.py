"""OneBit: a learner without settings. Several models forecast the answer; their mean decides.

It takes nothing for granted about how many labels are right. Some models ("experts") forecast as if
exactly one were, others each label by itself; they learn from the same answers:

- Three softmax models of the label, fitted to the likelihood of the answer. If the said label a was
  right, the loss is -log p_a. If it was wrong, the loss is -log(1 - p_a); its EM bound divides the
  probability of being right among the other labels, in proportion to the model's probabilities.
  Weights have Gaussian posteriors with diagonal covariances; a step is implicit (proximal): it
  minimises the loss at the new weights plus the distance from the old weights, measured by the
  covariance. The three models differ in their initial variances and in how fast the variances
  shrink. Two of them also learn some of the last rounds again after every answer. The first model
  assumes that an answer is false with a certain probability: 0.1 for sparse rows, 0.4 for dense
  rows. For sparse rows, the other two divide the probability of being right in proportion to the
  mean forecast of all experts.
- For sparse rows, naive Bayes (`bayes`), which needs the fewest answers. It, too, takes
  one label to be right.
- A ridge regression of the answer, +1 or -1, per label (Confidit's), which falsified answers cannot
  mislead as far. Dense rows of few columns have a second one, with a full matrix per label.
- Two logistic regressions per label, which differ in their initial variances, and one without
  features, which forecasts how often a label is right. Only answers about a label move its
  weights, by implicit steps, and a constant that all labels share, from which new labels start.

Each expert forecasts the chance that a label is right. The forecasts are averaged with weights that
follow from how well each expert has lately forecast the answers, after a calibration by a bounded
logistic regression. The label with the highest mean plus width plus bonus is said.

Two beliefs follow from the weights (`weighing.beliefs`): e, that exactly one label is right (naive
Bayes and the softmax models, against the logistic regressions with features), and c, that contexts
say something (all of these, against the expert without features, which gains with time).

- The bonus, 2 c (1 - max q) sqrt(log(1 + t) / (1 + K + n)), is for labels that were said n times
  only, while no forecast q is high. Trying a label instead of the likeliest one costs max q, and
  gains 1 if it is right. If these costs exceed the allowance, (1/20 + 9/20 e) K log(1 + t), the
  bonus is multiplied by the cube of allowance / costs.
- The width of a ridge regression is half the standard deviation of its forecast times its weight,
  times 2 sqrt(p (1 - p)) in so far as labels are right by themselves.
- That of a logistic regression is sigmoid(u + s) - sigmoid(u), for the score u and
  s^2 = v/16 + v_0 (1/4 + 2 log max(1, (1 + t) / (K (1 + n)))): v is the variance of u, and v_0 that
  of the expert without features. These widths are averaged by weight, and count 1 - e c.

Rows are scaled to length 1 and have a constant feature.

When right answers become rarer (`feedback.drift`), most of what was learned is forgotten; all of
it if the columns of dense rows have other scales now.

The comments beside constants say why there is such a number. What a part is worth, and what else
was tried, is measured in docs/onebit.md.
"""

from onebit.algorithms.onebit.learner import OneBit as OneBit
