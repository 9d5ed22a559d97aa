"""What can go wrong on the wire, told apart by what the caller knows afterwards.

An HTTP answer is definite: the server refused or failed. `NotSent` is definite too: no connection, so nothing has
happened. After `UnknownOutcome` a write may or may not have taken place, and only a read tells.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

_RETRYABLE: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_LONGEST_TEXT: Final = 300
LONGEST_RETRY_AFTER_SECONDS: Final = 60.0
"""More than an API server ever asks for (32 s under overload, kube-apiserver, flowcontrol/dropped_requests_tracker.go;
10 s for a disruption budget): whoever says a day, such as a proxy in maintenance, is asked again all the same."""
DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""The cause of a 429 by which the Eviction API says that a budget does not allow it (policy/v1, 1.36)."""


class StatusCause(msgspec.Struct, frozen=True):
    """One cause of a refusal: for a field, or for a budget."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """What a Status says beyond its message (meta/v1 StatusDetails)."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The server's answer where there is no object to give (meta/v1 Status)."""

    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


_STATUS: Final = msgspec.json.Decoder(Status)


class WireError(Exception):
    """Base of what a request can end with other than an answer that was asked for."""


class ApiError(WireError):
    """The server answered, and the answer is no.

    Attributes:
        status: The HTTP status code.
        reason: The machine-readable word, such as `NotFound`; empty where the body was no Status.
        message: The text for people.
        details: The Status's details, empty where it had none.
        retry_after: Seconds the server asks to wait, or None; for how long to wait, ask the function of that name.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        details: StatusDetails | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        self.retry_after = retry_after

    @classmethod
    def parse(cls, status: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
        """Make an error of an HTTP answer, whose body is a Status or, from proxies and unknown paths, plain text."""
        try:
            parsed = _STATUS.decode(body)
        except msgspec.MsgspecError:
            text = body[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
            return cls(status, "", text or "no message", retry_after=_seconds(retry_after))
        return cls.of(parsed, status=status, retry_after=_seconds(retry_after))

    @classmethod
    def of(cls, answer: Status, *, status: int = 0, retry_after: float | None = None) -> ApiError:
        """Make an error of a Status, taking the code from the Status where none is given."""
        details = answer.details or StatusDetails()
        wait = retry_after if retry_after is not None else details.retry_after_seconds or None
        code = status or answer.code or HTTPStatus.INTERNAL_SERVER_ERROR
        return cls(int(code), answer.reason, answer.message, details=details, retry_after=wait)

    @property
    def overloaded(self) -> bool:
        """Whether the server has too much to do, rather than a disruption budget that refuses an eviction."""
        if self.status != HTTPStatus.TOO_MANY_REQUESTS:
            return False
        return all(cause.reason != DISRUPTION_BUDGET for cause in self.details.causes or ())

    @property
    def retryable(self) -> bool:
        """Whether the same request may well succeed a little later."""
        return self.status in _RETRYABLE


class NotSent(WireError):  # noqa: N818 - reads as the outcome it is, like its siblings
    """No connection could be made: the server has seen nothing of the request."""


class UnknownOutcome(WireError):  # noqa: N818 - reads as the outcome it is, like its siblings
    """The request was sent, but its answer never came: a write may or may not have taken place."""


def retry_after(error: WireError) -> float | None:
    """Return the seconds to wait because the server asked for that, where it did: no more than a minute."""
    if not isinstance(error, ApiError) or error.retry_after is None:
        return None
    return min(error.retry_after, LONGEST_RETRY_AFTER_SECONDS)


def is_retryable(error: WireError) -> bool:
    """Whether trying again makes sense for a request that is safe to repeat."""
    return error.retryable if isinstance(error, ApiError) else True


def _seconds(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header; its HTTP-date form is not used by API servers and is ignored."""
    return float(header) if header is not None and header.isdecimal() else None
