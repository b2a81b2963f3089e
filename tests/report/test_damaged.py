"""One damaged file in a store costs its own result, is told in a line, and can be cleared."""

import json

import h5py
import pytest

from attnlab.report import Store, build_report, clear, inspect


@pytest.fixture
def stored(doe, tmp_path):
    """A store with two records and three verdicts, and the papers it is of."""
    build_report(tmp_path, papers=[doe.EVERYTHING], processes=1)
    return Store(tmp_path / "report-records"), [doe.EVERYTHING]


def states(store, papers):
    return {(item.kind, item.id): item.state for item in inspect(store, papers=papers)}


def broken_attribute(path):
    with h5py.File(path, "a") as file:
        file.attrs["made"] = "json:{"


def broken_provenance(path):
    with h5py.File(path, "a") as file:
        record = json.loads(file.attrs["attnlab"])
        file.attrs["attnlab"] = json.dumps(record | {"packages": "none", "seconds": "long"})


def no_provenance(path):
    with h5py.File(path, "a") as file:
        del file.attrs["attnlab"]


def other_settings(path):
    with h5py.File(path, "a") as file:
        record = json.loads(file.attrs["attnlab"])
        record["config"]["steps"] = 7
        file.attrs["attnlab"] = json.dumps(record)


def a_folder(path):
    path.unlink()
    (path / "inside").mkdir(parents=True)


def a_link_to_nothing(path):
    path.unlink()
    path.symlink_to(path.parent / "nothing")


@pytest.mark.parametrize(
    "damage",
    [
        broken_attribute,
        broken_provenance,
        no_provenance,
        other_settings,
        a_folder,
        a_link_to_nothing,
    ],
)
def test_a_damaged_record_is_told_in_a_line_computed_anew_and_can_be_cleared(
    stored, doe, caplog, damage
):
    store, papers = stored
    descent = store.entries()[1].path
    damage(descent)
    assert states(store, papers)["experiment", "doe2027/descent"] in ("damaged", "stale")
    before = doe.runs().count("run 0")
    build_report(store.directory.parent, papers=papers, processes=1)
    assert doe.runs().count("run 0") == before + 1
    (told,) = caplog.messages
    assert str(descent) in told
    assert "computed anew" in told
    assert "\n" not in told
    assert set(states(store, papers).values()) == {"valid"}
    damage(descent)
    clear(store, papers=papers)
    assert not store.directory.exists()


VERDICTS = {
    "seed": "text",
    "seconds": "long",
    "preset": ["quick"],
    "notes": None,
    "checks": "none",
    "claim": {"id": 3},
    "corrected": 5,
    "answer": {},
    "failed": 1.5,
    "evidence": [{"name": "x"}],
}


@pytest.mark.parametrize("entry", [*VERDICTS, "p_value", "holds", "statistics", "verdicts", "deep"])
def test_a_damaged_verdict_is_told_in_a_line_computed_anew_and_can_be_cleared(
    stored, doe, caplog, entry
):
    store, papers = stored
    good = store.entries()[3].path
    document = json.loads(good.read_text())
    (verdict,) = document["verdicts"]
    if entry in VERDICTS:
        verdict[entry] = VERDICTS[entry]
    elif entry == "verdicts":
        document["verdicts"] = 5
    elif entry != "deep":
        verdict["checks"][0][entry] = "wrong" if entry != "statistics" else {"n": []}
    damaged = "[" * 100_000 if entry == "deep" else json.dumps(document)
    good.write_text(damaged)
    assert states(store, papers)["verdict", "doe2027/good"] == "damaged"
    before = doe.runs().count("good 0")
    build_report(store.directory.parent, papers=papers, processes=1)
    assert doe.runs().count("good 0") == before + 1
    (told,) = caplog.messages
    assert str(good) in told
    assert "\n" not in told
    good.write_text(damaged)
    clear(store, papers=papers)
    assert not store.directory.exists()
