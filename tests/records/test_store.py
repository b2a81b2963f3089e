"""Saving and loading: exact round trips, and no half-written file whatever happens."""

import os
import signal
import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest
import xarray as xr

from attnlab import records
from attnlab.errors import InvalidArgument


def example(runs=3, steps=5):
    rng = np.random.default_rng(0)
    risk = rng.normal(size=(runs, steps))
    risk[0, -1] = np.nan
    return xr.Dataset(
        {
            "risk": (("run", "step"), risk, {"units": "1", "source": "Lemma 6"}),
            "single": (("run", "step"), np.float32(risk)),
            "status": ("run", np.array(["ok", "diverged", "ok"][:runs])),
            "converged": ("run", np.array([True, False, True][:runs])),
            "count": ("run", np.arange(runs, dtype=np.int64)),
        },
        coords={"step": np.arange(steps) * 10},
    )


def test_round_trip_is_exact(tmp_path):
    dataset = records.attach(example(), records.provenance({"seed": 0}))
    path = records.save(dataset, tmp_path / "new" / "record.nc")
    loaded = records.load(path)
    xr.testing.assert_identical(loaded, dataset)
    assert loaded["risk"].dtype == np.float64
    assert loaded["single"].dtype == np.float32
    assert loaded["converged"].dtype == bool
    assert records.provenance_of(loaded)["seed"] == 0


def test_large_compressed_variables_round_trip(tmp_path):
    dataset = xr.Dataset({"x": (("run", "step"), np.random.default_rng(1).normal(size=(30, 4000)))})
    loaded = records.load(records.save(dataset, tmp_path / "x.nc"))
    np.testing.assert_array_equal(loaded["x"], dataset["x"])


def test_attributes_that_netcdf_rejects_survive(tmp_path):
    attributes = {
        "nothing": None,
        "flag": True,
        "numpy_flag": np.bool_(False),
        "table": {"a": [1, None, {"b": "c"}]},
        "names": ["a", "b"],
        "empty": [],
        "text": "json:looks like ours",
        "number": 3,
        "real": 0.1,
        "unicode": "λ = √½",
    }
    dataset = example().assign_attrs(attributes)
    dataset["risk"].attrs.update(attributes)
    loaded = records.load(records.save(dataset, tmp_path / "a.nc"))
    assert loaded.attrs == attributes
    assert loaded["risk"].attrs == {"units": "1", "source": "Lemma 6", **attributes}
    assert dataset.attrs["table"] is attributes["table"]  # the caller's dataset is untouched


def test_what_cannot_be_stored_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(InvalidArgument, match="attribute risk.f"):
        bad = example()
        bad["risk"].attrs["f"] = print
        records.save(bad, tmp_path / "a.nc")
    with pytest.raises(InvalidArgument, match="phase = complex128|phase"):
        records.save(xr.Dataset({"phase": ("run", np.array([1j]))}), tmp_path / "b.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["PASS/FAIL", "", ".", " a", "a\n", 3])
def test_names_that_are_no_names_in_a_file(tmp_path, name):
    values = np.arange(2.0)
    named = [
        xr.Dataset({name: ("x", values)}),
        xr.Dataset({"a": ("x", values)}).assign_attrs({name: 1}),
        xr.Dataset({"a": ("x", values, {name: 1})}),
    ]
    if isinstance(name, str):
        named.append(xr.Dataset({"a": (name, values)}))
    for dataset in named:
        with pytest.raises(InvalidArgument, match="name of a"):
            records.save(dataset, tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "attributes"),
    [
        (np.array(["a\0b"]), {}),
        (np.array(["\ud800"]), {}),
        (np.array(["2020-01-01"], "datetime64[ns]"), {"units": "s"}),
        (np.ones(1), {"units": "days since 2000-01-01"}),
        (np.ones(1), {"_FillValue": 1.0}),
        (np.ones(1), {"scale_factor": 2.0}),
    ],
)
def test_what_would_not_come_back_is_refused(tmp_path, values, attributes):
    with pytest.raises(InvalidArgument):
        records.save(xr.Dataset({"a": ("x", values, attributes)}), tmp_path / "a.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [None, 1.5, b"text", np.nan])
def test_python_objects_that_are_no_text(tmp_path, value):
    mixed = np.array(["p", value], dtype=object)
    for dataset in (xr.Dataset({"o": ("x", mixed)}), xr.Dataset(coords={"x": mixed})):
        with pytest.raises(InvalidArgument, match="text throughout"):
            records.save(dataset, tmp_path / "a.nc")
    text = xr.Dataset({"o": ("x", np.array(["p", ""], dtype=object))})
    assert records.load(records.save(text, tmp_path / "b.nc")).o.values.tolist() == ["p", ""]


def test_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = records.save(example(), tmp_path / "record.nc")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        records.save(example(steps=2), path)
    monkeypatch.undo()
    assert records.load(path).sizes["step"] == 5
    assert [p.name for p in tmp_path.iterdir()] == ["record.nc"]


def test_killed_writer_leaves_the_old_file_whole(tmp_path):
    path = records.save(example(), tmp_path / "record.nc")
    program = textwrap.dedent(
        """
        import os, signal, sys
        import numpy as np
        import xarray as xr
        from attnlab import records
        # Killed when all bytes of the new file are written but it has not taken its name.
        os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
        records.save(xr.Dataset({"x": ("run", np.zeros(100_000))}), sys.argv[1])
        """
    )
    for target in (path, tmp_path / "fresh.nc"):
        killed = subprocess.run([sys.executable, "-c", program, str(target)], check=False)
        assert killed.returncode == -signal.SIGKILL
    assert records.load(path).sizes["step"] == 5
    assert [p.name for p in tmp_path.glob("*.nc")] == ["record.nc"]


@pytest.mark.parametrize("content", [None, b"", b"not netCDF", "half"])
def test_absent_and_damaged_files_are_refused_by_name(tmp_path, content):
    path = tmp_path / "record.nc"
    if content == "half":
        whole = records.save(example(), path).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="record.nc"):
        records.load(path)


def test_writable_directory_is_made_and_left_empty(tmp_path):
    made = records.writable_directory(tmp_path / "a" / "b")
    assert made.is_dir()
    assert list(made.iterdir()) == []


@pytest.mark.parametrize("target", ["file", "file/below", "/proc/attnlab"])
def test_unwritable_directory_is_refused_with_the_reason(tmp_path, target):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="out = .* can be written to \\("):
        records.writable_directory(tmp_path / target)


def test_default_directory_follows_the_environment(monkeypatch):
    monkeypatch.delenv("ATTNLAB_OUTPUT", raising=False)
    assert str(records.default_directory()) == "attnlab-output"
    monkeypatch.setenv("ATTNLAB_OUTPUT", "elsewhere")
    assert str(records.default_directory()) == "elsewhere"


def link(file, other):
    del file["x"]
    file["x"] = h5py.ExternalLink(str(other), "x")


def storage(file, other):
    del file["x"]
    file.create_dataset("x", (4,), "u1", external=[(str(other), 0, h5py.h5f.UNLIMITED)])


def virtual(file, other):
    del file["x"]
    layout = h5py.VirtualLayout(shape=(2,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(other), "x", shape=(2,))
    file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize("point", [link, storage, virtual])
def test_a_record_that_points_to_other_files_is_refused(tmp_path, point):
    records.save(xr.Dataset({"x": ("i", [1.0, 2.0])}), tmp_path / "other.nc")
    path = records.save(xr.Dataset({"x": ("i", [1.0, 2.0])}), tmp_path / "a.nc")
    with h5py.File(path, "a") as file:
        point(file, tmp_path / "other.nc")
    with pytest.raises(InvalidArgument, match="holds its own data"):
        records.load(path)


@pytest.mark.parametrize("wrong", [None, 5, b"\0", "a\0", ["a.nc"], 2**70])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(InvalidArgument, match="record"):
        records.load(wrong)


def test_a_broken_attribute_is_damage(tmp_path):
    path = records.save(xr.Dataset({"x": ("i", [1.0])}), tmp_path / "a.nc")
    with h5py.File(path, "a") as file:
        file.attrs["made"] = "json:{"
    with pytest.raises(InvalidArgument, match="complete netCDF-4 file"):
        records.load(path)
