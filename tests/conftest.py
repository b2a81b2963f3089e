"""Shared fixtures."""

import gc
import os
import shutil
import tempfile

import hypothesis
import pytest

from attnlab._core.compilation import prefer_quick_compilation
from attnlab._core.workers import ONE_THREAD

prefer_quick_compilation()

# most of the time goes into compilation, much of it of programs that another module or a process
# that a test starts has compiled before: they go to files, one directory for each test process
_PROGRAMS = tempfile.mkdtemp(prefix="attnlab-programs-")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _PROGRAMS
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"

# test processes side by side keep both cores busy: threads of their own would only wait for each other
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name, _value in ONE_THREAD.items():
        os.environ.setdefault(_name, _value)

# the same examples in every run, however long they take on a busy machine: a test has a verdict, not a
# distribution of verdicts
hypothesis.settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("fixed")


def pytest_unconfigure():
    shutil.rmtree(_PROGRAMS, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Every compiled program keeps memory maps, of which a process has a limited number."""
    yield
    import sys

    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()
        gc.collect()
