"""The libraries of the extra `probing`, which may be missing."""

from __future__ import annotations

import importlib.util

from .._core.errors import InvalidArgument

LIBRARIES = {"safetensors": "safetensors", "tokenizers": "tokenizers", "scikit-learn": "sklearn"}


def missing_libraries() -> list[str]:
    """Those that are not installed."""
    return [name for name, module in LIBRARIES.items() if importlib.util.find_spec(module) is None]


def require(name: str) -> None:
    """Raises `InvalidArgument` when the library is not installed."""
    if name in missing_libraries():
        raise InvalidArgument(name, None, 'installed: pip install "attnlab[probing]"')
