"""Shared fixtures."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Every compiled program keeps memory maps, of which a process has a limited number."""
    yield
    import sys

    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()
        gc.collect()
