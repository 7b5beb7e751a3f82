"""Which experts there are, and how each of them learns."""

from __future__ import annotations

from typing import NamedTuple

from onebit.core.jit import inline

# Kinds of experts that have weights for each feature.
SOFTMAX, RIDGE, LOGISTIC = range(3)


class Expert(NamedTuple):
    """How such an expert learns."""

    kind: int
    prior: float  # variance of a weight before anything is learned
    shrink: float = 1.0  # how fast variances shrink
    floor: float = 0.0  # they shrink by p (1 - p), but at least by this
    again: bool = False  # whether it learns kept rounds again


# Several softmax models, because none is best everywhere: the first one holds out against false
# answers, the second pays on RCV1, the third on 20news. The ridge regression does not depend on
# what is believed of other labels. Two logistic regressions, as it is not known how far labels that
# are right by themselves depend on contexts.
OF_COLUMNS = (  # sparse rows and dense rows
    Expert(SOFTMAX, 64.0, 1.0, 1e-4),
    Expert(SOFTMAX, 64.0, 0.1, 1e-4, again=True),
    Expert(SOFTMAX, 256.0, 0.3, 0.05, again=True),
    Expert(RIDGE, 1.0),
    Expert(LOGISTIC, 16.0),
    Expert(LOGISTIC, 2.0),
)
# Not the first of the models above: the models of the columns alone are those that hold out against
# false answers.
OF_WAVES = (  # rows of tables, dense or sparse: columns and Fourier features
    Expert(SOFTMAX, 64.0, 0.1, 1e-4, again=True),
    Expert(SOFTMAX, 256.0, 0.3, 0.05, again=True),
)
NARROW = len(OF_COLUMNS)
KIND, PRIOR, SHRINK, FLOOR, LEARNS_AGAIN = zip(*OF_COLUMNS, *OF_WAVES, strict=True)

# After these comes the expert without features (`bare_expert`); then, as the last one, naive Bayes
# for sparse rows, and a ridge regression with full matrices for dense rows of few columns.
LAST = NARROW + len(OF_WAVES) + 1
NAMED = LAST + 1  # naive Bayes with names, for sparse rows whose labels have some
# Of naive Bayes over the other experts, in evidence. It needs the fewest answers, so it should
# decide before any expert could show what it is worth. From 2 to 10, results are much the same.
HEAD_START = 5.0
# Of the experts that take one label to be right over the logistic ones, for dense rows: the latter
# would decide for some hundred rounds, though one label is right.
DENSE_HEAD_START = 2.0
# The pull of names before any answer, and how well it is known then.
FIRST_PULL, FIRST_CURVATURE = 8.0, 1.0 / 64.0

# Where its sums start.
ALPHA = 0.1

# The share of falsified answers that the first model assumes: of sparse rows, of dense rows. Where
# answers are true, this costs little, as the experts are weighed by what they forecast.
NOISY, SPARSE_NOISE, DENSE_NOISE, DENSE_SHRINK = 0, 0.1, 0.4, 0.3
# Variances of a logistic model's constant: of a label, and of all labels together. The latter is
# larger, so the first answers teach how often any label is right; new labels start from there.
LABEL_PRIOR, COMMON_PRIOR = 1.0, 16.0
CONSTANT_PRIOR = [
    LABEL_PRIOR if kind == LOGISTIC else prior for kind, prior in zip(KIND, PRIOR, strict=True)
]


@inline
def bare_expert(constant):
    """The logistic expert without features: the last one that has a constant feature."""
    return len(constant) // 2 - 1


@inline
def noise_of(expert, is_dense):
    """The share of falsified answers that an expert assumes. is_dense: of dense rows."""
    if expert != NOISY:
        return 0.0
    return DENSE_NOISE if is_dense else SPARSE_NOISE


@inline
def shrink_of(expert, is_dense):
    """How fast the variances of an expert shrink."""
    return DENSE_SHRINK if expert == NOISY and is_dense else SHRINK[expert]


@inline
def is_regression(expert, is_dense):
    return expert == LAST and is_dense if expert >= NARROW else KIND[expert] == RIDGE


@inline
def is_logistic(expert, bare):
    return expert == bare if expert >= NARROW else KIND[expert] == LOGISTIC
