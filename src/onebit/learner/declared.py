"""An algorithm is one class body. This module derives everything else from that body.

    class Banditron(Learner):
        "Perceptron with uniform exploration."

        planes = 1
        gamma: float = setting(default=0.05, above=0, most=1, doc="share of random labels")

        score = linear_score
        say = epsilon_greedy
        lockstep = add

        @staticmethod
        def hear(params, state, work, row, turn, choice, right): ...

From the settings come the constructor, the record that compiled code reads (`Params`), the ranges
of `tune`, and the part of the docstring that describes them. The compiled members are registered
for that record. A class with missing members is refused when it is made.
"""

from __future__ import annotations

import inspect
import textwrap
from collections import namedtuple
from typing import Any, ClassVar, dataclass_transform

from onebit.core import lists, rounds
from onebit.core.choosing import could_say_at_random
from onebit.core.jit import implement
from onebit.core.settings import REQUIRED, SHARED, Range, Setting, setting

_SIGNATURES = {  # of the compiled members
    "score": "params, state, work, row, turn",
    "say": "params, state, work, turn",
    "law": "params, state, work, turn",
    "could_say": "params, state, work, row, turn, choice",
    "hear": "params, state, work, row, turn, choice, right",
    "hear_label": "params, state, work, row, turn, label",
    "noted": "params, state, work, turn, choice",
    "could_note": "params, state, work, row, turn, choice",
}
# Of learners with a rule of their own for lists (`core.lists`).
_OF_LISTS = ("rank", "say_list", "list_law", "could_say_list", "hear_list")


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
class Declared:
    """A class whose body declares settings and compiled members."""

    declared: ClassVar[dict[str, Setting]] = {}  # the settings, by name
    ranges: ClassVar[dict[str, Range | tuple[Any, ...]]] = {}  # where `tune` looks for good ones
    Params: ClassVar[Any] = None  # the record of settings that compiled code reads
    members: ClassVar[dict[str, Any]] = {
        **{name: getattr(rounds, name) for name in (*_SIGNATURES, "settle")},
        **{name: getattr(lists, name) for name in _OF_LISTS},
    }
    planes: ClassVar[int]  # numbers per feature and label
    full_information: ClassVar[bool] = False  # it learns from the true label
    lockstep_loop: ClassVar[Any] = None  # a module with a loop for streams without a channel
    mistake_bound: ClassVar[str] = ""  # the function of `lab.bounds` that is proved for it
    registry: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Setting)}
        settings = {**cls.declared, **own}
        own_first = sorted(settings, key=lambda name: name in SHARED)
        cls.declared = {name: settings[name] for name in own_first}
        cls.ranges = {name: s.search for name, s in cls.declared.items() if s.search is not None}
        if own or "Params" in vars(cls) or set(vars(cls)) & {*cls.members, "lockstep"}:
            _derive_params(cls)
            _register_members(cls)
            if "lockstep_loop" not in vars(cls):  # the inherited loop does not have these members
                cls.lockstep_loop = None
            if "mistake_bound" not in vars(cls):  # it is proved for the inherited members
                cls.mistake_bound = ""
            if "shows_lists" not in vars(cls):  # the inherited rule is for the inherited members
                cls.shows_lists = False
        for variant in vars(cls).values():
            if isinstance(variant, type) and issubclass(variant, Variant):
                _derive_variant(cls, variant)
        cls.__signature__ = _signature(cls)
        if Declared in cls.__bases__ or cls.__name__.startswith("_"):
            return
        _check_complete(cls)
        cls.__doc__ = _documented(cls)
        _enter(cls)


class Variant:
    """Nested in a learner's class: other compiled members, for some of its settings."""

    Params: ClassVar[Any] = None


def _derive_params(cls: Any) -> None:
    """Make the record of all settings that are numbers, unless the body has one."""
    record = vars(cls).get("Params")
    if record is None:
        numbers = [n for n, s in cls.declared.items() if s.is_number and n not in SHARED]
        inherited = cls.Params is not None and cls.Params._fields
        record = namedtuple("Params", inherited or numbers)
    _set_params(cls, record)


def _set_params(owner: Any, record: Any) -> None:
    """Name the record after its owner: compiled code is cached by the names of types."""
    record.__module__, record.__qualname__ = owner.__module__, f"{owner.__qualname__}.Params"
    record.__name__ = f"{owner.__name__}Params"
    owner.Params = record


def _register_members(cls: Any) -> None:
    update = getattr(cls, "lockstep", None)
    settle = None if update is None else update.settled
    for name, generic in cls.members.items():
        body = settle if name == "settle" else _member(cls, name)
        if body is not None:
            implement(generic, cls.Params)(body)
            if name in vars(cls):
                setattr(cls, name, staticmethod(body))


def _member(cls: type, name: str) -> Any:
    """A compiled member: of the class, or of a shared `say`, which includes its law."""
    for kind in cls.__mro__:
        if name in vars(kind):
            return getattr(kind, name)
        if hasattr(getattr(kind, "say", None), name):
            return getattr(kind.say, name)
    return could_say_at_random if name == "could_say" and not _reads_propensity(cls) else None


def _reads_propensity(cls: Any) -> bool:
    """Whether learning depends on the propensity, so that a forged one would do harm."""
    code = getattr(getattr(cls, "hear", None), "__code__", None)
    reads = code is not None and "propensity" in code.co_names
    return reads or getattr(cls, "importance_weighted", False)


def _derive_variant(cls: Any, variant: Any) -> None:
    _set_params(variant, namedtuple("Params", cls.Params._fields))
    for name, generic in cls.members.items():
        body = generic.bodies.get(cls.Params)
        if name in vars(variant):
            body = getattr(variant, name)
        elif name == "settle" and "lockstep" in vars(variant):
            body = variant.lockstep.settled
        if body is not None:
            implement(generic, variant.Params)(body)


def _signature(cls: type[Declared]) -> inspect.Signature:
    """Labels and settings; for a class with its own constructor, the arguments of that."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    settings = [
        inspect.Parameter(name, keyword, default=_default_of(s)) for name, s in cls.declared.items()
    ]
    if "__init__" in vars(cls) and Declared not in cls.__bases__:
        own = list(inspect.signature(vars(cls)["__init__"]).parameters.values())[1:]
        own = [parameter for parameter in own if parameter.kind != parameter.VAR_KEYWORD]
        names = {parameter.name for parameter in own}
        shared = [p for p in settings if p.name in SHARED and p.name not in names]
        return inspect.Signature([*own, *shared])
    labels = inspect.Parameter("labels", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    examples = inspect.Parameter("examples", keyword, default=None)
    return inspect.Signature([labels, examples, *settings])


def _default_of(declared: Setting) -> Any:
    """The default as a signature shows it; None if it is computed."""
    if declared.default is REQUIRED:
        return inspect.Parameter.empty
    return None if callable(declared.default) else declared.default


def _check_complete(cls: Any) -> None:
    """Refuse a class with missing members."""
    name = cls.__name__
    if not hasattr(cls, "planes"):
        raise TypeError(f"{name} lacks planes: how many numbers it keeps per feature and label")
    hears = "hear_label" if cls.full_information else "hear"
    for member in ("score", "say", "law", hears, "could_say"):
        if cls.Params not in cls.members[member].bodies:
            raise TypeError(
                f"{name} lacks {member}: a compiled member, def {member}({_SIGNATURES[member]})"
            )
    if not hasattr(cls, "lockstep"):
        raise TypeError(
            f"{name} lacks lockstep: the update that waits in lockstep until a row is done, such "
            "as `add`, or None if its functions change the weights at once"
        )


def _documented(cls: type[Declared]) -> str:
    """The docstring, with a section on the settings."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    lines = []
    for name, s in cls.declared.items():
        if name not in SHARED:
            default = "" if s.default is REQUIRED else f" ({s.shown})"
            lines += textwrap.wrap(f"{name}{default}: {s.doc}", 96, subsequent_indent="    ")
    return "\n".join([text, *(["", "Settings:", "", *lines] if lines else [])])


def _enter(cls: type[Declared]) -> None:
    """Register the class by its name."""
    by_name = {name.lower(): kind for name, kind in Declared.registry.items()}  # as looked up
    known = by_name.get(cls.__name__.lower())
    if known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"a learner named {cls.__name__} already exists, in {known.__module__}; "
            "learners are found by name, so choose another name"
        )
    Declared.registry[cls.__name__] = cls
