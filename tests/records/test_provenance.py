"""Provenance: complete, JSON only, refused before a run rather than after it."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import attnlab
from attnlab import records
from attnlab.errors import InvalidArgument
from attnlab.records.provenance import git_state

CONFIG = {"dim": 400, "gamma": 0.5, "seed": 3, "link": "linear", "widths": (1, 2), "note": None}


def test_everything_needed_to_run_again_is_there():
    record = records.provenance(
        CONFIG, experiment="marion2025/gd-manifold", preset="quick", extra={"figure": "a.png"}
    )
    assert record["config"] == {**CONFIG, "widths": [1, 2]}
    assert record["seed"] == 3
    assert "fold_in" in record["seed_rule"]
    assert record["attnlab"] == attnlab.__version__
    assert set(record["packages"]) >= {"jax", "jaxlib", "numpy", "equinox", "xarray"}
    assert all(record["packages"].values())
    assert record["jax"]["backend"] == "cpu"
    assert record["jax"]["x64"] is False
    assert "fry" in record["jax"]["prng"]
    assert record["jax"]["device"]
    assert record["precision"] == "float64"
    assert record["figure"] == "a.png"
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_finish_adds_the_seconds_and_attach_leaves_its_argument_alone():
    record = records.finish(records.provenance(CONFIG), 1.23456, partial=True)
    assert record["seconds"] == 1.235
    assert record["partial"] is True
    dataset = xr.Dataset({"risk": ("step", [1.0])})
    attached = records.attach(dataset, record)
    assert dataset.attrs == {}
    assert records.provenance_of(attached) == record
    assert records.config_of(attached)["dim"] == 400


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"a": {"b": np.float64("nan")}}, "config.a.b"),
        ({"a": [1, float("inf")]}, "config.a[1]"),
        ({"f": print}, "config.f"),
        ({"a": {1: 2}}, "config.a"),
        ({"a": np.zeros(3)}, "config.a"),
    ],
)
def test_what_json_cannot_hold_is_named_before_the_run(config, name):
    with pytest.raises(InvalidArgument) as caught:
        records.provenance(config)
    assert caught.value.name == name


def test_extra_entries_may_not_overwrite_what_provenance_sets():
    with pytest.raises(InvalidArgument, match="seed"):
        records.provenance(CONFIG, extra={"seed": 4})


@pytest.mark.parametrize("attribute", [None, "no json", "[1]", '{"config": 1}'])
def test_dataset_without_provenance_is_refused(attribute):
    dataset = xr.Dataset(attrs={} if attribute is None else {"attnlab": attribute})
    with pytest.raises(InvalidArgument, match="provenance"):
        records.provenance_of(dataset)


def run_git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def test_git_state_tells_revision_and_dirt_of_tracked_files_only(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("x = 1\n")
    assert git_state(package) is None  # no repository
    run_git(tmp_path, "init", "-q")
    assert git_state(package) is None  # a repository that does not track this folder
    run_git(tmp_path, "add", "package")
    run_git(tmp_path, "commit", "-q", "-m", "first")
    clean = git_state(package)
    assert len(clean["revision"]) == 40
    assert clean["dirty"] is False
    (tmp_path / "untracked.txt").write_text("notes\n")
    assert git_state(package) == clean
    (package / "module.py").write_text("x = 2\n")
    assert git_state(package) == {**clean, "dirty": True}
