"""The routes: each is declared once, by `operation`.

That is its method and path, the verb that a token needs, the types of its body and its answer, and
its faults. The OpenAPI document is generated from these.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta
from msgspec.structs import replace

from onebit.service import faults, messages
from onebit.service.engine import Pending
from onebit.service.faults import ServiceError
from onebit.service.http.metrics import CONTENT_TYPE
from onebit.service.http.openapi import describe
from onebit.service.http.operation import OPERATIONS, Call, operation
from onebit.service.messages import (
    AT_MOST_ONE,
    ONE_OF_TWO,
    Feedback,
    Outcome,
    Verdict,
    context_of,
    problem_of,
)

# Deciding.


def _question(call: Call, question: messages.Question, where: str = "$") -> messages.Question:
    most = call.service.configuration.service.limits.features
    question.context = context_of(question.context, most, f"{where}.context")
    return question


def _check_batch(call: Call, size: int) -> None:
    most = call.service.configuration.service.limits.batch
    if size > most:
        raise faults.TooLarge(f"a batch has at most {most:,} entries, not {size:,}")


@operation(
    "POST",
    "/v1/models/{name}/decisions",
    "decide",
    body=messages.Question,
    answer=messages.Told,
    status=201,
    also=[faults.KeyReused],
)
async def decide(call: Call) -> messages.Told:
    """Say a label for a context."""
    question, engine = _question(call, call.body), call.engine
    pending = await call.submitted(
        engine, engine.submit_decide, question.context, question.among, question.key
    )
    told = await call.durable(pending)
    call.headers.append((b"location", b"/v1/decisions/" + told.id.encode()))
    return told


@operation(
    "POST",
    "/v1/decisions/{id}/feedback",
    "feedback",
    body=Annotated[Feedback, Meta(extra_json_schema=ONE_OF_TWO)],
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction, faults.KeyReused],
)
async def give_feedback(call: Call) -> messages.Standing:
    """Say whether a decision was right, or which label would have been."""
    right, label = _verdict(call.body)
    source, key, engine = call.body.source, call.body.key, call.engine
    pending = await call.submitted(
        engine, engine.submit_feedback, call.names["id"], right, label, source, key
    )
    return await call.durable(pending)


def _verdict(verdict: Verdict, where: str = "$") -> tuple[bool | None, messages.Label | None]:
    right, label = verdict.right, verdict.label
    if (right is UNSET) == (label is UNSET):
        raise faults.Refused(
            'say either "right": true, "right": false, or "label": the right one', where=where
        )
    return None if right is UNSET else bool(right), None if label is UNSET else label


@operation(
    "POST",
    "/v1/models/{name}/decisions:batch",
    "decide",
    body=messages.Questions,
    answer=messages.ToldMany,
    status=201,
    also=[faults.KeyReused],
)
async def decide_many(call: Call) -> messages.ToldMany:
    """Say labels for many contexts, or for none of them."""
    questions = call.body.decisions
    _check_batch(call, len(questions))
    for i, question in enumerate(questions):
        _question(call, question, f"$.decisions[{i}]")
    engine = call.engine
    pending = await call.submitted(engine, engine.submit_decide_many, questions)
    return messages.ToldMany(await call.durable(pending))


@operation(
    "POST",
    "/v1/feedback:batch",
    "feedback",
    body=messages.Answers,
    answer=messages.Outcomes,
)
async def give_feedback_many(call: Call) -> messages.Outcomes:
    """Give feedback on many decisions. Each is taken or refused by itself."""
    answers = call.body.feedback
    _check_batch(call, len(answers))
    outcomes: list[Any] = [None] * len(answers)
    chosen_of: dict[str, list[int]] = {}

    def sort_out() -> None:
        for i, answer in enumerate(answers):
            _verdict(answer, f"$.feedback[{i}]")
            try:
                model = call.service.model_of(answer.id)
                call.permit("feedback", model)
                chosen_of.setdefault(model, []).append(i)
            except ServiceError as fault:
                outcomes[i] = fault

    await call.apart(sort_out)  # each may have to be looked up in the journal
    submitted: list[tuple[list[int], Pending[list[messages.Standing | ServiceError]]]] = []
    for model, chosen in chosen_of.items():
        mine = [answers[i] for i in chosen]
        try:
            engine = call.engine_of(model)
            pending = await call.submitted(engine, engine.submit_feedback_many, mine)
            submitted.append((chosen, pending))
        except ServiceError as fault:
            if len(chosen_of) == 1:
                raise
            for i in chosen:
                outcomes[i] = fault
    for chosen, pending in submitted:
        for i, result in zip(chosen, await call.durable(pending), strict=True):
            outcomes[i] = result
    return messages.Outcomes([*map(_outcome, range(len(answers)), answers, outcomes)])


def _outcome(i: int, answer: messages.Answer, result: messages.Standing | ServiceError) -> Outcome:
    if not isinstance(result, ServiceError):
        return Outcome(id=answer.id, state=result.state)
    return Outcome(id=answer.id, problem=_located(result, f"$.feedback[{i}]"))


# Other systems.


def _logged(call: Call, logged: messages.Logged, where: str = "$") -> messages.Logged:
    most = call.service.configuration.service.limits.features
    logged.context = context_of(logged.context, most, f"{where}.context")
    if UNSET not in (logged.right, logged.label):
        raise faults.Refused('say "right" or "label", not both', where=where)
    if logged.right is not UNSET or logged.label is not UNSET:
        call.permit("feedback", call.model)
    return logged


@operation(
    "POST",
    "/v1/models/{name}/logged",
    "decide",
    body=Annotated[messages.Logged, Meta(extra_json_schema=AT_MOST_ONE)],
    answer=messages.Standing,
    status=201,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction, faults.KeyReused],
)
async def log(call: Call) -> messages.Standing:
    """Record what another system said, with feedback if there is any, and learn from it."""
    logged, engine = _logged(call, call.body), call.engine
    return await call.durable(await call.submitted(engine, engine.submit_logged, logged))


@operation(
    "POST",
    "/v1/models/{name}/logged:batch",
    "decide",
    body=messages.LoggedMany,
    answer=messages.LoggedOutcomes,
    status=201,
)
async def log_many(call: Call) -> messages.LoggedOutcomes:
    """Record what other systems said. Each entry is recorded or refused by itself."""
    items = call.body.logged
    _check_batch(call, len(items))
    for i, item in enumerate(items):
        _logged(call, item, f"$.logged[{i}]")
    engine = call.engine
    pending = await call.submitted(engine, engine.submit_logged_many, items)
    results = await call.durable(pending)
    return messages.LoggedOutcomes([*map(_logged_outcome, range(len(items)), results)])


def _logged_outcome(i: int, result: messages.Standing | ServiceError) -> messages.LoggedOutcome:
    if not isinstance(result, ServiceError):
        return messages.LoggedOutcome(id=result.id, state=result.state)
    return messages.LoggedOutcome(problem=_located(result, f"$.logged[{i}]"))


def _located(fault: ServiceError, where: str) -> messages.Problem:
    """The problem of an entry of a batch."""
    problem = problem_of(fault)
    return replace(problem, where=f"{where}{problem.where[1:]}") if problem.where else problem


# One decision.


@operation("GET", "/v1/decisions/{id}", "read", answer=messages.Record)
async def look(call: Call) -> messages.Record:
    """All that is kept of a decision."""
    return await call.apart(call.engine.look, call.names["id"])


@operation("DELETE", "/v1/decisions/{id}", "admin", answer=messages.Standing, also=[faults.Expired])
async def erase(call: Call) -> messages.Standing:
    """Erase what is stored about the context of a decision, and rebuild the learner without it."""
    return await call.durable(await call.apart(call.engine.submit_erase, call.names["id"]))


@operation(
    "PUT",
    "/v1/decisions/{id}/feedback",
    "feedback",
    body=Annotated[Verdict, Meta(extra_json_schema=ONE_OF_TWO)],
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def revise(call: Call) -> messages.Standing:
    """Replace the feedback on a decision: it is learned as if it had always been so."""
    right, label = _verdict(call.body)
    return await call.durable(
        await call.apart(call.engine.submit_revise, call.names["id"], right, label)
    )


@operation(
    "DELETE",
    "/v1/decisions/{id}/feedback",
    "feedback",
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def revoke(call: Call) -> messages.Standing:
    """Take back the feedback on a decision: the learner is rebuilt without it."""
    return await call.durable(await call.apart(call.engine.submit_revoke, call.names["id"]))


@operation(
    "POST",
    "/v1/decisions/{id}/cancel",
    "decide",
    answer=messages.Standing,
    also=[faults.Expired, faults.Contradiction],
)
async def cancel(call: Call) -> messages.Standing:
    """Say that a decision was not used. No feedback on it is taken any more."""
    return await call.durable(await call.apart(call.engine.submit_cancel, call.names["id"]))


@operation(
    "POST",
    "/v1/decisions/{id}/shown",
    "decide",
    answer=messages.Standing,
    also=[faults.Expired, faults.Cancelled, faults.Contradiction],
)
async def show(call: Call) -> messages.Standing:
    """Say that a decision was shown, where the model counts only those (deferred = true)."""
    engine = call.engine
    return await call.durable(await call.submitted(engine, engine.submit_shown, call.names["id"]))


# Models.


@operation("GET", "/v1/models", None, answer=messages.ModelList, also=[faults.NoToken])
async def list_models(call: Call) -> messages.ModelList:
    """The models that the bearer of the token may read."""
    configured = call.service.configuration.models
    names = filter(call.may_read, [*call.service.models, *call.service.down])
    titles = [(name, configured[name].title if name in configured else "") for name in names]
    return messages.ModelList([messages.ModelName(name, title) for name, title in titles])


@operation("GET", "/v1/models/{name}", "read", answer=messages.Card)
async def card(call: Call) -> messages.Card:
    """What a model is, what it was told, and how well it does."""
    return await call.app.reads(("card", call.model), call.engine.card)


@operation(
    "POST",
    "/v1/models/{name}/retrain",
    "admin",
    body=messages.Retraining,
    answer=messages.Card,
    status=202,
    also=[faults.Contradiction],
)
async def retrain(call: Call) -> messages.Card:
    """Build another learner from the journal. The present one answers until it is ready."""
    return await call.durable(await call.apart(call.engine.submit_retrain, call.body))


@operation(
    "POST",
    "/v1/models/{name}/promote",
    "admin",
    body=Annotated[
        messages.Promotion,
        Meta(extra_json_schema={"oneOf": [{"required": ["shadow"]}, {"required": ["undo"]}]}),
    ],
    answer=messages.Card,
    also=[faults.Contradiction],
)
async def promote(call: Call) -> messages.Card:
    """Let a shadow speak from now on, or who has spoken before it (undo)."""
    if (call.body.shadow is None) == (call.body.undo is None):
        raise faults.Refused('say either "shadow": "NAME" or "undo": true')
    return await call.durable(await call.apart(call.engine.submit_promote, call.body))


@operation(
    "POST",
    "/v1/models/{name}/labels",
    "admin",
    body=messages.LabelChange,
    answer=messages.Card,
    also=[faults.Contradiction],
)
async def change_labels(call: Call) -> messages.Card:
    """Add labels, and retire labels: these are not said any more."""
    return await call.durable(await call.apart(call.engine.submit_labels, call.body))


@operation(
    "PUT",
    "/v1/models/{name}/sources/{source}",
    "admin",
    body=Annotated[messages.SourceChange, Meta(extra_json_schema={"minProperties": 1})],
    answer=messages.Card,
)
async def weigh_source(call: Call) -> messages.Card:
    """Say how much the feedback of a source counts, or put it into quarantine."""
    return await call.durable(
        await call.apart(call.engine.submit_source, call.names["source"], call.body)
    )


@operation("DELETE", "/v1/models/{name}/sources/{source}", "admin", answer=messages.Card)
async def remove_source(call: Call) -> messages.Card:
    """Remove all feedback of a source, and rebuild the learner without it."""
    return await call.durable(
        await call.apart(call.engine.submit_remove_source, call.names["source"])
    )


# The service itself.


@operation("GET", "/health", None, answer=messages.Health)
async def health(call: Call) -> messages.Health:
    """Whether the process answers."""
    return messages.Health()


@operation("GET", "/ready", None, answer=messages.Readiness, also=[faults.Unavailable])
async def ready(call: Call) -> messages.Readiness:
    """Whether requests are taken: all models are compiled and caught up with the journal."""
    call.service.check_ready()
    models = call.service.models
    # The reason is on the card, for those who may read it.
    told = "the learner that was asked for could not be built; the model card says why"
    problems = {name: told for name, engine in models.items() if engine.problem}
    building = {name: far.told() for name, far in dict(call.service.building).items()}
    # The reason is for those who may read the card.
    down = dict.fromkeys(call.service.down, "it could not be built; the log says why")
    clock = call.service.clock.problem
    return messages.Readiness("ready", list(models), building, problems, down, clock)


@operation("GET", "/metrics", "read", answer=CONTENT_TYPE)
async def metrics(call: Call) -> bytes:
    """Metrics for Prometheus. With tokens, this needs one that may read every model."""
    return await call.app.metric_reads("metrics", call.app.metrics.text)


@operation("GET", "/openapi.json", None, answer=dict[str, Any])
async def openapi(call: Call) -> dict[str, Any]:
    """This document."""
    return describe(OPERATIONS)
