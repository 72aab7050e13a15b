"""What every section of the configuration is: frozen, unknown keys are errors, and YAML's types are taken at their word."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator


class FromEnvironment(str):
    """A text that came from `${env:…}`: the environment has no types, so it may be meant as a number or as true or false."""

    __slots__ = ()


class Section(BaseModel):
    """A part of the configuration tree. Defaults are not validated again: they are written in code, in base units."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Any:
        """A truth value is no number, a number no truth value, and what is quoted is a text: pydantic alone would take one for the other."""
        field = cls.model_fields[info.field_name or ""]
        if any(isinstance(one, BeforeValidator) for one in field.metadata) or isinstance(value, FromEnvironment):
            return value
        types = {field.annotation, *get_args(field.annotation)}
        numbers = bool(types & {int, float})
        if bool in types and not isinstance(value, bool) and value is not None:
            raise ValueError(f"should be true or false{_unquoted(value)}")
        if numbers and isinstance(value, bool):
            raise ValueError(f"should be {_number(types)}")
        if numbers and str not in types and isinstance(value, str):
            raise ValueError(f"should be {_number(types)}{_unquoted(value)}")
        return value


def _number(types: set[Any]) -> str:
    return "a number" if float in types else "a whole number"


def _unquoted(value: Any) -> str:
    return ", without quotes" if isinstance(value, str) else ""
