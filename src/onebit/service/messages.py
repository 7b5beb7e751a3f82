"""Messages: the bodies of requests and answers, each declared once.

The engine answers with them, HTTP decodes and encodes them, the client does the reverse, and the
OpenAPI document is generated from them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from onebit.service.faults import NoToken, Refused, ServiceError, TooLarge

LARGEST = 1e15  # number in a context. This and the next two are as in `contexts` and `labels`,
INDICES = 2**24  # which take long to import; a client should not wait for them.
LONGEST_LABEL = 200  # characters
Label = str | int
State = Literal["open", "waiting", "learned", "cancelled", "expired", "erased"]

_BOUNDS = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
_INDEX = {"type": "integer", "minimum": 0, "maximum": INDICES - 1}
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
# A pair is a list here, not a tuple[int, Number]: msgspec 0.22.0 reads foreign memory where a
# bounded number and a tuple are alternatives of each other. `context_of` checks pairs instead.
Entries = Annotated[
    list[Number | bool | list[Number] | None],
    Meta(
        description="numbers, true or false, null where one is missing; or pairs of an index and "
        "a number, where every index comes once",
        extra_json_schema={
            "items": True,
            "anyOf": [
                {"items": {**_BOUNDS, "type": ["number", "boolean", "null"]}},
                {
                    "items": {"type": "array", "prefixItems": [_INDEX, _BOUNDS], "minItems": 2}
                    | {"maxItems": 2}
                },
            ],
        },
    ),
]
Value = Number | str | bool | None
Context = (
    Annotated[
        dict[str, Value],
        Meta(description="features by name, with a number, a category or a text as value"),
    ]
    | Entries
    | Annotated[str, Meta(description="a text")]
)
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="chosen by the caller: the same request with the same key is done once",
    ),
]
# `$` alone also matches before a line break at the end. JSON Schema has no `\Z`.
END = r"$(?!\n)"
SOURCE = f"^[A-Za-z0-9][A-Za-z0-9._@+-]{{0,99}}{END}"
Source = Annotated[
    str,
    Meta(
        pattern=SOURCE,
        description="who gave the feedback, such as a user or a page",
    ),
]
Labels = Annotated[list[Label], Meta(min_length=1)]


# Requests.


class Question(Struct, forbid_unknown_fields=True, kw_only=True):
    """A context for which a label is wanted."""

    context: Context
    among: Labels | None = None  # only these labels are possible
    key: Key | None = None


class Questions(Struct, forbid_unknown_fields=True):
    """Many contexts. Either all of them get a label, or the request is refused as a whole."""

    decisions: Annotated[list[Question], Meta(min_length=1)]


# As `Learner.learn` takes it: databases have 0 and 1.
Right = Annotated[bool | Literal[0, 1], Meta(description="true or 1: right; false or 0: wrong")]


class Verdict(Struct, forbid_unknown_fields=True, kw_only=True):
    """Whether a decision was right, or which label would have been: one of the two."""

    right: Right | UnsetType = UNSET
    label: Label | UnsetType = UNSET


class Feedback(Verdict, forbid_unknown_fields=True, kw_only=True):
    """A verdict, with who gave it."""

    source: Source | None = None
    key: Key | None = None


class Answer(Feedback, forbid_unknown_fields=True, kw_only=True):
    """Feedback that names its decision."""

    id: str


ONE_OF_TWO = {"oneOf": [{"required": ["right"]}, {"required": ["label"]}]}


class Answers(Struct, forbid_unknown_fields=True):
    """Feedback on many decisions, perhaps of several models. Each is taken or refused by itself."""

    feedback: Annotated[
        list[Annotated[Answer, Meta(extra_json_schema=ONE_OF_TWO)]], Meta(min_length=1)
    ]


NewLabel = (
    Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_LABEL,
            description="a text that is not blank, without control characters",
        ),
    ]
    | int
)


class Logged(Verdict, forbid_unknown_fields=True, kw_only=True):
    """What another system said for a context, with feedback if there is any already."""

    context: Context
    said: Label
    # The probability with which it was said; none: not known.
    propensity: Annotated[float, Meta(gt=0, le=1)] | None = None
    propensities: dict[str, Annotated[float, Meta(ge=0, le=1)]] | None = None  # of every label
    among: Labels | None = None  # only these labels were possible
    speaker: Source = "other"  # which system
    time: Annotated[float, Meta(ge=0, le=1e11)] | None = None  # when; seconds since 1970
    source: Source | None = None  # of the feedback
    key: Key | None = None


AT_MOST_ONE = {"not": {"required": ["right", "label"]}}


class LoggedMany(Struct, forbid_unknown_fields=True):
    """What other systems said. Each entry is recorded or refused by itself."""

    logged: Annotated[
        list[Annotated[Logged, Meta(extra_json_schema=AT_MOST_ONE)]], Meta(min_length=1)
    ]


class LabelChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """Labels that may be said from now on, and labels that may not be said any more."""

    add: list[NewLabel] = []
    retire: list[Label] = []


class SourceChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """How much the feedback of a source counts, and whether it is kept but not learned from."""

    weight: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    quarantined: bool | UnsetType = UNSET


class Retraining(Struct, forbid_unknown_fields=True, kw_only=True):
    """Another learner, built from the journal; without any of these: the same one, built again."""

    learner: str | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | UnsetType = UNSET


class Promotion(Struct, forbid_unknown_fields=True, kw_only=True):
    """A shadow that is to speak; or that the one who spoke before it is to speak again."""

    shadow: Annotated[str, Meta(min_length=1)] | None = None
    undo: Literal[True] | None = None


# Answers.


class Told(Struct, frozen=True, kw_only=True):
    """A decision."""

    id: str
    label: Label
    confidence: float | None  # estimated chance that this label is right; null: no estimate
    propensity: float  # the probability with which this label was said
    propensities: dict[str | int, float]  # of every label that was possible; empty: erased
    explored: bool  # whether another label had the best score
    round: int


class ToldMany(Struct, frozen=True):
    """Decisions, in the order of the contexts."""

    decisions: list[Told]


class Standing(Struct, frozen=True):
    """The state of a decision."""

    id: str
    state: State


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    where: str = ""  # the part of the body at fault, as a JSON path


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one answer in a batch: a state, or a problem."""

    id: str
    state: State | None = None
    problem: Problem | None = None


class Outcomes(Struct, frozen=True):
    """What became of each answer, in the order of the request."""

    feedback: list[Outcome]


class LoggedOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an entry of a batch: an id and a state, or a problem."""

    id: str | None = None
    state: State | None = None
    problem: Problem | None = None


class LoggedOutcomes(Struct, frozen=True):
    """What became of each entry, in the order of the request."""

    logged: list[LoggedOutcome]


class Heard(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Feedback as it is kept."""

    time: float  # seconds since 1970
    right: bool | None = None
    label: Label | None = None
    source: str | None = None
    revoked: bool = False  # or replaced by a later one


class Record(Told, frozen=True, kw_only=True):
    """All that is kept of a decision."""

    # null: another system said the label, and nobody knows it.
    propensity: float | None  # type: ignore[assignment]
    model: str
    time: float  # seconds since 1970
    state: State
    context: Context | None  # None: it was erased
    feedback: list[Heard]
    speaker: str | None = None  # the other system that said the label; null: the model
    said_at: float | None = None  # when it said so, in seconds since 1970


class SourceCard(Struct, frozen=True, kw_only=True):
    """A source of feedback."""

    weight: float
    quarantined: bool
    answers: int


class Interval(Struct, frozen=True):
    low: float
    high: float


class ShadowPoint(Struct, frozen=True):
    """A comparison as it was after so many rounds."""

    rounds: int
    difference: float | None
    low: float
    high: float


class ShadowCard(Struct, frozen=True, kw_only=True):
    """A learner that is taught by the same answers and never speaks, beside the one that speaks."""

    learner: str
    settings: dict[str, Any]
    seed: int
    version: int
    promote: str  # "by hand", or "when better"
    problem: str = ""  # why it is down
    behind: int  # events that it has still to learn
    names: int = 0  # features that have weights of their own
    vocabulary: int | None = None  # the most that may have; null: no limit
    rounds: int = 0  # answered rounds of the speaker, since it speaks
    speaker_right: float | None = None  # share of right labels in them
    difference: float | None = None  # estimated, shadow minus speaker; null: see notes
    interval: Interval | None = None  # holds at any time with this confidence
    bracket: Interval | None = None  # of the difference in these rounds, whatever the propensities
    confidence: float = 0.95
    notes: list[str] = []
    curve: list[ShadowPoint] = []


class Card(Struct, frozen=True, kw_only=True):
    """A model: what it is, what it was told, and how well it does."""

    name: str
    title: str
    learner: str
    settings: dict[str, Any]
    seed: int
    speaker: str | None = None  # whose learner it is, by its table; null: another system speaks
    labels: list[Label]
    retired: list[Label]  # labels that are not said any more
    version: int  # of the learner: every retraining gets a higher one
    rebuilding: bool  # whether another learner is being built behind the scenes
    problem: str = ""  # why the learner that was asked for last is not in charge
    names: int  # features that have weights of their own
    vocabulary: int | None  # the most that may have; None: no limit
    names_are_shared: bool  # it is full: all new names of a context are one feature
    rounds: int
    answers: int
    open: int  # decisions that wait for feedback, or expired since they were last counted
    error_share: float | None  # of the answered rounds
    logged: int = 0  # rounds in which another system spoke; they are not among the others
    logged_error_share: float | None = None  # of those that were answered
    explored_share: float | None
    smallest_propensity: float | None
    one_right: float | None = (
        None  # the learner's belief that exactly one label is right in each round
    )
    sources: dict[str, SourceCard]
    shadows: dict[str, ShadowCard] = {}
    revisions: bool
    deferred: bool
    wrong_after: float | None  # seconds
    expires_after: float | None  # seconds


class ModelName(Struct, frozen=True):
    name: str
    title: str


class ModelList(Struct, frozen=True):
    """The models that the bearer of the token may read."""

    models: list[ModelName]


class Health(Struct, frozen=True):
    """An answer at all says that the process lives."""

    status: Literal["ok"] = "ok"


class Building(Struct, frozen=True, kw_only=True):
    """How far a learner is that is being built from the journal."""

    rounds: int  # that it has gone through
    of: int
    seconds_left: float | None  # about; None: nobody knows yet


class Readiness(Struct, frozen=True, omit_defaults=True):
    """The models that are compiled and caught up with the journal."""

    status: Literal["ready"]
    models: list[str]
    building: dict[str, Building] = {}  # learners that are built while the present ones answer
    problems: dict[str, str] = {}  # of models that answer, by another learner than was asked for
    down: dict[str, str] = {}  # models that could not be built, and do not answer
    clock: str = ""  # what is wrong with the system's clock


def context_of(context: Context, most: int, where: str = "$.context") -> Any:
    """The context as it is kept, after checks of its size and its pairs.

    most: how many entries it may have.
    """
    if isinstance(context, str):
        return context
    if len(context) > most:
        raise TooLarge(f"a context has at most {most:,} entries, not {len(context):,}", where=where)
    if isinstance(context, dict) or not any(type(entry) is list for entry in context):
        return context
    pairs: Any = context
    for i, pair in enumerate(pairs):
        if not (type(pair) is list and len(pair) == 2 and _is_index(pair[0])):
            raise Refused(
                "an entry is a number or null, or all entries are pairs of an index (a whole "
                f"number from 0 to {INDICES - 1}) and a number",
                where=f"{where}[{i}]",
            )
    return [[int(index), value] for index, value in pairs]


def _is_index(number: float) -> bool:
    return number.is_integer() and 0 <= number < INDICES


def problem_of(fault: ServiceError) -> Problem:
    """A fault as it is sent."""
    return Problem(
        type=fault.kind,
        title=fault.title,
        status=fault.status,
        detail=fault.detail,
        where=fault.where,
    )


def headers_of(fault: ServiceError) -> dict[str, str]:
    """The headers that go with a fault."""
    headers = {}
    if fault.retry_after is not None:
        headers["retry-after"] = str(math.ceil(fault.retry_after))
    if isinstance(fault, NoToken):
        headers["www-authenticate"] = "Bearer"
    if isinstance(fault, TooLarge):  # the rest of the body is not read
        headers["connection"] = "close"
    return headers


def fault_of(problem: Problem, retry_after: float | None = None) -> ServiceError:
    """The reverse of `problem_of`."""
    kind = ServiceError.kinds.get(problem.type, ServiceError)
    fault = kind(problem.detail, where=problem.where, retry_after=retry_after)
    if kind is ServiceError:  # of a later version, or of a proxy
        fault.status, fault.title = problem.status, problem.title  # type: ignore[misc]
    return fault
