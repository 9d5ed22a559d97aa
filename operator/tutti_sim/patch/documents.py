"""Patches that know nothing of the kind: JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from __future__ import annotations

from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from tutti_sim.meta.errors import ApiError, bad_request

Json = dict[str, Any]


def merge(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied; shares what the patch does not touch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def operations(target: Json, patch: Any) -> Json:
    """The target with a JSON patch applied; ApiError 400 when it is no patch, 422 when it does not apply."""
    if not isinstance(patch, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    try:
        result: Json = jsonpatch.apply_patch(target, patch)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, KeyError) as error:
        text = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", text, details={"causes": [{"message": str(error)}]}) from None
    return result
