"""The versions that decide a result: those of a directory's batches, and of the workers' packages."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib import metadata

from .._version import __version__

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox")


def versions() -> dict[str, str]:
    """Of this process."""
    found = {"attnlab": __version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
