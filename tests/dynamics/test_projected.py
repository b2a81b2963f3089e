import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.dynamics import loop as loop_module
from attnlab.dynamics.dataset import overlaps_of
from attnlab.errors import InvalidArgument

NAMES = ("kappa", "nu", "theta", "eta", "rho")


@pytest.fixture(scope="module")
def risk():
    return al.population_risk(al.SingleLocation(30, 6), al.PointwiseAttention("erf", 0.4))


def schedule(step):
    return 0.8 / (1 + 1e-2 * step)


def by_vectors(risk, overlaps, step_size, steps, scale_schedule=None):
    """The same descent, written out in `R^6` with the risk's numbers and nothing else."""
    k, v = (np.array(part) for part in overlaps.to_vectors(6))
    k_star, v_star = np.eye(6)[0], np.eye(6)[1]
    with jax.enable_x64(True):

        def value(k, v, scale):
            pairs = ((k, k_star), (v, v_star), (v, k_star), (k, v_star), (k, v))
            return risk.value_of(jnp.stack([a @ b for a, b in pairs]), scale)

        slopes = jax.jit(jax.vmap(jax.grad(value, argnums=(0, 1)), in_axes=(0, 0, None)))
        for step in range(steps):
            scale = risk.scale if scale_schedule is None else scale_schedule(step)
            moved = []
            for x, g in zip((k, v), slopes(k, v, float(scale)), strict=True):
                x = x - step_size * (g - np.sum(g * x, -1, keepdims=True) * x)
                moved.append(x / np.linalg.norm(x, axis=-1, keepdims=True))
            k, v = (np.asarray(part) for part in moved)
    return al.Overlaps.from_vectors(k, v, k_star, v_star).stack()


@pytest.mark.parametrize("rule", [None, schedule])
@pytest.mark.parametrize("start", ["on_sphere", "on_manifold"])
def test_the_recursion_is_the_descent_in_vectors(risk, rule, start):
    overlaps = getattr(al.Overlaps, start)(jax.random.key(3), 6, runs=8)
    run = al.dynamics.projected_gradient_descent(
        risk, overlaps, step_size=0.02, steps=300, save_every=300, scale_schedule=rule
    )
    expected = by_vectors(risk, overlaps, 0.02, 300, rule)
    assert np.abs(overlaps_of(run, step=-1).stack() - expected).max() < 1e-12


def test_recursion_with_another_risk_and_large_steps():
    risk = al.population_risk(
        al.SingleLocation(12, 4, link="tanh"), al.PointwiseAttention("hard-tanh", 0.5)
    )
    overlaps = al.Overlaps.on_sphere(jax.random.key(1), 6, runs=3)
    run = al.dynamics.projected_gradient_descent(risk, overlaps, step_size=0.3, steps=20)
    expected = by_vectors(risk, overlaps, 0.3, 20)
    assert np.abs(overlaps_of(run, step=-1).stack() - expected).max() < 1e-12


@pytest.mark.parametrize("rule", [None, schedule])
def test_saved_risk_is_that_of_the_saved_state_and_scale(risk, rule):
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 30, runs=4)
    run = al.dynamics.projected_gradient_descent(
        risk, overlaps, step_size=0.01, steps=50, save_every=10, scale_schedule=rule
    )
    again = risk(overlaps_of(run), scale=run.scale.values)
    np.testing.assert_allclose(run.risk, again, rtol=1e-13)
    expected = [risk.scale if rule is None else rule(step) for step in run.step.values]
    np.testing.assert_allclose(run.scale[0], expected, rtol=1e-14)
    assert run.risk.dims == ("run", "step")


def test_layout(risk):
    grid = al.Overlaps(np.zeros((2, 3)), 0.1)
    run = al.dynamics.projected_gradient_descent(
        risk, grid, step_size=0.01, steps=25, save_every=10
    )
    assert dict(run.sizes) == {"run": 6, "step": 4}
    np.testing.assert_array_equal(run.step, [0, 10, 20, 25])
    assert set(run.data_vars) == {*NAMES, "risk", "scale", "status"}
    assert (run.status == "ok").all()
    none = al.dynamics.projected_gradient_descent(risk, al.Overlaps(0, 0), step_size=0.1, steps=0)
    assert dict(none.sizes) == {"run": 1, "step": 1}


def test_saving_more_often_changes_nothing(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 30, runs=3)
    runs = [
        al.dynamics.projected_gradient_descent(
            risk, overlaps, step_size=0.01, steps=60, save_every=every
        )
        for every in (1, 7, 60)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.isel(step=-1).kappa, runs[0].isel(step=-1).kappa)


def test_batch_and_single_run_agree_and_step_sizes_are_per_run(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(0), 30, runs=3)
    sizes = np.array([0.01, 0.02, 0.03])
    batch = al.dynamics.projected_gradient_descent(risk, overlaps, step_size=sizes, steps=40)
    for i in range(3):
        one = al.Overlaps(*(getattr(overlaps, name)[i] for name in NAMES))
        run = al.dynamics.projected_gradient_descent(risk, one, step_size=sizes[i], steps=40)
        np.testing.assert_allclose(run.risk[0], batch.risk[i], rtol=1e-12)


def test_a_failed_run_does_not_sink_the_batch(risk):
    overlaps = al.Overlaps.unstack(np.array([[0.1, 0.2, 0, 0, 0], [0.1, 0.2, 0, 0, 0]]))
    run = al.dynamics.projected_gradient_descent(
        risk, overlaps, step_size=np.array([0.01, 1e300]), steps=5
    )
    assert list(run.status.values) == ["ok", "diverged"]
    assert np.isfinite(run.risk[0]).all()


def test_risk_decreases_along_small_steps(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(7), 30, runs=50)
    run = al.dynamics.projected_gradient_descent(risk, overlaps, step_size=2e-3, steps=400)
    assert (np.diff(run.risk.values, axis=1) <= 1e-12).all()


def test_the_manifold_is_invariant_and_left_only_by_perturbations(risk):
    overlaps = al.Overlaps.on_manifold(jax.random.key(7), 30, runs=20)
    run = al.dynamics.projected_gradient_descent(
        risk, overlaps, step_size=0.01, steps=500, save_every=100
    )
    assert np.abs(run[["theta", "eta", "rho"]].to_array()).max() == 0


def test_a_thousand_runs_compile_once(risk):
    overlaps = al.Overlaps.on_sphere(jax.random.key(7), 30, runs=1000)
    traces = []

    def counted(step):
        traces.append(step)
        return 0.5 + 0.0 * step

    al.dynamics.projected_gradient_descent(
        risk, overlaps, step_size=0.01, steps=3000, save_every=100, scale_schedule=counted
    )
    # checked once by hand, then traced: the step, the snapshot, and shapes; never once a step
    assert len(traces) < 12
    assert loop_module._CAPACITY < 3000


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": np.ones(7)}, "step_size"),
        ({"step_size": float("nan")}, "step_size"),
        ({"steps": -1}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"save_every": 0}, "save_every"),
        ({"scale_schedule": 3}, "scale_schedule"),
        ({"scale_schedule": lambda step: -1.0}, "scale_schedule"),
        ({"overlaps": None}, "overlaps"),
        ({"risk": 1.0}, "risk"),
    ],
)
def test_bad_arguments(risk, change, named):
    arguments = {
        "risk": risk,
        "overlaps": al.Overlaps(np.zeros(3), 0.1),
        "step_size": 0.1,
        "steps": 2,
    } | change
    with pytest.raises(InvalidArgument, match=named):
        al.dynamics.projected_gradient_descent(**arguments)
