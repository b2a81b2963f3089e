"""The mutation test of the audit: perturbations by hand, and what becomes of broken toy checks."""

import ast
import importlib.util
import io
import json
import re
from collections import namedtuple
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from attnlab import claims, papers
from attnlab.claims import Check, Claim, Mutation, Outcome
from attnlab.claims.perturbations import (
    argument,
    constant,
    factor,
    offset,
    power,
    sign,
    swap,
    wrap,
)
from attnlab.errors import InvalidArgument
from attnlab.estimators.estimator_risk import EstimatorRisk

HERE = __name__
Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("change", "right", "wrong"),
    [
        (factor(2.0), 3.0, 6.0),
        (factor(2), Fraction(1, 2), Fraction(1)),
        (sign(), np.array([1.0, -2.0]), np.array([-1.0, 2.0])),
        (power(0.5), np.array([4.0, -4.0]), np.array([2.0, -2.0])),
        (offset(1.0), (1.0, "name", None, [True, 2.0]), (2.0, "name", None, [True, 3.0])),
        (offset(1.0), Pair(1.0, 2.0), Pair(2.0, 3.0)),
        (sign("right"), Pair(1.0, 2.0), Pair(1.0, -2.0)),
        (sign(0), Pair(1.0, 2.0), Pair(-1.0, 2.0)),
        (factor(3, of=1), [1, 2], [1, 6]),
        (factor(3, of="a"), {"a": 1, "b": 2}, {"a": 3, "b": 2}),
        (factor(3, of="a"), [{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 6}]),
        (factor(3), {"a": 1}, {"a": 3}),
        (constant(7), 1.0, 7),
        (constant(7, of="left"), Pair(1.0, 2.0), Pair(7, 2.0)),
    ],
)
def test_a_result_is_changed(change, right, wrong):
    found = change.apply(lambda: right)()
    assert type(found) is type(wrong)
    np.testing.assert_equal(found, wrong)
    np.testing.assert_equal(change.apply(right), wrong)  # of a constant alike


def test_datasets_properties_and_arguments_are_changed():
    ds = xr.Dataset({"a": ("x", [1.0, 2.0]), "b": 3.0})
    changed = factor(2, of="a").apply(lambda: ds)()
    assert changed.a.values.tolist() == [2.0, 4.0]
    assert changed.b == 3
    exact = EstimatorRisk(2.0, "closed form", 0.0)
    assert factor(3).apply(lambda: exact)() == 6.0  # a risk that knows its method: its value
    side = sign().apply(property(lambda self: self.length))
    assert side.fget(SimpleNamespace(length=2)) == -2

    def area(width, height=1.0):
        return width * height

    assert argument(0, power(2.0)).apply(area)(3.0, height=2.0) == 18
    assert argument("height", factor(0)).apply(area)(3.0, height=2.0) == 0
    assert argument("height", constant(5)).apply(area)(3.0, height=2.0) == 15
    with pytest.raises(InvalidArgument, match="of"):
        factor(2, of="depth").apply(area)(1.0)


def area(radius):
    return np.pi * radius**2


def circumference(radius):
    return 2 * area(radius) / radius


def diameter(right):
    return lambda radius: right(radius) / np.pi


def circle(preset, seed):
    """Sees the area, and does not see the circumference."""
    circumference(1.0)
    return Outcome((Check.agreement("area", area(2.0), 4 * np.pi, tolerance=1e-9),))


def slip(preset, seed):
    """The printed area lacks its π; the evidence is for the right one."""
    return Outcome(
        (Check.agreement("printed", circumference(1.0) / 2, 1.0, tolerance=1e-9),),
        corrected="πr²",
        evidence=(Check.agreement("area", area(1.0), np.pi, tolerance=1e-9),),
    )


def claim(check, expected="confirmed"):
    text = "A circle. It is round."
    return Claim(check, "toy2027", check, text, "Section 1", text, f"{HERE}:{check}", expected)


def outcomes(found):
    return [(r.caught, r.verdict, r.error) for r in found]


def test_caught_and_not_caught():
    key, slipped = "toy2027/circle", "toy2027/slip"
    wrong = [
        Mutation(key, f"{HERE}:area", factor(2.0), "doubled"),
        Mutation(key, f"{HERE}:circumference", factor(2.0), "nobody looks"),
        Mutation(key, f"{HERE}:area", swap(f"{HERE}:nowhere"), "no such function"),
        Mutation(key, f"{HERE}:volume", factor(2.0), "no such formula"),
        Mutation(key, f"{HERE}:area", constant("round"), "no number"),
        Mutation(slipped, f"{HERE}:area", factor(2.0), "correction doubled"),
        Mutation(slipped, f"{HERE}:circumference", wrap(f"{HERE}:diameter"), "mended", "confirmed"),
        Mutation(slipped, f"{HERE}:circumference", factor(2.0), "still a slip", "confirmed"),
    ]
    seen = []
    found = claims.mutate(
        [claim("circle"), claim("slip", "refuted as stated")],
        mutations=wrong,
        processes=1,
        on_result=seen.append,
    )
    assert seen == found
    assert [r.mutation for r in found] == wrong
    assert [r.caught for r in found] == [True, False, False, False, False, True, True, False]
    assert found[0].failed == ("area",)
    assert [r.verdict for r in found[1:3]] == ["confirmed", "failed to run"]
    assert "nowhere" in found[2].error
    assert "volume" in found[3].error
    assert found[4].error
    assert claims.share_caught(found) == 3 / 8
    assert area(1.0) == np.pi  # all as it was


def test_what_is_not_as_recorded_or_not_covered_is_not_caught():
    doubled = Mutation("toy2027/circle", f"{HERE}:area", factor(2.0), "doubled")
    wrong = claim("circle", "inconclusive")
    (found,) = claims.mutate(wrong, mutations=[doubled], processes=1)
    assert not found.caught
    assert "on record is 'inconclusive'" in found.error
    (uncovered,) = claims.mutate(claim("circle"), mutations=[])
    assert (uncovered.mutation, uncovered.caught) == (None, False)
    for arguments in ({"preset": "x"}, {"seed": -1}, {"processes": 0}):
        with pytest.raises(InvalidArgument):
            claims.mutate(wrong, mutations=[doubled], **arguments)
    with pytest.raises(InvalidArgument, match="claim id"):
        claims.mutate(wrong, mutations=[Mutation("toy2027/square", "a:b", sign(), "wrong claim")])
    for fields in (("", "a:b", sign(), "t"), ("a/b", "ab", sign(), "t"), ("a/b", "a:b", 2.0, "t")):
        with pytest.raises(InvalidArgument, match="Mutation"):
            Mutation(*fields)


def test_results_are_printed_and_written(tmp_path):
    mutations = [
        Mutation("toy2027/circle", f"{HERE}:{name}", factor(2.0), f"{name} [doubled]")
        for name in ("area", "circumference")
    ]
    found = claims.mutate(claim("circle"), mutations=mutations, processes=1)
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(claims.mutation_line(found[0]))
    claims.print_mutations(found, console)
    text = console.export_text()
    assert "area [doubled]  caught: area" in text
    assert "not caught: confirmed" in text
    assert "1 of 2 mutations caught (50.0%); 0 of 1 claims" in text
    path = claims.save_mutations(found, tmp_path / "m.json", provenance={"seed": 0})
    data = json.loads(path.read_text())
    assert (data["caught"], data["mutations"], data["share_caught"]) == (1, 2, 0.5)
    assert data["results"][0]["change"] == "Scalar(kind='factor', amount=2.0, of=None)"


def source_of(module):
    return Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")


def test_every_claim_of_the_papers_has_a_mutation_and_each_target_is_there():
    mutations = claims.all_mutations()
    assert {m.claim for m in mutations} == {c.key for c in claims.all_claims()}
    assert len({(m.claim, m.target, m.change) for m in mutations}) == len(mutations)
    references = {m.target for m in mutations} | {
        m.change.by for m in mutations if hasattr(m.change, "by")
    }
    for module, _, name in (reference.partition(":") for reference in references):
        if module.startswith("attnlab"):  # by its text: importing them all takes seconds
            assert re.search(rf"\b{name.partition('.')[0]}\b", source_of(module)), (module, name)


@pytest.mark.parametrize("paper", [paper.key for paper in papers.all_papers()])
def test_the_registry_is_light(paper):
    imported = {
        node.module
        for node in ast.walk(ast.parse(source_of(f"attnlab.papers.{paper}.mutations")))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"claims.perturbations", "_mutations"}
