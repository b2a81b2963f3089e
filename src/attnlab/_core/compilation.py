"""Compilation in less time, for commands and tests: most of their time goes into it.

The newer of XLA's two ways to emit fused loops on CPUs takes longer over programs of the size that
occur here. Without it `attnlab verify he2025` takes 13 % less time in all, and no longer in the
trained parts; see `benchmarks/README.md`.
"""

from __future__ import annotations

import os
import sys

_FLAG = "--xla_cpu_use_fusion_emitters"
_KNOWN_TO = ("0.10.2",)  # XLA ends the process over a flag that it does not know


def prefer_quick_compilation() -> None:
    """Sets XLA's flag for this process and those that it starts, unless the user has set it.

    Without effect once JAX is imported, and for versions of jaxlib that are not known to have the
    flag. It is for programs of our own; importing attnlab changes no setting.
    """
    from importlib.metadata import PackageNotFoundError, version

    flags = os.environ.get("XLA_FLAGS", "")
    if "jax" in sys.modules or _FLAG in flags:
        return
    try:
        if version("jaxlib") not in _KNOWN_TO:
            return
    except PackageNotFoundError:
        return
    os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}=false".strip()
