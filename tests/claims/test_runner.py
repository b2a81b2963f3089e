"""Running claims: order, seeds, failures, worker processes, files."""

import json
import os

import numpy as np
import pytest

from attnlab import claims
from attnlab.claims import registry
from attnlab.errors import InvalidArgument


@pytest.fixture(autouse=True)
def only_doe(doe, monkeypatch):
    """The registry holds the made-up paper alone."""

    class Paper:
        key, claims = "doe2027", "doe2027_claims:CLAIMS"

    monkeypatch.setattr(doe, "all_papers", lambda: [Paper], raising=False)
    monkeypatch.setattr(registry, "_PAPERS", "doe2027_claims:all_papers")


def test_all_claims_of_the_papers_in_order():
    verdicts = claims.verify()
    assert [v.id for v in verdicts] == [
        f"doe2027/{n}" for n in ("fine", "wrong", "blurred", "seeded")
    ]
    assert [v.verdict for v in verdicts] == [
        "confirmed",
        "refuted as stated",
        "inconclusive",
        "confirmed",
    ]
    assert all(v.as_expected for v in verdicts)
    assert verdicts[0].notes == "quick"


def test_ids_select_and_unknown_ones_are_refused():
    assert [c.id for c in claims.find(["doe2027/seeded", "doe2027/fine"])] == ["fine", "seeded"]
    assert len(claims.find("doe2027")) == 4
    with pytest.raises(InvalidArgument, match="nearest: doe2027/fine"):
        claims.verify("doe2027/fin")
    with pytest.raises(InvalidArgument, match="preset"):
        claims.verify(preset="fast")
    with pytest.raises(InvalidArgument, match="processes"):
        claims.verify(processes=0)


def test_seed_and_preset_reach_the_check():
    (verdict,) = claims.verify("doe2027/seeded", seed=5, preset="paper")
    assert verdict.checks[0].measured == 5
    assert (verdict.seed, verdict.preset) == (5, "paper")


def test_registered_claims_join(doe):
    extra = doe.claim("raises")
    claims.register(extra)
    try:
        assert claims.find("doe2027/raises") == (extra,)
    finally:
        claims.unregister(extra.key)
    assert len(claims.all_claims()) == 4


def test_a_check_that_raises_sinks_no_other(doe):
    chosen = [doe.claim("raises"), doe.claim("nothing"), doe.claim("fine")]
    seen = []
    raised, nothing, fine = claims.verify(chosen, on_verdict=seen.append)
    assert raised.failed == "ArithmeticError: no such integral"
    assert "in raises" in raised.details
    assert "an Outcome" in nothing.failed
    assert fine.verdict == "confirmed"
    assert seen == [raised, nothing, fine]


def test_workers_are_other_processes_and_survive_a_crash(doe):
    here = doe.claim("seeded")
    chosen = [doe.claim("dies"), doe.claim("raises"), here, doe.claim("wrong"), doe.claim("fine")]
    seen = []
    verdicts = claims.verify(chosen, processes=2, seed=3, on_verdict=seen.append)
    assert [v.claim.id for v in verdicts] == ["dies", "raises", "seeded", "wrong", "fine"]
    assert "worker process died (exit code 7)" in verdicts[0].failed
    assert verdicts[1].failed == "ArithmeticError: no such integral"
    assert verdicts[2].answer != f"pid {os.getpid()}"
    assert [v.verdict for v in verdicts[3:]] == ["refuted as stated", "confirmed"]
    assert len(seen) == 5


def test_the_same_verdicts_from_workers_and_from_here():
    def content(verdicts):
        return [(v.id, v.verdict, v.checks) for v in verdicts]

    assert content(claims.verify(processes=2)) == content(claims.verify())


def test_a_check_made_on_the_spot_runs_here(doe):
    def local(preset, seed):
        return doe.fine(preset, seed)

    chosen = [claims.Claim("local", "doe2027", "t", "s", "p", "e", local), doe.claim("fine")]
    assert [v.verdict for v in claims.verify(chosen, processes=2)] == ["confirmed", "confirmed"]


def test_verdicts_file_round_trip(doe, tmp_path):
    verdicts = claims.verify([*claims.all_claims(), doe.claim("raises")])
    path = claims.save_verdicts(verdicts, tmp_path / "new" / "verdicts.json")
    again = claims.load_verdicts(path)
    assert again == verdicts
    assert [v.verdict for v in again] == [v.verdict for v in verdicts]
    assert [p.name for p in path.parent.iterdir()] == ["verdicts.json"]


def test_a_verdict_typed_into_the_file_is_computed_anew(tmp_path):
    path = claims.save_verdicts(claims.verify("doe2027/wrong"), tmp_path / "verdicts.json")
    document = json.loads(path.read_text())
    document["verdicts"][0]["verdict"] = "confirmed"
    path.write_text(json.dumps(document))
    assert claims.load_verdicts(path)[0].verdict == "refuted as stated"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 99, "verdicts": []}', '{"format": 1, "verd']
)
def test_damaged_files_are_refused(tmp_path, text):
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(InvalidArgument, match="a verdicts file"):
        claims.load_verdicts(tmp_path / "v.json")


def test_verdicts_as_labelled_arrays(doe):
    ds = claims.verdicts_to_dataset(claims.verify([*claims.all_claims(), doe.claim("raises")]))
    assert ds.sizes == {"claim": 5, "check": 4}
    assert ds.verdict.sel(claim="doe2027/wrong").item() == "refuted as stated"
    assert ds.verdict.sel(claim="doe2027/raises").item() == "failed to run"
    assert ds.measured.where(ds.check_claim == "doe2027/wrong", drop=True).item() == 1.0
    assert np.isnan(ds.error.values[0])
