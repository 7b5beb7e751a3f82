"""Comparison of encoded contexts with what is expected."""

import numpy as np

F32 = np.dtype("float32")


def same(found, indices, values, dtype=F32):
    assert found[0].dtype == np.uint32 and found[1].dtype == dtype
    np.testing.assert_array_equal(found[0], np.array(indices, np.uint32))
    np.testing.assert_array_equal(found[1], np.array(values, dtype))


def alike(one, two):
    for a, b in zip(one[:3], two[:3], strict=True):  # indices, values, and indptr of rows
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
