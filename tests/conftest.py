"""Shared fixtures."""

import gc

import hypothesis
import pytest

# the same examples in every run: a test has a verdict, not a distribution of verdicts
hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Every compiled program keeps memory maps, of which a process has a limited number."""
    yield
    import sys

    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()
        gc.collect()
