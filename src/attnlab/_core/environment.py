"""Whether this process can compute at all, asked before it begins: settings in the environment that
JAX or matplotlib would refuse in the middle, and too little memory to start in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

from .children import python_command
from .errors import InvalidArgument

_PLATFORMS = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME")
_ADDRESS_SPACE = 2**31  # bytes; with less, JAX ends the process while it starts
_FIRST_STEP = "import jax; jax.devices()"


def check_environment(*, drawing: bool = False) -> None:
    """Raises `InvalidArgument` that names what keeps this process from computing, or with `drawing`
    from drawing. Costs nothing where no such variable is set."""
    _check_address_space()
    if any(name.startswith("JAX_") for name in os.environ):
        _tried("JAX_", "a value that JAX accepts", _import_jax)
        _check_platform()
    if drawing and "MPLBACKEND" in os.environ:
        _tried("MPLBACKEND", "a backend of matplotlib, or not set", _import_matplotlib)


def _check_address_space() -> None:
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE:
        told = f"at least {_ADDRESS_SPACE // 2**20} MiB, which JAX takes to start"
        raise InvalidArgument("address space (ulimit -v)", f"{limit // 2**20} MiB", told)


def _check_platform() -> None:
    """Starts the platforms that were asked for in a process of their own, for what they take (most of
    the memory of a GPU) would be missing where the work is done."""
    for name in _PLATFORMS:
        value = os.environ.get(name, "")
        if value in ("", "cpu"):
            continue
        command = [*python_command(), "-c", _FIRST_STEP]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            reason = lines[-1] if lines else f"exit code {done.returncode}"
            allowed = f"a platform of which JAX finds a device here, such as cpu ({reason})"
            raise InvalidArgument(name, value, allowed)


def _tried(prefix: str, allowed: str, step: Callable[[], Any]) -> None:
    try:
        step()
    except MemoryError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        names = [name for name in os.environ if name.startswith(prefix)]
        named = [name for name in names if name in text or name.lower() in text] or names
        told = f"{allowed} ({type(error).__name__}: {text[:200]})"
        raise InvalidArgument(named[0], os.environ[named[0]], told) from None


def _import_jax() -> None:
    import jax  # noqa: F401


def _import_matplotlib() -> None:
    import matplotlib  # noqa: F401
