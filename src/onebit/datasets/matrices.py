"""CSR matrices of given arrays, and matrices that know the numbers among their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def csr(values: Any, indices: Any, indptr: Any, width: int, kind: Any = sparse.csr_matrix) -> Any:
    """A matrix of these arrays, unchecked: scipy's constructor would scan them."""
    made: Any = kind((len(indptr) - 1, width), dtype=values.dtype)
    # scipy needs both arrays of one type, and checks that in its constructor alone.
    whole = np.promote_types(indices.dtype, np.int32 if len(values) < 2**31 else np.int64)
    made.data, made.indices = values, indices.astype(whole, copy=False)
    made.indptr = indptr.astype(whole, copy=False)
    made.has_sorted_indices = made.has_canonical_format = True
    return made


class Mixed(sparse.csr_matrix):
    """Rows of a table with names or texts, as a CSR matrix that knows the numbers among them.

    numbers: a CSR matrix of the same shape: the entries that are numbers, including zeros.
    Selections, copies and other types keep it. The result of any other computation has none; a
    learner that scales numbers refuses it.
    """

    numbers: Any = None

    def __getitem__(self, key: Any) -> Any:
        found: Any = super().__getitem__(key)
        if isinstance(found, Mixed) and self.numbers is not None:
            found.numbers = self.numbers[key]
        return found

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.indptr) - 1))

    def getrow(self, i: int) -> Any:
        return self[i]

    def copy(self) -> Any:
        made: Any = super().copy()
        made.numbers = self.numbers
        return made

    def astype(self, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
        made: Any = super().astype(dtype, casting, copy)
        made.numbers = self.numbers
        return made


def mixed(X: Any, numbers: Any) -> Mixed:
    """The rows of a matrix, with the numbers among them."""
    made: Any = csr(X.data, X.indices, X.indptr, X.shape[1], Mixed)
    made.numbers = numbers
    return made
