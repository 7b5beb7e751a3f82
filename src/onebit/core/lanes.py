"""Vectors over labels: the few machine instructions that a loop needs to be as fast as tuned C.

A state holds its weights as ``table[feature, plane, lane]``, one lane per label, padded to a whole
number of blocks. A block of 4, 8 or 16 lanes is one vector: its length is known when the code is
compiled, because it belongs to the type of the state. Vectors add, subtract, multiply and divide
lane by lane, with each other or with a number on the right.

Each function here is the plain twin of its compiled form, which follows it; uncompiled, a vector is
a small numpy array, and the same code gives the same bits.
"""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numba.np.arrayobj import load_item

from onebit.core.jit import COMPILED, lowered


class State4(NamedTuple):
    """The learned state: weights and a few numbers. Blocks have four lanes."""

    table: Any  # [feature, plane, lane], float32 or float64
    memory: Any  # float64 numbers; the algorithm says how many
    held: Any = None  # the record of a storage


class Replica4(NamedTuple):
    """The state of a replica: one of several learners whose weights are side by side."""

    table: Any  # [feature, plane, label]: a strided view of `whole`
    memory: Any
    whole: Any  # the state of all replicas: its lanes are [label, replica]
    strips: Any  # the same with blocks that hold replicas of one label only
    column: Any  # the number of this replica
    replicas: Any
    lanes: Any  # how many the state of a single learner has
    sums: Any  # [score or variance, lane of the whole]: sums over the row for all replicas
    turned: Any  # [score or variance, replica, lane]: the same, by replica
    waiting: Any  # updates that are made for all replicas at once; None: there are none


def _of_width(record: Any, width: int) -> Any:
    """The same record with more lanes per block: the width belongs to the type."""
    name = record.__name__.replace("4", str(width))
    fields, defaults = record._fields, record._field_defaults.values()
    return namedtuple(name, fields, defaults=defaults, module=__name__)


State8, State16 = _of_width(State4, 8), _of_width(State4, 16)
Replica8, Replica16 = _of_width(Replica4, 8), _of_width(Replica4, 16)
_STATE: dict[int, type] = {4: State4, 8: State8, 16: State16}
REPLICA: dict[type, type] = {State4: Replica4, State8: Replica8, State16: Replica16}
REPLICAS = tuple(REPLICA.values())
WIDTH: dict[type, int] = {
    kind: width for width, state in _STATE.items() for kind in (state, REPLICA[state])
}
ALIGNMENT = 64  # a block of sixteen float32 is one cache line: it must not straddle two


def lanes_for(labels: int) -> int:
    """The number of lanes for a number of labels: 4, 8, 16, 24, 32, 40, ..."""
    return 4 if labels <= 4 else -(-labels // 8) * 8


def state_type(lanes: int) -> type:
    """The state whose blocks fill the lanes exactly."""
    return _STATE[16 if lanes % 16 == 0 else 8 if lanes % 8 == 0 else 4]


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that start at a cache line; untouched pages take no memory."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def width(state: Any) -> int:
    """Lanes in a block."""
    return WIDTH[type(state)]


def at(array: Any, i: Any) -> Any:
    """array[i] of a one-dimensional array, i not negative: no wrap-around, no test."""
    return array[i]


def bare(state: Any) -> Any:
    """The state without the record of its storage: less to pass around."""
    return type(state)(state.table, state.memory)


def load(state: Any, feature: Any, plane: Any, block: Any) -> Any:
    """A block of one feature's numbers."""
    w = WIDTH[type(state)]
    return state.table[feature, plane, block * w : (block + 1) * w].copy()


def save(state: Any, feature: Any, plane: Any, block: Any, vector: Any) -> None:
    """Write a block of one feature's numbers."""
    w = WIDTH[type(state)]
    state.table[feature, plane, block * w : (block + 1) * w] = vector


def prefetch(state: Any, feature: Any, line: Any) -> None:
    """Prefetch a cache line of a feature's numbers."""


def fetch(state: Any, array: Any, block: Any) -> Any:
    """A block of an array over lanes."""
    w = WIDTH[type(state)]
    return array[block * w : (block + 1) * w].copy()


def store(state: Any, array: Any, block: Any, vector: Any) -> None:
    """Write a block of an array over lanes."""
    w = WIDTH[type(state)]
    array[block * w : (block + 1) * w] = vector


def zero(state: Any) -> Any:
    """A vector of zeros."""
    return np.zeros(WIDTH[type(state)], state.table.dtype)


def root(vector: Any) -> Any:
    """Square root, lane by lane."""
    return np.sqrt(vector)


def unit(vector: Any) -> Any:
    """One, lane by lane."""
    return vector * 0 + 1 if isinstance(vector, np.ndarray) else type(vector)(1)


def at_least(vector: Any, bar: Any) -> Any:
    """The larger of the two, lane by lane."""
    return np.where(vector < bar, vector.dtype.type(bar), vector)[()]


def if_greater(left: Any, right: Any, vector: Any, otherwise: Any) -> Any:
    """Lane by lane, `vector` where left > right, and `otherwise` where not."""
    return np.where(left > right, vector, otherwise)[()]


def if_finite(test: Any, vector: Any, otherwise: Any) -> Any:
    """Lane by lane, `vector` where the test is a finite number, `otherwise` where it is not."""
    return np.where(np.isfinite(test), vector, otherwise)[()]


def pick(records: Any, i: Any) -> Any:
    """The i-th of many records kept as one record of arrays, or of such records."""
    return type(records)(
        *[pick(field, i) if isinstance(field, tuple) else field[i].item() for field in records]
    )


def largest(vector: Any) -> Any:
    """The largest lane."""
    return vector.max()


def first_at_least(vector: Any, bar: Any) -> Any:
    """The lowest lane not below the bar; 0 if there is none."""
    return int(np.argmax(vector >= bar))


if COMPILED:
    _I32, _I64 = ir.IntType(32), ir.IntType(64)

    class Vector(types.Type):
        """The numba type of a block."""

        def __init__(self, dtype: Any, width: int) -> None:
            self.dtype, self.width = dtype, width
            super().__init__(name=f"Vector({dtype}, {width})")

        @property
        def key(self) -> tuple[Any, int]:
            return self.dtype, self.width

    def _llvm(vector: Vector) -> ir.VectorType:
        number = ir.FloatType() if vector.dtype == types.float32 else ir.DoubleType()
        return ir.VectorType(number, vector.width)

    @register_model(Vector)
    class _VectorModel(models.PrimitiveModel):
        def __init__(self, manager: Any, vector: Vector) -> None:
            super().__init__(manager, vector, _llvm(vector))

    def _splat(builder: Any, scalar: Any, width: int) -> Any:
        undefined = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
        first_lane = builder.insert_element(undefined, scalar, _I32(0))
        lanes = ir.Constant(ir.VectorType(_I32, width), [0] * width)
        return builder.shuffle_vector(first_lane, undefined, lanes)

    def _of(state: Any) -> Vector:
        return Vector(state.types[0].dtype, WIDTH[state.instance_class])

    def _bytes(vector: Vector) -> int:
        return vector.dtype.bitwidth // 8

    def _index(context: Any, builder: Any, value: Any, kind: Any) -> Any:
        return context.cast(builder, value, kind, types.uint64)

    def _table(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """The table of the state `args[0]`."""
        table = builder.extract_value(args[0], 0)
        return context.make_array(sig.args[0].types[0])(context, builder, table)

    def _in_table(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """Address of block `args[3]` of plane `args[2]` of feature `args[1]`."""
        vector, table = _of(sig.args[0]), _table(context, builder, sig, args)
        _, planes, lanes = cgutils.unpack_tuple(builder, table.shape, 3)
        feature, plane, block = (_index(context, builder, args[i], sig.args[i]) for i in (1, 2, 3))
        line = builder.add(builder.mul(feature, planes), plane)
        lane = builder.mul(block, _I64(vector.width))
        address = builder.gep(table.data, [builder.add(builder.mul(line, lanes), lane)])
        return builder.bitcast(address, _llvm(vector).as_pointer())

    def _in_array(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        """Address of block `args[2]` of the array `args[1]`."""
        vector = _of(sig.args[0])
        array = context.make_array(sig.args[1])(context, builder, args[1])
        block = _index(context, builder, args[2], sig.args[2])
        address = builder.gep(array.data, [builder.mul(block, _I64(vector.width))])
        return builder.bitcast(address, _llvm(vector).as_pointer())

    @lowered(width, lambda state: types.int64)
    def _width(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _I64(WIDTH[sig.args[0].instance_class])

    @lowered(at, lambda array, i: array.dtype)
    def _at(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        i = _index(context, builder, args[1], sig.args[1])
        return builder.load(builder.gep(array.data, [i], inbounds=True))

    def _bare_type(state: Any) -> Any:
        return types.BaseTuple.from_types([*state.types[:2], types.none], state.instance_class)

    @lowered(bare, _bare_type)
    def _bare(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        fields = [builder.extract_value(args[0], i) for i in range(2)]
        return context.make_tuple(builder, sig.return_type, [*fields, context.get_dummy_value()])

    @lowered(load, lambda state, feature, plane, block: _of(state))
    def _load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _in_table(context, builder, sig, args)
        return builder.load(address, align=_bytes(sig.return_type))

    @lowered(prefetch, lambda state, feature, line: types.none)
    def _prefetch(context: Any, builder: Any, sig: Any, args: Any) -> None:
        byte, table = ir.IntType(8).as_pointer(), _table(context, builder, sig, args)
        size, _, _ = cgutils.unpack_tuple(builder, table.strides, 3)
        feature, line = (_index(context, builder, args[i], sig.args[i]) for i in (1, 2))
        far = builder.add(builder.mul(feature, size), builder.mul(line, _I64(ALIGNMENT)))
        address = builder.gep(builder.bitcast(table.data, byte), [far])
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(ask, [address, _I32(0), _I32(2), _I32(1)])  # to read, keep it, data

    @lowered(save, lambda state, feature, plane, block, vector: types.none)
    def _save(context: Any, builder: Any, sig: Any, args: Any) -> None:
        address = _in_table(context, builder, sig, args)
        builder.store(args[4], address, align=_bytes(sig.args[4]))

    @lowered(fetch, lambda state, array, block: _of(state))
    def _fetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _in_array(context, builder, sig, args)
        return builder.load(address, align=_bytes(sig.return_type))

    @lowered(store, lambda state, array, block, vector: types.none)
    def _store(context: Any, builder: Any, sig: Any, args: Any) -> None:
        address = _in_array(context, builder, sig, args)
        builder.store(args[3], address, align=_bytes(sig.args[3]))

    @lowered(zero, _of)
    def _zero(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(_llvm(sig.return_type), [0.0] * sig.return_type.width)

    # Vectors and single numbers alike: an update is written once, for one lane or for many.

    def _number(kind: Any) -> Any:
        """The type of a lane, or of the single number."""
        return kind.dtype if isinstance(kind, Vector) else kind

    def _all_lanes(kind: Any, number: float) -> Any:
        """The number as a constant in each lane."""
        is_vector = isinstance(kind, ir.VectorType)
        return ir.Constant(kind, [number] * kind.count if is_vector else number)

    @lowered(root, lambda vector: vector)
    def _root(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = f"v{sig.args[0].width}" if isinstance(sig.args[0], Vector) else ""
        name = f"llvm.sqrt.{lanes}f{_number(sig.args[0]).bitwidth}"
        kind = ir.FunctionType(args[0].type, [args[0].type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    @lowered(unit, lambda vector: vector)
    def _unit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _all_lanes(args[0].type, 1.0)

    @lowered(at_least, lambda vector, bar: vector)
    def _at_least(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bar = context.cast(builder, args[1], sig.args[1], _number(sig.args[0]))
        if isinstance(sig.args[0], Vector):
            bar = _splat(builder, bar, sig.args[0].width)
        return builder.select(builder.fcmp_ordered("<", args[0], bar), bar, args[0])

    @lowered(if_greater, lambda left, right, vector, otherwise: vector)
    def _if_greater(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        left, right, vector, otherwise = args
        return builder.select(builder.fcmp_ordered(">", left, right), vector, otherwise)

    @lowered(if_finite, lambda test, vector, otherwise: vector)
    def _if_finite(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        test, vector, otherwise = args
        difference = builder.fsub(test, test)  # not a number unless the test is finite
        finite = builder.fcmp_ordered("==", difference, _all_lanes(test.type, 0.0))
        return builder.select(finite, vector, otherwise)

    def _one_record(records: Any, i: Any) -> Any:
        kinds = [
            _one_record(field, i) if isinstance(field, types.BaseTuple) else field.dtype
            for field in records.types
        ]
        return types.BaseTuple.from_types(kinds, records.instance_class)

    @lowered(pick, _one_record)
    def _pick(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i = _index(context, builder, args[1], sig.args[1])
        return _pick_fields(context, builder, sig.args[0], args[0], i)

    def _pick_fields(context: Any, builder: Any, records: Any, given: Any, i: Any) -> Any:
        fields = []
        for place, kind in enumerate(records.types):
            field = builder.extract_value(given, place)
            if isinstance(kind, types.BaseTuple):
                fields.append(_pick_fields(context, builder, kind, field, i))
                continue
            array = context.make_array(kind)(context, builder, field)
            fields.append(load_item(context, builder, kind, builder.gep(array.data, [i])))
        return context.make_tuple(builder, _one_record(records, i), fields)

    @lowered(largest, lambda vector: vector.dtype)
    def _largest(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # Halve by shuffles: LLVM's own reduction handles NaN at every step, which costs time.
        vector, width = args[0], sig.args[0].width
        while width > 1:
            width //= 2
            unused = ir.Constant(vector.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(
                    vector, unused, ir.Constant(ir.VectorType(_I32, width), lanes)
                )
                for lanes in (list(range(width)), list(range(width, 2 * width)))
            ]
            vector = builder.select(builder.fcmp_ordered(">", *halves), *halves)
        return builder.extract_element(vector, _I32(0))

    @lowered(first_at_least, lambda vector, bar: types.int64)
    def _first_at_least(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        width = sig.args[0].width
        bar = context.cast(builder, args[1], sig.args[1], sig.args[0].dtype)
        reached = builder.fcmp_ordered(">=", args[0], _splat(builder, bar, width))
        bits = builder.zext(builder.bitcast(reached, ir.IntType(width)), _I32)
        first = builder.zext(builder.cttz(bits, ir.IntType(1)(0)), _I64)
        is_empty = builder.icmp_unsigned("==", bits, _I32(0))
        return builder.select(is_empty, _I64(0), first)

    def _arithmetic(symbol: Any, instruction: str) -> None:
        @infer_global(symbol)  # type: ignore[reportOptionalCall]
        class _(AbstractTemplate):
            def generic(self, args: Any, kws: Any) -> Any:
                if len(args) != 2 or not isinstance(args[0], Vector):
                    return None
                right = args[0] if isinstance(args[1], Vector) else args[0].dtype
                return signature(args[0], args[0], right)

        @lower_builtin(symbol, Vector, Vector)
        def _vectors(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        @lower_builtin(symbol, Vector, types.Float)
        def _scalar(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            right = _splat(builder, args[1], sig.args[0].width)
            return getattr(builder, instruction)(args[0], right)

    for _symbol, _instruction in (
        (operator.add, "fadd"),
        (operator.sub, "fsub"),
        (operator.mul, "fmul"),
        (operator.truediv, "fdiv"),
    ):
        _arithmetic(_symbol, _instruction)
