"""A small paper of made-up claims, importable by worker processes too."""

import textwrap

import pytest

_MODULE = """
import os
from attnlab.claims import Check, Claim, Outcome

def fine(preset, seed):
    return Outcome((Check.agreement("area", 3.14159, 3.14159, tolerance=1e-3),), notes=preset)

def wrong(preset, seed):
    return Outcome(
        (Check.agreement("factor", 1.0, 2.0, standard_error=0.01),),
        corrected="the factor is 1", evidence=(Check.agreement("factor", 1.0, 1.0, tolerance=1e-9),),
    )

def blurred(preset, seed):
    return Outcome((Check.agreement("slope", 1.0, 1.2, standard_error=1.0),), settle="more samples")

def raises(preset, seed):
    raise ArithmeticError("no such integral")

def dies(preset, seed):
    os._exit(7)

def nothing(preset, seed):
    return None

def seeded(preset, seed):
    return Outcome((Check.agreement("seed", seed, seed, tolerance=0.0),), answer=f"pid {os.getpid()}")

def claim(name, expected=None):
    return Claim(name, "doe2027", f"title of {name}", "A holds for all n.", "paper, Lemma 1",
                 "First sentence. Second sentence.", f"doe2027_claims:{name}", expected)

CLAIMS = tuple(claim(n, e) for n, e in [
    ("fine", "confirmed"), ("wrong", "refuted as stated"), ("blurred", None), ("seeded", None)])
"""


@pytest.fixture
def doe(tmp_path, monkeypatch):
    """The module `doe2027_claims`; its `claim(name)` makes a claim of any of its checks."""
    import importlib
    import sys

    (tmp_path / "doe2027_claims.py").write_text(textwrap.dedent(_MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("doe2027_claims", None)
    yield importlib.import_module("doe2027_claims")
    sys.modules.pop("doe2027_claims", None)
