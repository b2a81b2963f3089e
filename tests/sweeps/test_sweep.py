"""What a sweep computes, its labels, and what it refuses."""

import itertools
import json

import numpy as np
import pytest

import attnlab as al
from attnlab import records, sweeps
from attnlab.sweeps.targets import point_key

TASK = {"kind": "SingleLocation", "dim": 100, "length": 10}
POINTWISE = {"kind": "PointwiseAttention", "activation": "erf"}


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def pointy(functions, name, **options):
    return al.sweep(f"pointy:{name}", paths=[str(functions)], workers=0, **options)


def test_a_grid_a_zip_and_seeds_become_labelled_dimensions(functions):
    dataset = pointy(
        functions,
        "plain",
        grid={"i": [3, 1]},
        zip={"dim": "pair", "wait": [0.0, 0.001]},
        batch=3,
    )
    assert dataset.x.dims == ("i", "pair")
    assert dataset.v.dims == ("i", "pair", "k")
    assert dataset.i.values.tolist() == [3, 1]
    assert dataset.wait.dims == ("pair",)
    np.testing.assert_array_equal(dataset.x.sel(i=1), [1 / 7, 1 / 7])
    np.testing.assert_array_equal(dataset.v.sel(i=3).isel(pair=0), [1.0, 3 / 11])
    listed = pointy(functions, "plain", points=[{"i": 4, "wait": 0.0}, {"i": 2, "wait": 0.0}])
    assert listed.x.dims == ("point",)
    np.testing.assert_array_equal(listed.x, [4 / 7, 2 / 7])
    provenance = records.provenance_of(dataset)
    assert provenance["config"]["target"] == "pointy:plain"
    assert provenance["config"]["swept"][0] == {"dim": "i", "settings": {"i": [3, 1]}}


def test_compiled_calls_agree_with_single_ones(functions):
    grid = {"a": {"linspace": [0, 1, 5]}, "b": [1.0, 2.0]}
    each = pointy(functions, "curve", grid=grid, settings={"n": 3})
    options = {"static": ["n"], "batching": "vmap"}
    together = pointy(functions, "curve", grid=grid, settings={"n": 3}, **options)
    np.testing.assert_allclose(together.z, each.z, rtol=2e-7)
    np.testing.assert_allclose(together.z, np.exp(-each.a) * each.b, rtol=1e-15)
    # own dimensions of different lengths: the longest counts
    ragged = pointy(functions, "curve", grid=grid | {"n": [2, 3]}, **options)
    np.testing.assert_array_equal(ragged.v.sel(n=3), together.v)
    assert np.isnan(ragged.v.sel(n=2).values[..., 2]).all()
    assert (ragged.status == 0).all()


def test_a_points_key_depends_on_its_own_settings_and_the_seed_alone(functions):
    few = pointy(functions, "draw", grid={"a": [0.0, 1.0]})
    many = pointy(functions, "draw", grid={"a": [5.0, 1.0, 0.0]})
    np.testing.assert_array_equal(many.value.sel(a=few.a), few.value)
    assert np.ptp((many.value - many.a).values) > 0.1
    other = pointy(functions, "draw", grid={"a": [0.0, 1.0]}, seed=1)
    assert (other.value != few.value).all()
    import jax

    expected = jax.random.normal(point_key(0, {"a": 1.0}))
    assert float(few.value.sel(a=1.0)) == float(1.0 + expected)


def test_risks_are_those_of_population_risk():
    dataset = al.sweep(
        "risk",
        task=TASK,
        student=POINTWISE,
        overlaps={"nu": 0.9, "eta": 0.1},
        quantities=["risk", "error", "components", "gradient"],
        grid={
            "student.scale": {"geomspace": [0.05, 2, 4]},
            "overlaps.kappa": [0.2, 0.5],
            "task.noise_std": [0.0, 0.3],
        },
        workers=0,
    )
    assert dataset.risk.dims == ("scale", "kappa", "noise_std")
    for at in ({"scale": 0, "kappa": 1, "noise_std": 1}, {"scale": 3, "kappa": 0, "noise_std": 0}):
        point = dataset.isel(at)
        task = al.SingleLocation(100, 10, noise_std=float(point.noise_std))
        risk = al.population_risk(task, al.PointwiseAttention("erf", float(point.scale)))
        overlaps = al.Overlaps(float(point.kappa), 0.9, eta=0.1)
        np.testing.assert_allclose(point.risk, risk(overlaps), rtol=1e-14)
        np.testing.assert_allclose(point.d_theta, risk.gradient(overlaps).theta, rtol=1e-12)
        np.testing.assert_allclose(point.bulk_variance, risk.components(overlaps).bulk_variance)
        assert float(point.error) > 0


def test_risks_of_heads_and_other_theories():
    heads = al.sweep(
        "risk",
        task={"kind": "InContextRegression", "length": 40, "dim": 5},
        student={"kind": "KernelHeads", "omega": [0.13, -0.13], "mu": [3.45, -3.45]},
        theory="approximate",
        quantities=["risk"],
        grid={"student.mu.0": [3.0, 3.45]},
        workers=0,
    )
    from attnlab.theory import approximate_risk

    task = al.InContextRegression(5, 40)
    expected = approximate_risk(task, al.KernelHeads([0.13, -0.13], [3.0, -3.45])).value
    np.testing.assert_allclose(heads.risk.isel({"student_mu_0": 0}), expected, rtol=1e-13)


def test_settings_without_a_risk_fail_alone():
    dataset = al.sweep(
        "risk", task=TASK, student=POINTWISE, grid={"overlaps.eta": [0.0, 0.5]}, workers=0
    )
    assert dataset.status.values.tolist() == [0, 1]
    (failure,) = sweeps.failures(dataset)
    assert "Gram matrix" in failure.error


@pytest.mark.parametrize("quantities", ["error", ["risk", "components"], ["gradient"]])
def test_quantities_that_a_risk_does_not_have_are_failures(quantities):
    options = {
        "task": {"kind": "InContextRegression", "length": 40, "dim": 5},
        "student": {"kind": "KernelHeads", "omega": [0.1, -0.1], "mu": [3.0, -3.0]},
        "theory": "approximate",
        "grid": {"student.mu.0": [3.0, 3.1]},
        "workers": 0,
    }
    dataset = al.sweep("risk", quantities=quantities, **options)
    if quantities == ["gradient"]:
        assert (dataset.status == 0).all()
        return
    assert (dataset.status == 1).all()
    assert "some of gradient, risk" in sweeps.failures(dataset)[0].error
    assert np.isfinite(al.sweep("risk", **options).risk).all()  # the error only where there is one


def test_a_dotted_setting_is_a_path_wherever_it_stands(functions):
    def of(model):
        return model["a"] * 10 + model["b"]

    fixed = al.sweep(of, settings={"model.a": 1}, grid={"model.b": [2, 3]}, workers=0)
    assert fixed.value.values.tolist() == [12, 13]
    named = al.sweep(of, settings={"model": {"a": 1}}, points=[{np.str_("model.b"): 2}], workers=0)
    assert named.value.values.tolist() == [12]


def test_an_experiment_is_swept_over_its_settings():
    from attnlab.papers import find_experiment

    settings = {"lengths": [2, 10], "points": 3}
    dataset = al.sweep(
        "marion2025/oracle-risk",
        settings=settings,
        grid={"token_std": [0.5, 0.7]},
        variables=["excess_risk"],
        workers=0,
    )
    assert dataset.excess_risk.dims == ("token_std", "length", "dim")
    assert set(dataset.data_vars) == {"excess_risk", "status"}
    assert dataset.length.values.tolist() == [2, 10]
    every = al.sweep(
        "marion2025/oracle-risk", settings=settings, grid={"token_std": [0.5]}, workers=0
    )
    assert "result_token_std" not in every  # its datasets repeat the setting
    experiment = find_experiment("marion2025/oracle-risk")
    alone = experiment.compute(experiment.configure("quick", settings | {"token_std": 0.7}))
    np.testing.assert_array_equal(dataset.excess_risk.sel(token_std=0.7), alone.excess_risk)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "marion2025/no-such"}, "a TOML file or one of"),
        ({"target": "marion2025/no-such", "grid": {"i": [1]}}, "experiment id"),
        ({"target": "he2025/true-minimiser", "grid": {"no_such": [1]}}, "one of these"),
        ({"target": "he2025/true-minimiser", "grid": {"noise_var": [0.1, -1]}}, "noise_var"),
        ({"target": "pointy:no_such", "grid": {"i": [1]}}, "a name that pointy defines"),
        ({"target": "no_such_module:f", "grid": {"i": [1]}}, "importable"),
        ({"target": "pointy:plain", "grid": {"j": [1]}}, "one of i, wait"),
        ({"target": "pointy:plain", "grid": {"wait": [1]}}, "i is missing"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "timeout": 0}, "timeout"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "batch": 0}, "batch"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "batching": "all"}, "batching"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "nonsense": 1}, "argument"),
        ({"target": "pointy:plain"}, "something to vary"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "zip": {"i": [1]}}, "in one place"),
        ({"target": "risk", "grid": {"task.dim": [1]}}, "task.kind"),
        ({"target": "risk", "task": TASK, "student": POINTWISE, "grid": {"task.di": [3]}}, "dim"),
        ({"target": "risk", "task": TASK, "student": POINTWISE, "grid": {"kappa": [3]}}, "swept"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "scheduler": "tcp://127.0.0.1:9"}, "Dask"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "scheduler": "nonsense"}, "Dask .*port"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "scheduler": 5}, "Dask"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "scheduler": "no.json"}, "Dask .*No such"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "timeout": 1e12}, "timeout"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "static": 5}, "static"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "static": ["w"]}, "one of i"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "variables": 5}, "variables"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "variables": []}, "variables"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "select": 5}, "select"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "select": {"k": 0.5}}, "select.k"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "theory": "exact"}, "knows no such"),
        ({"target": "pointy:plain", "grid": {"i": [1]}, "task": TASK}, "knows no such"),
        ({"target": "pointy:plain", "grid": {"i": [1], "i.j": [1]}}, "no part of i"),
        ({"target": "pointy:plain", "zip": 5}, "zip"),
        ({"target": "pointy:plain", "zip": {"dim": "a/b", "i": [1]}}, "a name as in Python"),
        ({"target": "pointy:plain", "zip": {"dim": "w", "i": [1]}, "grid": {"w": [1]}}, "one dim"),
        ({"target": "pointy:anything", "grid": {"": [1]}}, "a name as in Python"),
        ({"target": "pointy:anything", "grid": {"a/b": [1]}}, "a name as in Python"),
        ({"target": "pointy:anything", "settings": {"a b": 1}, "grid": {"i": [1]}}, "a name as in"),
        ({"target": "pointy:anything", "grid": {"status": [1]}}, "does not use itself"),
        ({"target": "pointy:anything", "grid": {"a.failure_error": [1]}}, "does not use itself"),
        ({"target": "pointy:anything", "grid": {"point": [1]}, "points": [{"a": 1}]}, "one dim"),
        (
            {"target": "pointy:anything", "zip": {"dim": "p", "a": [1]}, "points": [{"p": 1}]},
            "p, p",
        ),
        ({"target": "pointy:anything", "grid": {"a": ["b\0"]}}, "without NUL"),
        ({"target": "pointy:anything", "settings": {"a": ["\udc80"]}, "seeds": 1}, "without NUL"),
        ({"target": "pointy:anything", "grid": {"a": [2**63]}}, "64 bits"),
        ({"target": "pointy:anything", "grid": {"a": [1, 1.0]}}, "different values"),
        ({"target": "pointy:draw", "grid": {"a": [1]}, "batching": "arrays"}, "key is missing"),
        ({"target": "risk", "settings": {"task": 5}, "grid": {"task.dim": [1]}}, "task = 5"),
        ({"target": "risk", "task": TASK, "student": POINTWISE, "quantities": []}, "vary"),
        ({"target": "risk", "task": TASK, "student": POINTWISE, "preset": "quick"}, "no such"),
        ({"target": 5, "grid": {"a": [1]}}, "a function"),
        ({"target": "pointy:anything", "grid": {"a.b": [1], "a": [{"b": 0}]}}, "no part of a"),
        ({"target": "pointy:anything", "grid": {f"a{k}": [1] for k in range(25)}}, "24 dimensions"),
        ({"target": "pointy:anything", "grid": {k: range(10**3) for k in "abc"}}, "points in all"),
        ({"target": "pointy:anything", "grid": {"a": range(10**6 + 1)}, "batch": 1}, "batch = 1"),
        ({"target": "pointy:anything", "grid": {"a": itertools.count()}}, "at most 10000000"),
        ({"target": "pointy:anything", "grid": {"a": {1, 2}}}, "a list of values"),
        ({"target": "pointy:anything", "grid": {"a": b"ab"}}, "a list of values"),
        ({"target": "pointy:anything", "grid": {"a": np.array(3)}}, "a list of values"),
        ({"target": "pointy:anything", "grid": {"a": np.ma.masked_equal([1, 2], 2)}}, "masked"),
        ({"target": "pointy:anything", "grid": {"a": [_nested(3000)]}}, "nested"),
        ({"target": "pointy:anything", "points": np.array(3)}, "points"),
        ({"target": "pointy:anything", "points": [{1: 1}]}, "texts"),
        ({"target": "pointy:anything", "seeds": np.array(-3)}, "seeds"),
        ({"target": "pointy:anything", "seeds": b"x"}, "seeds"),
        ({"target": "pointy:anything", "zip": np.array(3)}, "zip"),
        ({"target": "pointy:anything", "seeds": 1, "variables": np.array(3)}, "variables"),
        ({"target": "pointy:anything", "seeds": 1, "about": 5}, "about"),
        ({"target": "pointy:anything", "seeds": 1, "about": {"x": "y"}}, "one of expected"),
        ({"target": "pointy:anything", "seeds": 1, "about": {"title": "a\0b"}}, "without NUL"),
        ({"target": "pointy:anything", "seeds": 1, "out": 5}, "out"),
        ({"target": "pointy:anything", "seeds": 1, "out": ""}, "out"),
        ({"target": "pointy:anything", "seeds": 1, "out": "a\0b"}, "out"),
        ({"target": "pointy:anything", "seeds": 1, "out": "\ud800"}, "out"),
        ({"target": "pointy:anything", "seeds": 1, "out": b"x"}, "out"),
        (
            {
                "target": "pointy:anything",
                "seeds": 1,
                "batching": "arrays",
                "select": {"k": 0},
            },
            "selects itself",
        ),
        (
            {
                "target": "risk",
                "settings": {"task": TASK},
                "task": TASK,
                "student": POINTWISE,
                "grid": {"overlaps.nu": [1]},
            },
            "given once",
        ),
        ({"target": "a\0.toml"}, "a TOML file"),
        ({"target": "x" * 5000}, "a TOML file"),
        ({"target": "nothing-of-this-name"}, "a TOML file or one of"),
        ({"target": ""}, "a TOML file or one of"),
    ],
)
def test_what_is_refused_before_anything_is_computed(functions, arguments, message, monkeypatch):
    from attnlab.sweeps import cluster

    monkeypatch.setattr(cluster, "_CONNECT", "0.2s")
    with pytest.raises(al.InvalidArgument, match=message):
        al.sweep(workers=0, paths=[str(functions)], **arguments)


def test_a_change_of_settings_is_noticed_and_can_be_discarded(functions, tmp_path):
    options = {"out": tmp_path / "out"}
    pointy(functions, "plain", grid={"i": [0, 1]}, **options)
    with pytest.raises(al.InvalidArgument, match=r"swept i: settings.i was \[0, 1\], is \[0, 2\]"):
        pointy(functions, "plain", grid={"i": [0, 2]}, **options)
    with pytest.raises(al.InvalidArgument, match="settings.wait was null, is 0.0"):
        pointy(functions, "plain", grid={"i": [0, 1]}, settings={"wait": 0.0}, **options)
    dataset = pointy(functions, "plain", grid={"i": [0, 2]}, fresh=True, **options)
    np.testing.assert_array_equal(dataset.x, [0, 2 / 7])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["points"] == 2
    # a damaged batch is computed again
    (batch,) = (p for p in (tmp_path / "out" / "batches").iterdir() if p.name == "0000001.npz")
    batch.write_bytes(batch.read_bytes()[:-30])
    assert sweeps.status(tmp_path / "out").done == 1
    same = pointy(functions, "plain", grid={"i": [0, 2]}, **options)
    assert same.identical(dataset.assign_attrs(same.attrs))
    assert sweeps.status(tmp_path / "out").done == 2


def test_a_function_of_this_process(tmp_path):
    def power(x, n):
        return x**n

    dataset = al.sweep(power, grid={"x": [2.0, 3.0], "n": [1, 2]}, workers=0)
    np.testing.assert_array_equal(dataset.value, [[2, 4], [3, 9]])


def test_files_that_are_no_sweeps(toml, tmp_path):
    for text, message in (
        ("target = ", "TOML"),
        ("targt = 'x'", "did you mean 'target'"),
        ("title = 'x'", "target"),
    ):
        with pytest.raises(al.InvalidArgument, match=message):
            al.sweep(toml("wrong", text))
    with pytest.raises(al.InvalidArgument, match="a TOML file"):
        al.sweep(tmp_path / "missing.toml")
    with pytest.raises(al.InvalidArgument, match="nearest: dohmatob2025/phase-diagram"):
        al.sweep("dohmatob2025/phase-diagrams")


def test_without_dask_the_extra_is_named(functions, monkeypatch):
    from attnlab.sweeps import cluster

    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(al.InvalidArgument, match=r'pip install "attnlab\[sweep\]"'):
        al.sweep("pointy:plain", grid={"i": [1]}, paths=[str(functions)])


def test_a_lock_of_another_machine_is_respected(functions, tmp_path):
    place = tmp_path / "out"
    pointy(functions, "plain", grid={"i": [1]}, out=place)
    assert sweeps.status(place).owner is None
    owner = {"pid": 7, "host": "node17", "since": "2026-01-01T00:00:00+00:00"}
    (place / "lock").write_text(json.dumps(owner))
    assert sweeps.status(place).owner == owner
    with pytest.raises(al.InvalidArgument, match="process 7 on node17 .* remove .*lock"):
        pointy(functions, "plain", grid={"i": [1]}, out=place)
    (place / "lock").unlink()
    pointy(functions, "plain", grid={"i": [1]}, out=place)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"task": TASK | {"dim": -3}}, "dim"),
        ({"task": {"kind": "SingleLocation", "length": 10}}, "settings"),
        ({"task": {"kind": "InContextRegression", "dim": 5, "length": 9}}, "student"),
        ({"student": POINTWISE | {"activation": "nope"}}, "activation"),
        ({"overlaps": {"kappa": 7.0}}, "kappa"),
        ({"overlaps": {"kappa": "text"}}, "kappa"),
        ({"theory": "approximate", "student": POINTWISE | {"activation": "relu"}}, "task"),
    ],
)
def test_wrong_fixed_settings_of_a_risk_are_refused_at_once(tmp_path, change, name):
    arguments = {"task": TASK, "student": POINTWISE, "grid": {"student.scale": [0.1, 0.2]}}
    with pytest.raises(al.InvalidArgument, match=f"^{name} = .*") as caught:
        al.sweep("risk", **(arguments | change), workers=0, out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_wrong_swept_settings_of_a_risk_are_failed_points():
    found = al.sweep("risk", task=TASK, student=POINTWISE, grid={"task.dim": [-1, 30]}, workers=0)
    assert found.status.values.tolist() == [1, 0]
    found = al.sweep("risk", task=TASK, student=POINTWISE, grid={"task.dim": [-1, -2]}, workers=0)
    assert found.status.values.tolist() == [1, 1]
