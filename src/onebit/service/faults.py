"""Faults: why the service refuses a request. The engine and HTTP raise them, the client too.

A fault has a status of HTTP and a title, both fixed by its class, and a detail: what was wrong with
this request, and what to do. `kind` names the class on the wire, as the `type` of a problem
(RFC 9457), so the client raises the same class again.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar


class ServiceError(Exception):
    """A request that was refused, or that could not be answered."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "internal error"
    kind: ClassVar[str] = "urn:onebit:service-error"
    kinds: ClassVar[dict[str, type[ServiceError]]] = {}
    retry_after: float | None = None  # seconds after which the same request may succeed

    def __init__(
        self, detail: str = "", *, where: str = "", retry_after: float | None = None
    ) -> None:
        """where: the part of the request that is at fault, as a JSON path: "$.context.age"."""
        super().__init__(detail or self.title)
        self.detail, self.where = detail or self.title, where
        if retry_after is not None:
            self.retry_after = retry_after

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = "urn:onebit:" + re.sub(r"(?<!^)([A-Z])", r"-\1", cls.__name__).lower()
        ServiceError.kinds[cls.kind] = cls


ServiceError.kinds[ServiceError.kind] = ServiceError


class Malformed(ServiceError):
    """The body is not JSON, or the request is not HTTP as it should be."""

    status, title = 400, "malformed request"


class NoToken(ServiceError):
    """No token, or a token that the service does not know."""

    status, title = 401, "no valid token"


class NotPermitted(ServiceError):
    """The token is known, but is not for this model or this verb."""

    status, title = 403, "not permitted"


class UnknownPath(ServiceError):
    status, title = 404, "no such path"


class UnknownModel(ServiceError):
    status, title = 404, "unknown model"


class UnknownDecision(ServiceError):
    status, title = 404, "unknown decision"


class WrongMethod(ServiceError):
    status, title = 405, "wrong method"


class TooSlow(ServiceError):
    """The body did not arrive in time."""

    status, title = 408, "request too slow"


class Cancelled(ServiceError):
    """The decision was cancelled, so feedback on it counts for nothing."""

    status, title = 409, "decision cancelled"


class Contradiction(ServiceError):
    """The request contradicts an earlier one, such as another answer to the same decision."""

    status, title = 409, "contradiction"


class KeyReused(ServiceError):
    """The idempotency key belongs to an earlier request that asked for something else."""

    status, title = 409, "key reused"


class Expired(ServiceError):
    """Too much time has passed since the decision."""

    status, title = 410, "decision expired"


class TooLarge(ServiceError):
    """A body, batch, context or list of labels beyond the limits of the configuration."""

    status, title = 413, "too large"


class WrongMediaType(ServiceError):
    status, title = 415, "wrong media type"


class Misdirected(ServiceError):
    """The address in the request line names another host than the header `host`."""

    status, title = 421, "this service is no proxy"


class Refused(ServiceError):
    """The request is understood, but a value in it cannot be used."""

    status, title = 422, "value refused"


class HeadTooLarge(ServiceError):
    status, title = 431, "headers too large"


class Busy(ServiceError):
    """The queue is full. Nothing of the request was taken; it can be sent again."""

    status, title, retry_after = 503, "busy", 1.0


class Unavailable(ServiceError):
    """The service cannot take requests now: it starts, stops, or its disk fails."""

    status, title, retry_after = 503, "unavailable", 5.0


class Damaged(Unavailable):
    """A journal or a snapshot cannot be read."""

    title = "damaged journal"


class JournalInUse(Unavailable):
    """Another process owns the journal."""

    title = "journal in use"


class Superseded(Unavailable):
    """Another process has the journal now. This one has to stop."""

    title = "another process has the journal"
