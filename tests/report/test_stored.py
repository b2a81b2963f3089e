"""What is stored can be looked at and cleared, all of it or what is of no more use."""

import os
import time

import pytest

from attnlab.errors import InvalidArgument
from attnlab.report import Store, build_report, clear, inspect


@pytest.fixture
def stored(doe, tmp_path):
    """A store with two records and three verdicts, and the papers it is of."""
    build_report(tmp_path, papers=[doe.EVERYTHING], processes=1)
    return Store(tmp_path / "report-records"), [doe.EVERYTHING]


def states(store, papers):
    return {(item.kind, item.id): item.state for item in inspect(store, papers=papers)}


def new(store):
    """The same store, as another process sees it: digests of the code are taken anew."""
    return Store(store.directory)


def test_finished_results_are_valid_with_size_and_age(stored):
    store, papers = stored
    found = inspect(store, papers=papers)
    assert [(item.kind, item.id) for item in found] == [
        ("experiment", "doe2027/blank"),
        ("experiment", "doe2027/descent"),
        ("verdict", "doe2027/bad"),
        ("verdict", "doe2027/good"),
        ("verdict", "doe2027/open"),
    ]
    for item in found:
        assert item.state == "valid"
        assert item.size == item.path.stat().st_size
        assert 0 <= item.age < 600


def test_changed_code_makes_results_stale(stored, tmp_path):
    store, papers = stored
    source = tmp_path / "code" / "doe2027_report.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert set(states(new(store), papers).values()) == {"stale"}


def test_results_of_papers_and_claims_that_are_gone_are_stale(stored, doe):
    store, _ = stored
    assert set(states(store, []).values()) == {"stale"}
    fewer = doe.paper((doe.experiment("descent"),), (doe.claim("good"),))
    valid = [id for (_, id), state in states(store, [fewer]).items() if state == "valid"]
    assert valid == ["doe2027/descent", "doe2027/good"]


def test_stale_results_and_old_remains_are_cleared_alone(stored, doe):
    store, papers = stored
    descent, good = store.entries()[1], store.entries()[3]
    assert (descent.id, good.id) == ("doe2027/descent", "doe2027/good")
    old = descent.path.with_name("x.partial.nc")
    young = good.path.with_name(".good.json.1234.tmp")
    checkpoint = descent.path.parent / ".checkpoints" / "stem" / "loop.npz"
    checkpoint.parent.mkdir(parents=True)
    for path in (old, young, checkpoint):
        path.write_bytes(b"half")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    good.path.write_bytes(b"{")
    found = states(store, papers)
    assert found["verdict", "doe2027/good"] == "damaged"
    assert found["unfinished", "doe2027/descent"] == "left over"
    assert sum(item.state == "left over" for item in inspect(store, papers=papers)) == 3
    removed = clear(store, stale=True, papers=papers)
    assert {item.path for item in removed} == {old, good.path}
    assert young.exists()
    assert checkpoint.exists()  # the run that it is of may go on
    assert set(states(store, papers).values()) == {"valid", "left over"}


def test_results_are_cleared_by_paper_or_id(stored, doe):
    store, papers = stored
    before = inspect(store, papers=papers)
    with pytest.raises(InvalidArgument, match=r"id = 'doe2027/x' .* \(doe2027\)"):
        clear(store, ["doe2027/good", "doe2027/x"])
    assert inspect(store, papers=papers) != []
    removed = clear(store, ["doe2027/good", "doe2027/blank"], papers=papers)
    assert sorted(item.id for item in removed) == ["doe2027/blank", "doe2027/good"]
    assert len(inspect(store, papers=papers)) == len(before) - 2
    build_report(store.directory.parent, papers=papers, processes=1)
    assert doe.runs().count("good 0") == 2
    assert doe.runs().count("bad") == 1
    assert len(clear(store, "doe2027")) == len(before)
    assert not store.directory.exists()
    assert clear(store) == ()


def test_files_of_others_are_left_alone(stored):
    store, _ = stored
    mine = store.directory / "doe2027" / "notes.txt"
    mine.write_text("mine")
    clear(store)
    assert [path for path in store.directory.rglob("*") if path.is_file()] == [mine]
