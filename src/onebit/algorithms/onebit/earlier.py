"""OneBits of versions that took exactly one label to be right: how a service goes on with them.

`ob.load` refuses such a file. A service builds a learner of this version from its journal; until
that is done, or where rounds were compacted, the experts of before answer. The new ones know
nothing, and are trusted when they have forecast better for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from onebit.algorithms.onebit.experts import (
    COMMON_PRIOR,
    KIND,
    LABEL_PRIOR,
    LOGISTIC,
    NARROW,
    OF_WAVES,
    PRIOR,
)
from onebit.algorithms.onebit.records import EVIDENCE
from onebit.algorithms.onebit.weighing import DOUBT

TRUSTED_THEN = 7  # numbers of each expert
FIRST = KIND.index(LOGISTIC)  # after the experts that such versions had in the table
ADDED = NARROW - FIRST
FAR_BEHIND = 20.0  # in evidence


def is_earlier(arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether the arrays of a file are of such a version, with naive Bayes."""
    trust = arrays.get("trust")
    return (
        trust is not None
        and trust.shape[1:] == (TRUSTED_THEN,)
        and bool({"narrow", "elsewhere"} & arrays.keys())
    )


def with_new_experts(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of such a version, as those of this one."""
    table = "narrow" if "narrow" in arrays else "table"
    narrow = _with_planes(arrays[table], 2 * FIRST, PRIOR[FIRST:NARROW])
    constant = _with_planes(arrays["constant"], 2 * FIRST, [LABEL_PRIOR] * ADDED)
    constant = _with_planes(constant, constant.shape[1], [LABEL_PRIOR])  # without features
    old = arrays["trust"]
    old = np.column_stack([old, np.tile([0.0, COMMON_PRIOR], (len(old), 1))])
    untold = [0.0, old[:, EVIDENCE].min() - FAR_BEHIND, 0.0, 1.0, DOUBT, 0.0, DOUBT]
    new = np.array([*untold, 0.0, COMMON_PRIOR])
    bare = FIRST + (len(OF_WAVES) if table == "narrow" else 0)
    trust = [*old[:FIRST], *[new] * ADDED, *old[FIRST:bare], new, *old[bare:]]
    return {**arrays, table: narrow, "constant": constant, "trust": np.array(trust)}


def _with_planes(planes: np.ndarray, place: int, priors: Sequence[float]) -> np.ndarray:
    """Weights and variances [row, plane, label] with those of experts that know nothing."""
    new = np.zeros((len(planes), 2 * len(priors), planes.shape[2]), planes.dtype)
    new[:, 1::2] = np.array(priors)[:, None]
    return np.concatenate([planes[:, :place], new, planes[:, place:]], axis=1)
