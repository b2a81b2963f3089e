"""What points give: kept exactly, or their point has failed; never a sweep that ends in nothing."""

import json
import signal

import numpy as np
import pytest

import attnlab as al
from attnlab import records, sweeps

BIG = 2**53 + 1  # the first whole number that a float64 does not hold


def swept(function, out, **options):
    """The dataset of a sweep over `x`, as its file gives it back."""
    options = {"workers": 0, "grid": {"x": [0, 1, 2]}} | options
    dataset = al.sweep(function, out=out, **options)
    assert records.load(out / "sweep.nc").identical(dataset)
    return dataset


def values(*given):
    """A function whose point `x` gives the value at place `x`, or raises it."""

    def point(x):
        value = given[x]
        if isinstance(value, BaseException):
            raise value
        return value

    return point


@pytest.mark.parametrize(
    ("given", "expected", "kind"),
    [
        ((BIG, 2**62 + 1, -BIG), (BIG, 2**62 + 1, -BIG), "i8"),
        ((2**64 - 1, 2**63, 3), (2**64 - 1, 2**63, 3), "u8"),
        ((True, False, True), (True, False, True), "b1"),
        (([2**63, 1], [2, 3], [4, 5]), ([2**63, 1], [2, 3], [4, 5]), "u8"),
        ((np.float32(0.1), 1, 2), (np.float32(0.1), 1, 2), "f8"),
        (("é" * 200, "b", ""), ("é" * 200, "b", ""), "U200"),
        (("a" * 70, 0.1 + 0.2, 10**17), ("a" * 70, repr(0.1 + 0.2), str(10**17)), "U70"),
    ],
)
def test_results_are_kept_exactly(given, expected, kind, tmp_path):
    dataset = swept(values(*given), tmp_path, batch=1)
    assert dataset.value.values.tolist() == list(expected)
    loaded = "O" if kind[0] == "U" else np.dtype(kind)
    assert dataset.value.dtype == np.dtype(kind) or dataset.value.dtype == loaded


def test_where_something_is_missing_whole_numbers_are_floats_or_stay_exact(tmp_path):
    small = swept(values(5, ValueError(), 7), tmp_path / "small")
    np.testing.assert_array_equal(small.value, [5.0, np.nan, 7.0])
    large = swept(values(BIG, ValueError(), 7), tmp_path / "large")
    assert large.value.values.tolist() == [BIG, -(2**63), 7]
    assert large.value.attrs["nothing"] == str(-(2**63))
    unsigned = swept(values(2**64 - 2, ValueError(), 7), tmp_path / "unsigned")
    assert unsigned.value.values.tolist() == [2**64 - 2, 2**64 - 1, 7]


def test_whole_numbers_that_have_to_be_rounded_are_told(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"result value: whole numbers beyond 2\^53"):
        swept(values(BIG, 0.5, 7), tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.ones((2, 2)), "has the dimensions"),
        ({"value": ("k", [1.0, 2.0, 3.0]), "other": ("k", [1.0])}, "entries on 'k'"),
        ({"value": (("k", "k"), np.ones((2, 2)))}, "different names"),
        ({"": 1.0}, "printable"),
        ({"a/b": 1.0}, "printable"),
        ({"value": ("a/b", [1.0, 2.0])}, "printable"),
        ({3: 1.0}, "printable"),
        ("a\0", "without NUL"),
        (["a\0b", "c"], "without NUL"),
        ("\udc80", "without NUL"),
        (b"bytes", "numbers"),
        (2**64, "64 bits"),
        (np.longdouble(1), "64 bits"),
        (1j, "numbers"),
        ({}, "at least one"),
        (None, "numbers"),
        ([2**63 + 1, -1], "2^53"),
        ([BIG, 0.5], "2^53"),
        ([np.int64(BIG), 0.5], "2^53"),
        (np.ma.masked_array(1j), "numbers"),
        (["a\0", "b"], "without NUL"),
        (np.array(["a\0"], object), "without NUL"),
        (np.zeros((1,) * 9), "at most 8"),
        ({"_nc4_non_coord_x": 1.0}, "printable"),
        (ValueError("a\0b\udc80"), r"ValueError: a\0b\udc80"),
        (KeyboardInterrupt("no key was pressed"), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_a_result_that_cannot_be_kept_is_a_failed_point(wrong, message, tmp_path):
    options = {}
    if isinstance(wrong, KeyboardInterrupt):
        options["timeout"] = 60  # in this process it would be the user's
    dataset = swept(values([1.0, 2.0], wrong, [3.0, 4.0]), tmp_path, **options)
    assert dataset.status.values.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(
        dataset.value, [[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]], strict=True
    )
    (failure,) = sweeps.failures(dataset)
    assert failure.settings == {"x": 1}
    assert message in failure.error


def test_an_error_that_cannot_be_told_is_a_failed_point(tmp_path):
    class Strange(Exception):
        def __str__(self):
            raise RuntimeError

    dataset = swept(values(1.0, Strange(), 2.0), tmp_path)
    assert "Strange: its message cannot be shown" in sweeps.failures(dataset)[0].error


def test_names_that_the_dataset_needs_itself_are_given_way(tmp_path):
    given = {
        "status": 1.0,
        "failure": ("failure_number", [1.0, 2.0]),
        "x": 3.0,
        "result_x": 4.0,
        "k": 5.0,
        "long": ("k", [6.0, 7.0]),
        "m": ("m", [8.0, 9.0]),
    }
    dataset = swept(values(given, ValueError("none"), given), tmp_path)
    names = [name for name in dataset.data_vars if not name.startswith("fail")]
    found = {name: dataset[name].isel(x=0).values.tolist() for name in names}
    assert found == {
        "result_status": 1.0,
        "result_failure": [1.0, 2.0],
        "result_x": 3.0,
        "result_result_x": 4.0,
        "result_k": 5.0,
        "long": [6.0, 7.0],
        "result_m": [8.0, 9.0],
        "status": 0,
    }
    assert dataset.result_failure.dims == ("x", "result_failure_number")
    assert sweeps.failures(dataset)[0].settings == {"x": 1}


def test_lengths_are_those_of_all_variables(tmp_path):
    lengths = values({"a": ("k", [1, 2, 3])}, {"b": ("k", [4])}, {"a": ("k", [5]), "b": ("k", [6])})
    dataset = swept(lengths, tmp_path)
    nan = np.nan
    np.testing.assert_array_equal(dataset.a, [[1, 2, 3], [nan] * 3, [5, nan, nan]])
    np.testing.assert_array_equal(dataset.b, [[nan] * 3, [4, nan, nan], [6, nan, nan]])


def test_labels_of_the_points_own(tmp_path):
    import xarray as xr

    def labelled(x, shared):
        k = [10, 20, 30] if shared else [x, x + 1, x + 2]
        attrs = {"units": "1", "bad": "a\0b", "_FillValue": "text", "CLASS": "x", "": "y"}
        attrs |= {"scale": 2.5, "calendar": "none", "array": np.zeros(2), 5: "number"}
        data = {"y": ("k", [1.0, 2.0, 3.0][: 3 - x], attrs)}
        return xr.Dataset(data, coords={"k": k[: 3 - x], "where": 5})

    shared = swept(labelled, tmp_path / "a", grid={"x": [0]}, settings={"shared": True})
    assert shared.k.dims == ("k",)
    assert shared["where"].item() == 5
    assert shared.y.attrs == {"units": "1", "bad": "a\\0b", "scale": 2.5}
    ragged = swept(labelled, tmp_path / "b", grid={"x": [1, 0]}, settings={"shared": True})
    np.testing.assert_array_equal(ragged.k, [[10, 20, np.nan], [10, 20, 30]])
    assert ragged.k.dims == ("x", "k")


def test_select_takes_one_place_of_a_dimension_that_is_there(tmp_path):
    import xarray as xr

    def point(x):
        return xr.Dataset({"y": ("step", [x, x + 1.0])})

    last = swept(point, tmp_path / "a", select={"step": -1})
    np.testing.assert_array_equal(last.y, [1.0, 2.0, 3.0])
    for select in ({"stp": -1}, {"step": 2}):
        dataset = swept(point, tmp_path / f"{select}", select=select)
        assert dataset.status.values.tolist() == [1, 1, 1]
    assert (
        "select = 'stp'"
        in sweeps.failures(swept(point, tmp_path / "c", select={"stp": 0}))[0].error
    )


def test_what_a_function_goes_on_to_use_is_copied(tmp_path):
    buffer = np.zeros(2)

    def reusing(x):
        buffer[:] = x
        return buffer

    dataset = swept(reusing, tmp_path, grid={"x": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(dataset.value, [[1, 1], [2, 2], [3, 3]])


def test_what_a_function_changes_is_its_own(tmp_path):
    def changing(w, k, fixed):
        w.append(k)
        fixed.append(k)
        return sum(w) + len(fixed)

    options = {"grid": {"w": [[1], [5]], "k": [10, 20, 30]}, "settings": {"fixed": []}}
    dataset = swept(changing, tmp_path, **options)
    np.testing.assert_array_equal(dataset.value, [[12, 22, 32], [16, 26, 36]])
    assert dataset.w.values.tolist() == ["[1]", "[5]"]
    assert records.config_of(dataset)["swept"][0]["settings"]["w"] == [[1], [5]]


def test_masked_values_are_missing(tmp_path):
    masked = np.ma.masked_array([1.0, 999.0], [0, 1])
    dataset = swept(values(masked, [1, 2], np.ma.masked_array([3, 4], [1, 0])), tmp_path)
    np.testing.assert_array_equal(dataset.value, [[1, np.nan], [1, 2], [np.nan, 4]])
    assert np.isnan(swept(values(np.ma.masked, 1.0, 2.0), tmp_path / "one").value[0])
    whole = swept(values(*(np.ma.masked_array([2**60 + k]) for k in range(3))), tmp_path / "whole")
    assert whole.value.values.ravel().tolist() == [2**60, 2**60 + 1, 2**60 + 2]


def test_calls_for_many_points_give_what_single_ones_do():
    def several(x):
        import jax.numpy as jnp

        return {"m": [x, 2 * x, 3 * x], "pair": ("k", jnp.stack([x, x**2])), "t": (x, x**2)}

    grid = {"x": [1.0, 2.0, 3.0]}
    each = al.sweep(several, grid=grid, workers=0)
    together = al.sweep(several, grid=grid, batching="vmap", batch=2, workers=0)
    for name in ("m", "pair", "t"):
        np.testing.assert_array_equal(together[name], each[name])
        assert together[name].dims == each[name].dims
    lists = al.sweep(lambda x: (x, 10 * x), grid=grid, batching="arrays", workers=0)
    assert lists.status.values.tolist() == [1, 1, 1]
    assert "a list may be of points or results" in sweeps.failures(lists)[0].error


def test_a_function_that_cannot_be_traced_fails_once_for_all():
    calls = []

    def untraceable(x):
        calls.append(1)
        return float(x)

    grid = {"x": [float(i) for i in range(200)]}
    dataset = al.sweep(untraceable, grid=grid, batching="vmap", workers=0)
    assert (dataset.status == 1).all()
    assert len(calls) < 5


def test_failures_of_a_part(tmp_path):
    def picky(x, y):
        if x == 2:
            raise ValueError(f"not {y}")
        return x

    dataset = al.sweep(picky, grid={"x": [1, 2, 3], "y": [5, 6]}, workers=0)
    parts = [
        dataset.isel(x=slice(1, None)),
        dataset.transpose("y", "x", ...),
        dataset.sel(x=2),
    ]
    for part in parts:
        found = sweeps.failures(part)
        assert {row.error.partition(" (")[0] for row in found} == {
            "ValueError: not 5",
            "ValueError: not 6",
        }
        assert all(row.settings["x"] == 2 for row in found)
    assert sweeps.failures(dataset.sel(y=6))[0].settings == {"x": 2, "y": 6}
    assert sweeps.failures(dataset.sel(x=1)) == []


def test_numbers_beside_the_variables_are_results(tmp_path):
    import xarray as xr

    def point(x):
        return xr.Dataset(
            {"y": ("k", [x, 2])}, attrs={"best": x / 3, "note": "text", "y": 5, "x": x}
        )

    dataset = swept(point, tmp_path)
    np.testing.assert_array_equal(dataset.best, np.array([0, 1, 2]) / 3)
    assert set(dataset.data_vars) == {"y", "best", "status"}
    some = swept(point, tmp_path / "some", variables=["best"])
    assert set(some.data_vars) == {"best", "status"}


def test_a_label_that_is_a_dimension_elsewhere(tmp_path):
    import xarray as xr

    def point(x):
        if x == 1:
            return xr.Dataset({"v": 1.0}, coords={"q": 5})
        return xr.Dataset({"v": 1.0, "w": ("q", [1.0, 2.0])})

    dataset = swept(point, tmp_path)
    assert dataset.w.dims == ("x", "q")
    assert dataset.result_q.item() == 5


def test_attributes_are_those_that_points_have_alike(tmp_path):
    import xarray as xr

    def point(x):
        attrs = {"units": "m", "scale": x, "large": 2**64, "rounded": "to 3 digits"}
        return xr.DataArray(1.0 * x, name="q", attrs=attrs | {"one": np.float32(0.5)})

    for batch in (1, 3):
        dataset = swept(point, tmp_path / f"{batch}", batch=batch)
        assert dataset.q.attrs == {"units": "m", "rounded": "to 3 digits", "one": 0.5}

    def attributes(x):
        return xr.Dataset({"a": 1.0}, attrs={"n": np.int64(x), "b": np.bool_(x), "big": 2**70})

    counted = swept(attributes, tmp_path / "counted", grid={"x": [0, 1]}, variables=["n", "b"])
    assert counted.n.values.tolist() == [0, 1]
    assert counted.b.values.tolist() == [False, True]


def test_nothing_is_a_number_that_no_point_gave(tmp_path):
    unsigned = swept(values(2**64 - 1, ValueError(), 7), tmp_path / "unsigned")
    assert unsigned.value.values.tolist() == [2**64 - 1, 2**64 - 2, 7]
    dataset = swept(values(-(2**63), ValueError(), 7), tmp_path)
    assert dataset.value.attrs["nothing"] == str(2**63 - 1)


def test_points_may_change_the_directory_of_the_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    def moving(x):
        import os

        os.chdir(tmp_path / "elsewhere")
        return x

    al.sweep(moving, grid={"x": [1, 2]}, out="here", workers=0, batch=1)
    assert (tmp_path / "here" / "sweep.nc").exists()
    assert len(list((tmp_path / "here" / "batches").iterdir())) == 2


def test_a_function_that_cannot_be_sent_may_run_here():
    import threading

    lock = threading.Lock()

    def locked(x):
        with lock:
            return x

    assert al.sweep(locked, grid={"x": [1, 2]}, workers=0).value.values.tolist() == [1, 2]
    with pytest.raises(al.InvalidArgument, match="sent to another process"):
        al.sweep(locked, grid={"x": [1, 2]}, workers=0, timeout=60)


@pytest.mark.parametrize("batching", ["vmap", "arrays"])
def test_types_within_a_call_do_not_depend_on_the_batch(batching):
    def kind(a, n):
        return {"real": (a == a) & (a.dtype.kind == "f"), "same": n}

    grid = {"a": [1, 2, 2.5], "n": [4, BIG]}
    dataset = al.sweep(kind, grid=grid, batching=batching, batch=2, workers=0)
    assert dataset.real.all()
    assert dataset.same.isel(a=0).values.tolist() == [4, BIG]


def test_calls_for_many_points_reach_into_settings():
    def of(model, key):
        import jax

        return model["scale"] * model["sizes"][1] + 0 * jax.random.normal(key)

    settings = {"model": {"sizes": [1.0, 2.0]}}
    grid = {"model.scale": [1.0, 3.0], "model.sizes.1": [5.0, 7.0]}
    for batching in ("each", "vmap"):
        dataset = al.sweep(of, settings=settings, grid=grid, batching=batching, workers=0)
        np.testing.assert_array_equal(dataset.value, [[5.0, 7.0], [15.0, 21.0]])
        assert dataset.value.dims == ("scale", "model_sizes_1")


def test_a_call_in_which_nothing_is_a_number():
    def length(name):
        return len(name) * 1.0

    dataset = al.sweep(length, grid={"name": ["a", "bcd"]}, batching="vmap", workers=0)
    assert dataset.value.values.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 2.5], [1.0, 2.5]),
        ([True, 1, 2], ["true", "1", "2"]),
        ([0.5, BIG], ["0.5", str(BIG)]),
        ([None, "a"], ["null", '"a"']),
        ([[1, 2], [3]], ["[1, 2]", "[3]"]),
        ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    ],
)
def test_labels_tell_all_values_apart(given, expected, tmp_path):
    dataset = al.sweep(lambda x: 1.0, grid={"x": given}, out=tmp_path, workers=0)
    assert dataset.x.values.tolist() == expected
    assert records.load(tmp_path / "sweep.nc").x.values.tolist() == expected


def test_a_point_that_reads_the_terminal_fails(tmp_path):
    def asks(x):
        return float(input("x? "))

    dataset = swept(asks, tmp_path, timeout=60)
    assert dataset.status.values.tolist() == [1, 1, 1]
    assert "EOFError" in sweeps.failures(dataset)[0].error


def test_a_point_that_interrupts_itself_fails_alone(tmp_path):
    def kills(x):
        if x == 1:
            signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt
        return x

    dataset = swept(kills, tmp_path, timeout=60)
    assert dataset.status.values.tolist() == [0, 1, 0]


def test_foreign_files_among_the_batches_are_left_alone(tmp_path):
    dataset = swept(values(1, 2, 3), tmp_path, batch=1)
    batches = tmp_path / "batches"
    first = (batches / "0000000.npz").read_bytes()
    (batches / "0000099.npz").write_bytes(first)
    (batches / "notes.npz").write_bytes(b"mine")
    # a batch of another size is no batch of this sweep: it is computed again
    two = tmp_path / "two"
    al.sweep(values(1, 2, 3), grid={"x": [0, 1, 2]}, batch=2, out=two, workers=0)
    (batches / "0000001.npz").write_bytes((two / "batches" / "0000000.npz").read_bytes())
    assert sweeps.status(tmp_path).batches == 3
    again = swept(values(1, 2, 3), tmp_path, batch=1)
    assert again.drop_attrs().identical(dataset.drop_attrs())
    assert (batches / "0000099.npz").exists()


@pytest.mark.parametrize("text", [b'{"format": 1}', b"[]", b"{", b"\xff\xfe", b"", None])
def test_a_manifest_that_is_none(text, tmp_path):
    swept(values(1, 2, 3), tmp_path)
    if text is None:
        there = (tmp_path / "manifest.json").read_text()
        text = there.replace('"points": 3', '"points": 0').encode()
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(al.InvalidArgument, match="manifest"):
        sweeps.status(tmp_path)
    with pytest.raises(al.InvalidArgument, match="manifest"):
        swept(values(1, 2, 3), tmp_path)
    assert swept(values(1, 2, 3), tmp_path, fresh=True).value.values.tolist() == [1, 2, 3]
    assert json.loads((tmp_path / "manifest.json").read_text())["points"] == 3
