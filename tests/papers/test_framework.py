"""Papers and experiments: data that is checked when made and found by id."""

import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from attnlab import papers
from attnlab.errors import InvalidArgument
from attnlab.papers import _discovery


class Toy(papers.Config):
    steps: int = 4


def compute(config):
    return xr.Dataset({"x": ("step", np.arange(config.steps))})


def experiment(id="toy2027/line", **changes):
    fields = {
        "title": "A line",
        "summary": "Counts up.",
        "source": "Section 1",
        "config": Toy,
        "run": compute,
        "figure": None,
        "presets": {"quick": {}, "paper": {"steps": 100}},
        "expected": "x ends at steps - 1",
    }
    return papers.Experiment(id=id, **{**fields, **changes})


def paper(*experiments, key="toy2027", **changes):
    fields = {
        "title": "Toys",
        "authors": ("A. Author",),
        "year": 2027,
        "bibtex": f"@misc{{{key},\n  title = {{Toys}}\n}}",
    }
    return papers.Paper(key=key, experiments=experiments, **{**fields, **changes})


@pytest.fixture
def installed(monkeypatch):
    """Puts papers where those of other distributions are looked for."""

    def install(*values):
        points = [
            importlib.metadata.EntryPoint(name, value, _discovery.GROUP) for name, value in values
        ]
        monkeypatch.setattr(_discovery, "entry_points", lambda group: points)
        _discovery.all_papers.cache_clear()

    yield install
    monkeypatch.undo()
    _discovery.all_papers.cache_clear()


PAPER = paper(
    experiment(cites=("owen1956", "extra2020")), references={"extra2020": "@misc{extra2020,\n}"}
)
NO_PAPER = "not a paper"
TAKEN = paper(key="marion2025")


def test_an_experiment_runs_from_preset_and_changes():
    toy = experiment()
    assert (toy.paper, toy.name) == ("toy2027", "line")
    assert toy.configure("paper").steps == 100
    dataset = toy.compute(toy.configure("quick", {"steps": "7"}))
    assert dataset.sizes["step"] == 7
    assert toy.plot(dataset) is None


def test_references_by_name_are_resolved_when_used():
    toy = experiment(config=f"{__name__}:Toy", run="math:sqrt", figure="math:floor")
    assert toy.config_class() is Toy
    assert toy.compute(4.0) == 2.0
    assert toy.plot(2.5) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "toy2027"},
        {"id": "toy2027/a/b"},
        {"id": "toy2027/a b"},
        {"title": " "},
        {"expected": ""},
        {"presets": {"quick": {}}},
    ],
)
def test_incomplete_experiments_are_refused(changes):
    with pytest.raises(InvalidArgument, match="Experiment"):
        experiment(**changes)


def test_unknown_preset_and_open_configuration_are_refused():
    with pytest.raises(InvalidArgument, match="preset = 'huge'"):
        experiment().configure("huge")
    with pytest.raises(InvalidArgument, match="Experiment.config"):
        experiment(config=dict).configure()


def test_papers_check_their_key_bibtex_and_ids():
    with pytest.raises(InvalidArgument, match="Paper.key"):
        paper(key="a/b")
    with pytest.raises(InvalidArgument, match="bibtex"):
        paper(bibtex="@misc{other,\n}")
    with pytest.raises(InvalidArgument, match="elsewhere/line"):
        paper(experiment("elsewhere/line"))
    with pytest.raises(InvalidArgument, match="used once"):
        paper(experiment(), experiment())


def test_the_own_paper_is_found_and_complete():
    known = {p.key: p for p in papers.all_papers()}
    marion = known["marion2025"]
    assert marion.year == 2025
    assert len(marion.authors) == 4
    for found in papers.all_experiments():
        assert papers.find_experiment(found.id) is found
        assert found.config_class().model_fields["seed"].default == 0
        for preset in ("quick", "paper"):
            found.configure(preset)
        papers.bibtex_for(found.id)


def test_papers_of_other_distributions_join(installed):
    installed(("toy2027", f"{__name__}:PAPER"))
    assert papers.all_papers()[-1].key == "toy2027"
    assert papers.find_experiment("toy2027/line").title == "A line"
    assert papers.find_experiment("line").id == "toy2027/line"
    text = papers.bibtex_for("toy2027/line")
    assert [text.index(key) for key in ("{toy2027,", "{owen1956,", "{extra2020,")] == sorted(
        text.index(key) for key in ("{toy2027,", "{owen1956,", "{extra2020,")
    )


@pytest.mark.parametrize("value", [f"{__name__}:NO_PAPER", f"{__name__}:TAKEN", "no_such_module:P"])
def test_a_broken_foreign_paper_is_left_out_with_a_warning(installed, value):
    installed(("broken", value))
    with pytest.warns(UserWarning, match="'broken'.* left out"):
        keys = [p.key for p in papers.all_papers()]
    assert keys.count("marion2025") == 1


def test_unknown_experiment_names_the_nearest(installed):
    installed(("toy2027", f"{__name__}:PAPER"))
    for wrong in ("toy2027/lime", "toy2027/lines", "lin"):
        with pytest.raises(InvalidArgument, match="toy2027/line"):
            papers.find_experiment(wrong)


def test_collect_joins_the_tuples_of_a_folder(tmp_path, monkeypatch):
    folder = tmp_path / "folder_of_items"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "b.py").write_text("ITEMS = (3,)")
    (folder / "a.py").write_text("ITEMS = (1, 2)")
    (folder / "_helper.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert papers.collect("folder_of_items", "ITEMS") == (1, 2, 3)
    (folder / "c.py").write_text("")
    with pytest.raises(InvalidArgument, match="folder_of_items.c.ITEMS"):
        papers.collect("folder_of_items", "ITEMS")


def test_citing_names_methods_keys_and_suggests():
    assert "@inproceedings{marion2025," in papers.bibtex_for("SingleLocation")
    assert papers.bibtex_for("dynamics.gradient_flow") == papers.bibtex_for("gradient_flow")
    both = papers.bibtex_for(["SingleLocation", "PointwiseAttention"])
    assert both.count("{marion2025,") == 1
    assert "owen1956" in papers.bibtex_for("population_risk")
    with pytest.raises(InvalidArgument, match="SingleLocation"):
        papers.bibtex_for("SingelLocation")


def test_every_entry_is_well_formed_bibtex():
    for name, keys in papers.citable().items():
        text = papers.bibtex_for(name)
        for key in keys:
            assert text.count(f"{{{key},") == 1
        assert text.count("{") == text.count("}")


def test_listing_papers_imports_nothing_heavy():
    program = (
        "import sys; from attnlab import papers; papers.all_experiments(); papers.citable();"
        "print(sorted({'jax', 'numpy', 'xarray', 'scipy', 'matplotlib', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
