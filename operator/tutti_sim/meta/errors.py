"""Errors as the API server answers them: a Status object with a reason, a code and details.

Texts are those of kube-apiserver 1.36, because clients match on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tutti_sim.meta import Json


def shown_value(value: Any) -> str:
    """A value as error messages show it: JSON, and null for nothing."""
    return msgspec.json.encode(value).decode()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of an Invalid answer: which field, which kind of mistake, and what to say."""

    reason: str
    field: str
    message: str

    def cause(self) -> Json:
        """The cause as part of a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def too_long(field: str, most: int) -> FieldError:
    """A text with too many bytes."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {most} bytes")


def too_many(field: str, count: int, most: int) -> FieldError:
    """A list with too many items."""
    return FieldError("FieldValueTooMany", field, f"Too many: {count}: must have at most {most} items")


def omitted(field: str, detail: str) -> FieldError:
    """A value that is wrong, and not shown."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """A field that must be given."""
    return FieldError("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value that is not acceptable."""
    shown = f"Invalid value: {shown_value(value)}"
    return FieldError("FieldValueInvalid", field, f"{shown}: {detail}" if detail else shown)


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    """A value of the wrong type."""
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {shown_value(value)}: {detail}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """A value outside its enumeration."""
    known = ", ".join(shown_value(item) for item in supported)
    return FieldError(
        "FieldValueNotSupported", field, f"Unsupported value: {shown_value(value)}: supported values: {known}"
    )


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that may not be given or changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    """A value given twice."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {shown_value(value)}")


def not_found_field(field: str, value: Any, detail: str = "") -> FieldError:
    """A value that refers to nothing."""
    shown = f"Not found: {shown_value(value)}"
    return FieldError("FieldValueNotFound", field, f"{shown}: {detail}" if detail else shown)


class ApiError(Exception):
    """An answer other than success; `body` is the Status object that the client receives."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})

    def body(self) -> Json:
        """The Status object."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def details(name: str, group: str, kind: str, **more: Any) -> Json:
    """Details of a Status: empty parts are left out."""
    parts = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in parts.items() if value}


def qualified_resource(kind: str, group: str) -> str:
    """A resource or kind with its group, as messages name it: `leases.coordination.k8s.io`, `pods`."""
    return f"{kind}.{group}" if group else kind


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


GO_NAMES = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}
"""What Go calls the values of JSON."""


def not_an_object(body: Any) -> str:
    """What is said of a body that is no object, when its kind is looked for."""
    head = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
    what = f"json: cannot unmarshal {GO_NAMES.get(type(body), 'value')} into Go value of type {head}"
    return f"couldn't get version/kind; json parse error: {what}"


def wrong_head(field: str, value: Any) -> str:
    """What is said of a body whose kind or version is no text."""
    what = f"json: cannot unmarshal {GO_NAMES.get(type(value), 'value')} into Go struct field .{field} of type string"
    return f"couldn't get version/kind; json parse error: {what}"


def unauthorized() -> ApiError:
    """401: the token is not known."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, group: str, name: str, message: str, *, causes: Sequence[Json] = ()) -> ApiError:
    """403: admission or authorization refuses."""
    text = f'{qualified_resource(plural, group)} "{name}" is forbidden: {message}'
    return ApiError(403, "Forbidden", text, details=details(name, group, plural, causes=list(causes)))


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404: no object of that name."""
    return ApiError(
        404, "NotFound", f'{qualified_resource(plural, group)} "{name}" not found', details=details(name, group, plural)
    )


def no_such_resource() -> ApiError:
    """404: no resource of that name in a group that exists."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> ApiError:
    """405: the resource does not know this verb."""
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def not_acceptable(accepted: str) -> ApiError:
    """406: none of the content types the client accepts can be had."""
    text = f"406: Not Acceptable\n\nAvailable representations: {accepted}"
    return ApiError(406, "NotAcceptable", text, details={})


def no_such_form(accepted: str) -> ApiError:
    """406: the content type can be had, and not in the form that is asked for."""
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")


def form_of_lists(what: str) -> ApiError:
    """406: one object is no list; `what` is what Go calls its type."""
    text = f"you requested PartialObjectMetadataList, but the requested object is not a list (*{what})"
    return ApiError(406, "NotAcceptable", text)


def form_of_objects(what: str) -> ApiError:
    """406: a list is not one object; `what` is what Go calls the type of its items."""
    text = f"you requested PartialObjectMetadata, but the requested object is a list (*{what}List)"
    return ApiError(406, "NotAcceptable", text)


def already_exists(plural: str, group: str, name: str, *, prefix: str = "") -> ApiError:
    """409: the name is taken."""
    text = f'{prefix}{qualified_resource(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details=details(name, group, plural))


def conflict(plural: str, group: str, name: str, message: str) -> ApiError:
    """409: a precondition does not hold."""
    text = f'Operation cannot be fulfilled on {qualified_resource(plural, group)} "{name}": {message}'
    return ApiError(409, "Conflict", text, details=details(name, group, plural))


def modified(plural: str, group: str, name: str) -> ApiError:
    """409: the object is not the version that the client changed."""
    text = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, text)


def too_large(message: str) -> ApiError:
    """413: more is asked for in one request than is done."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(accepted: str) -> ApiError:
    """415: the body's content type is not known here."""
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return ApiError(415, "UnsupportedMediaType", text)


def no_such_patch() -> ApiError:
    """415: built-in kinds are not patched in that way."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def unprocessable(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: the object breaks rules; each cause says which."""
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f'{qualified_resource(kind, group)} "{name}" is invalid: {summary}',
        details=details(name, group, kind, causes=[error.cause() for error in errors]),
    )


def bad_options(kind: str, errors: Sequence[FieldError]) -> ApiError:
    """422: the options of a request are wrong; `kind` is for example DeleteOptions."""
    return unprocessable(kind, "meta.k8s.io", "", errors)


def too_many_requests(message: str, *, seconds: int, causes: Sequence[Json] = ()) -> ApiError:
    """429: try again later."""
    more: Json = {"causes": list(causes)} if causes else {}
    return ApiError(
        429,
        "TooManyRequests",
        message,
        details={**more, "retryAfterSeconds": seconds},
        headers={"Retry-After": str(seconds)},
    )


def internal(message: str, *, reason: str = "InternalError") -> ApiError:
    """500: kube-apiserver answers so where it does not classify an error."""
    return ApiError(500, reason, message)


def expired(message: str) -> ApiError:
    """410: that version of the collection is no longer known; the client must list again."""
    return ApiError(410, "Expired", message)


def version_too_large(asked: int, current: int) -> ApiError:
    """504: that version of the collection does not exist yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )
