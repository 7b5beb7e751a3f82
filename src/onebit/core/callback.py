"""Calls from compiled code back into Python, for functions that users give.

A `Callback` wraps a function without arguments. The function and compiled code exchange data in
shared arrays. Its address is a number in a record, so that the machine code can be cached.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from onebit.core.jit import lowered

_Thunk = ctypes.CFUNCTYPE(ctypes.c_int64)  # acquires the GIL when called


def call_back(address: int) -> int:
    """Call the `Callback` at this address. Returns 1, or 0 if this or an earlier call failed."""
    return _Thunk(address)()


@lowered(call_back, lambda address: types.int64)
def _call_back(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = ir.FunctionType(ir.IntType(64), [])
    return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])


class Callback:
    """A Python function that compiled code may call.

    Exceptions cannot pass through compiled code. The first one is stored, later calls fail at once,
    and `guarded` raises it when the compiled code returns.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thunk = _Thunk(self._call)  # the address is valid while this exists
        self.address: int = ctypes.cast(self._thunk, ctypes.c_void_p).value or 0

    def _call(self) -> int:
        if self._error is None:
            try:
                self._function()
                return 1
            except BaseException as error:  # Ctrl-C as well
                self._error = error
        return 0

    def guarded(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, which then raises an error that occurred in the callback."""

        def call(*args: Any) -> Any:
            result = compiled(*args)
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return result

        return call
