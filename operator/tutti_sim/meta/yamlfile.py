"""Reading what users write in YAML, so that a mistake in it is named by its place and with what would be right."""

from __future__ import annotations

from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tutti.api.problems import ConfigurationError, FieldProblem, problems_of

M = TypeVar("M", bound=BaseModel)


def read_yaml(text: str, model: type[M], origin: str) -> M:
    """A document of a model from YAML, of which JSON is a part; an empty text gives the defaults.

    Raises:
        ConfigurationError: The text is no YAML mapping, or something in it is wrong; `origin` is named.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(origin, [FieldProblem("", f"this is not YAML: {error}")]) from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        keys = ", ".join(field.alias or name for name, field in model.model_fields.items())
        raise ConfigurationError(origin, [FieldProblem("", f"must be a mapping with keys out of: {keys}")])
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ConfigurationError(origin, problems_of(error, model)) from error
