"""Where OneBit starts: a storage for sparse rows, or for dense rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from onebit.algorithms.onebit import bayes
from onebit.algorithms.onebit.dense import DenseExperts
from onebit.algorithms.onebit.experts import (
    COMMON_PRIOR,
    CONSTANT_PRIOR,
    DENSE_HEAD_START,
    HEAD_START,
    KIND,
    LABEL_PRIOR,
    LOGISTIC,
    NARROW,
    OF_WAVES,
    PRIOR,
    RIDGE,
    SOFTMAX,
)
from onebit.algorithms.onebit.records import LEFT_OUT
from onebit.algorithms.onebit.sparse import SparseExperts
from onebit.algorithms.onebit.storage import ExpertStorage
from onebit.algorithms.onebit.weighing import DOUBT


def storage_for(columns: int, dtype: np.dtype, exclusive: bool | None, seed: int) -> ExpertStorage:
    """Storage for dense rows of so many columns; 0: for sparse rows. The rest are settings."""
    untold = (0.0, 0.0, 0.0, 1.0, DOUBT, 0.0, DOUBT, 0.0, COMMON_PRIOR)  # of `Experts.trust`
    behind, asleep = (0.0, -HEAD_START, *untold[2:]), (0.0, LEFT_OUT, *untold[2:])
    constants = [*CONSTANT_PRIOR, LABEL_PRIOR]
    if columns:
        kinds = (*KIND, LOGISTIC, RIDGE)
        late = (0.0, -DENSE_HEAD_START, *untold[2:])
        trust = _told([late if kind == LOGISTIC else untold for kind in kinds], kinds, exclusive)
        return DenseExperts(
            PRIOR, constants, trust, kinds, dtype, narrow=NARROW, columns=columns, seed=seed
        )
    kinds, temperature = (*KIND, LOGISTIC, SOFTMAX, SOFTMAX), (bayes.START, 1.0)
    lines = [*[behind] * NARROW, *[asleep] * len(OF_WAVES), behind, untold, untold]
    trust = _told(lines, kinds, exclusive)
    return SparseExperts(
        PRIOR, constants, trust, kinds, dtype, narrow=NARROW, seed=seed,
        alpha=bayes.ALPHA, temperature=temperature,
        for_columns=partial(storage_for, dtype=dtype, exclusive=exclusive, seed=seed),
    )  # fmt: skip


def _told(
    trust: Sequence[Sequence[float]], kinds: Sequence[int], exclusive: bool | None
) -> list[Sequence[float]]:
    """No trust for the experts whose kind contradicts `exclusive`."""
    contradicts = {None: None, True: LOGISTIC, False: SOFTMAX}[exclusive]
    return [
        (0.0, LEFT_OUT, *line[2:]) if kind == contradicts else line
        for line, kind in zip(trust, kinds, strict=True)
    ]
