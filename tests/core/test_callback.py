"""Compiled code calls Python; what goes wrong there is raised here."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from onebit.core.callback import Callback, call_back
from onebit.core.jit import entry

pytestmark = pytest.mark.compiled


@entry
def _call(address, times):
    went_well = 0
    for _ in range(times):
        went_well += call_back(address)
    return went_well


def test_compiled_code_calls_python():
    seen = np.zeros(3, np.int64)
    callback = Callback(lambda: np.add(seen, [1, 2, 3], out=seen))
    assert callback.guarded(_call)(callback.address, 10) == 10
    assert seen.tolist() == [10, 20, 30]


@pytest.mark.parametrize("error", [ValueError("the third"), KeyboardInterrupt()])
def test_the_first_error_is_raised_and_no_call_follows_it(error):
    calls = []

    def fail():
        calls.append(1)
        if len(calls) == 3:
            raise error

    callback = Callback(fail)
    call = callback.guarded(_call)
    with pytest.raises(type(error)) as raised:
        call(callback.address, 10)
    assert raised.value is error and len(calls) == 3
    assert call(callback.address, 5) == 5  # and it is over


def test_other_threads_may_call():
    counts = [0] * 4
    callbacks = [Callback(lambda i=i: counts.__setitem__(i, counts[i] + 1)) for i in range(4)]
    threads = [threading.Thread(target=_call, args=(one.address, 200)) for one in callbacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [200] * 4
