"""Configurations of experiments: typed, closed, and read from texts like those of `--set k=v`."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .._core.errors import InvalidArgument


class Config(BaseModel):
    """The configuration of an experiment. Subclasses add fields, each with a `description`.

    Instances cannot be changed, unknown keys are refused, numbers are finite.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(0, ge=0, le=2**32 - 1, description="seed of every random draw")


C = TypeVar("C", bound=BaseModel)


def is_config(kind: Any) -> bool:
    """Whether `kind` is a class that can serve as the configuration of an experiment."""
    if not (inspect.isclass(kind) and issubclass(kind, BaseModel)):
        return False
    return kind.model_config.get("extra") == "forbid" and "seed" in kind.model_fields


def configure(kind: type[C], preset: Mapping[str, Any], changes: Mapping[str, Any]) -> C:
    """`kind` with the entries of `preset`, then `changes` (texts are parsed by the field's type).

    Raises `InvalidArgument` naming the entry, its value and what is allowed.
    """
    values = dict(preset)
    if not isinstance(changes, Mapping):
        raise InvalidArgument("changes", changes, "a mapping of keys to values")
    for key, value in changes.items():
        if key not in kind.model_fields:
            near = difflib.get_close_matches(key, kind.model_fields, n=1)
            hint = f"(did you mean {near[0]}?)" if near else ""
            raise InvalidArgument("--set key", key, f"one of these {hint}\n{table(kind)}")
        values[key] = _parse(kind, key, value) if isinstance(value, str) else value
    return validate(kind, values)


def validate(kind: type[C], values: Mapping[str, Any]) -> C:
    """`kind` from typed `values`, as stored in a record. Raises `InvalidArgument`."""
    for key, value in values.items():
        _check_width(str(key), value)
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or kind.__name__
        types = describe(kind)
        allowed = types.get(str(first["loc"][0]) if first["loc"] else "", first["msg"])
        if first["type"] in ("value_error", "assertion_error"):  # a rule written for this class
            allowed = first["msg"].partition(", ")[2] or first["msg"]
        raise InvalidArgument(key, first["input"], allowed) from None


def _check_width(key: str, value: Any) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _check_width(key, item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidArgument(key, value, "of whole numbers that fit into 64 bits")


def describe(kind: type[BaseModel]) -> dict[str, str]:
    """What each key of a configuration accepts, in words: `{"steps": "integer >= 1", ...}`."""
    schema = kind.model_json_schema()
    definitions = schema.get("$defs", {})
    return {name: _words(entry, definitions) for name, entry in schema["properties"].items()}


def table(kind: type[BaseModel]) -> str:
    """The keys of a configuration, one a line, with what they accept and mean."""
    types = describe(kind)
    width = max(map(len, types))
    lines = []
    for name, words in types.items():
        text = kind.model_fields[name].description or ""
        lines.append(f"  {name:<{width}}  {words}" + (f": {text}" if text else ""))
    return "\n".join(lines)


def _parse(kind: type[BaseModel], key: str, text: str) -> Any:
    """The value that `text` stands for: JSON, a bare word, or a comma-separated list."""
    info = kind.model_fields[key]
    # Strict, so that `true` is no number and `"3"` is no integer; without the constraints, which
    # the whole configuration checks with a better message.
    adapter: TypeAdapter[Any] = TypeAdapter(info.annotation or Any)
    candidates = [text, json.dumps(text), f"[{text}]"]
    candidates.append(json.dumps([part.strip() for part in text.split(",")]))
    with contextlib.suppress(ValueError, OverflowError):
        if float(text) == int(float(text)):
            candidates.insert(1, str(int(float(text))))  # 1e5 steps
    for candidate in candidates:
        with contextlib.suppress(ValidationError):
            return adapter.validate_json(candidate, strict=True)
    raise InvalidArgument(key, text, describe(kind)[key])


def _words(entry: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in entry:
        return _words(definitions[entry["$ref"].rpartition("/")[2]], definitions)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in entry:
            return " or ".join(_words(option, definitions) for option in entry[union])
    if "enum" in entry:
        return "one of " + ", ".join(str(option) for option in entry["enum"])
    if "const" in entry:
        return json.dumps(entry["const"])
    kind = entry.get("type", "any value")
    if kind == "array":
        items = entry.get("items") or (entry.get("prefixItems") or [{}])[0]
        return "list of " + _words(items, definitions) + _bounds(entry, "Items", "item")
    words = {"null": "null", "string": "text", "boolean": "true or false"}.get(kind, kind)
    signs = {
        "exclusiveMinimum": ">",
        "minimum": ">=",
        "exclusiveMaximum": "<",
        "maximum": "<=",
    }
    limits = [f"{sign} {_number(entry[name])}" for name, sign in signs.items() if name in entry]
    return words + (" " + " and ".join(limits) if limits else "")


def _bounds(entry: Mapping[str, Any], suffix: str, noun: str) -> str:
    low, high = entry.get("min" + suffix), entry.get("max" + suffix)
    if low is not None and low == high:
        return f" ({low} {noun}s)"
    parts = [f"at least {low}"] if low is not None else []
    parts += [f"at most {high}"] if high is not None else []
    return f" ({' and '.join(parts)} {noun}s)" if parts else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def as_text(value: object) -> str:
    """A setting as one would write it after `--set key=`."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(as_text(item) for item in value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
