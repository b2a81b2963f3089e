"""Configurations: texts become values of the right type, everything else is refused by name."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field, model_validator

from attnlab.errors import InvalidArgument
from attnlab.papers import Config
from attnlab.papers._config import configure, describe, is_config, table, validate


class Example(Config):
    steps: int = Field(10, ge=1, description="number of steps")
    scale: float = Field(0.5, gt=0, le=10.0, description="λ")
    link: Literal["linear", "relu"] = "linear"
    label: str = "none"
    verbose: bool = False
    scales: tuple[float, ...] = (0.1,)
    names: list[str] = Field(default_factory=list)
    pair: tuple[int, int] = (1, 2)
    length: int | None = None

    @model_validator(mode="after")
    def _steps_fit(self):
        if self.steps == 13:
            raise ValueError("steps other than 13")
        return self


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("steps", "20", 20),
        ("steps", "1e5", 100_000),
        ("scale", "3", 3.0),
        ("scale", "2.5e-1", 0.25),
        ("link", "relu", "relu"),
        ("label", "7", "7"),
        ("label", "a=b, c", "a=b, c"),
        ("verbose", "true", True),
        ("scales", "0.1,0.2, 3", (0.1, 0.2, 3.0)),
        ("scales", "[0.1]", (0.1,)),
        ("scales", "0.3", (0.3,)),
        ("names", "a, b", ["a", "b"]),
        ("pair", "3,4", (3, 4)),
        ("length", "null", None),
        ("length", "5", 5),
        ("seed", "9", 9),
    ],
)
def test_texts_are_read_by_the_type_of_the_field(key, text, value):
    config = configure(Example, {}, {key: text})
    assert getattr(config, key) == value
    assert type(getattr(config, key)) is type(value)


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("steps", "many", "integer >= 1"),
        ("steps", "2.5", "integer >= 1"),
        ("steps", "true", "integer >= 1"),
        ("steps", '"3"', "integer >= 1"),
        ("steps", "0", "integer >= 1"),
        ("steps", "", "integer >= 1"),
        ("scale", "-1", "number > 0 and <= 10"),
        ("scale", "nan", "number > 0 and <= 10"),
        ("scale", "inf", "number > 0 and <= 10"),
        ("scale", "1e999", "number > 0 and <= 10"),
        ("link", "cubic", "one of linear, relu"),
        ("verbose", "perhaps", "true or false"),
        ("scales", "0.1,x", "list of number"),
        ("pair", "1,2,3", "list of integer (2 items)"),
        ("length", "x", "integer or null"),
        ("seed", "-1", "integer >= 0 and <= 4294967295"),
    ],
)
def test_wrong_types_and_values_are_refused_with_what_is_allowed(key, text, allowed):
    with pytest.raises(InvalidArgument) as caught:
        configure(Example, {}, {key: text})
    assert caught.value.name.startswith(key)
    assert allowed in str(caught.value)


def test_unknown_keys_are_refused_with_all_keys_and_their_types():
    with pytest.raises(InvalidArgument) as caught:
        configure(Example, {}, {"stepz": "3"})
    message = str(caught.value)
    assert "stepz" in message
    assert "did you mean steps?" in message
    assert "number of steps" in message
    for key, words in describe(Example).items():
        assert any(key in line and words in line for line in message.splitlines())
    assert table(Example) in message


def test_preset_comes_first_and_changes_win():
    config = configure(Example, {"steps": 3, "scale": 2.0}, {"steps": "4"})
    assert (config.steps, config.scale) == (4, 2.0)
    assert configure(Example, {}, {"steps": 5, "scales": (1.0, 2.0)}).scales == (1.0, 2.0)


def test_rules_across_fields_keep_their_own_words():
    with pytest.raises(InvalidArgument, match="steps other than 13"):
        configure(Example, {}, {"steps": "13"})


def test_stored_values_are_validated_too():
    stored = Example(scales=(0.1, 0.2)).model_dump(mode="json")
    assert validate(Example, stored) == Example(scales=(0.1, 0.2))
    with pytest.raises(InvalidArgument, match="removed"):
        validate(Example, {**stored, "removed": 1})


def test_configurations_are_closed_and_seeded():
    assert is_config(Example)
    assert not is_config(BaseModel)
    assert not is_config({"seed": 0})
    assert not is_config(type("Open", (Config,), {"model_config": {"extra": "allow"}}))
