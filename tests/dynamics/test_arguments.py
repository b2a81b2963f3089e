"""What a caller may get wrong is told in one clear error, wherever it enters."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument

TASK, STUDENT = al.SingleLocation(20, 5), al.PointwiseAttention("erf", 0.3)
START, KEY = al.Overlaps(0.3, 0.4, 0.1, 0.2, 0.1), jax.random.key(0)


def raising(step):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "schedule",
    [
        lambda step: 1.0 - step,
        lambda step: 1j,
        lambda step: "a",
        lambda step: None,
        lambda step: math.exp(-step),
        lambda step: 1.0 if step < 1 else 0.5,
        lambda: 1.0,
        raising,
        lambda step: jnp.ones(2) + step,
    ],
)
def test_schedules_are_checked_over_the_whole_run(schedule):
    risk = al.population_risk(TASK, STUDENT)
    with pytest.raises(InvalidArgument, match="scale_schedule"):
        al.dynamics.projected_gradient_descent(
            risk, START, step_size=0.01, steps=3, scale_schedule=schedule
        )


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1, 0, "x", None, 1j, {}, True])
def test_scales(scale):
    risk = al.population_risk(TASK, STUDENT)
    with pytest.raises(InvalidArgument, match="scale"):
        risk.at_scale(scale)
    if scale is not None:
        with pytest.raises(InvalidArgument, match="scale"):
            risk(START, scale=scale)


def test_scales_may_be_lists_that_broadcast():
    risk = al.population_risk(TASK, STUDENT)
    many = al.Overlaps(np.zeros(2), 0.1)
    np.testing.assert_array_equal(risk(many, scale=[0.3, 0.3]), risk(many))
    with pytest.raises(InvalidArgument, match="broadcast"):
        risk(many, scale=[0.3, 0.3, 0.3])


@pytest.mark.parametrize("key", [0, None, np.ones(2), "key"])
def test_keys(key):
    calls = [
        lambda: TASK.sample(key, 2),
        lambda: al.Overlaps.on_sphere(key, 5),
        lambda: al.monte_carlo_risk(TASK, STUDENT, START, key=key, samples=4),
        lambda: al.dynamics.stationary_points(al.population_risk(TASK, STUDENT), 20, key=key),
        lambda: al.dynamics.stochastic_gradient_descent(
            TASK, STUDENT, START, step_size=0.1, steps=1, batch_size=1, key=key
        ),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="key"):
            call()


@pytest.mark.parametrize("task", [None, STUDENT, 3])
def test_tasks(task):
    for function in (
        al.estimators.best_linear_predictor,
        al.estimators.best_linear_predictor_risk,
        al.estimators.zero_predictor_risk,
    ):
        with pytest.raises(InvalidArgument, match="task"):
            function(task)
    with pytest.raises(InvalidArgument, match="task"):
        al.monte_carlo_risk(task, STUDENT, START, key=KEY, samples=4)
    with pytest.raises(InvalidArgument, match="student"):
        al.monte_carlo_risk(TASK, None, START, key=KEY, samples=4)


@pytest.mark.parametrize("k_star", [math.nan, 1.5, True, jnp.ones(20), jnp.ones(3), "x"])
def test_directions(k_star):
    with pytest.raises(InvalidArgument, match="k_star"):
        TASK.sample(KEY, 3, k_star=k_star)


def test_directions_must_be_orthogonal():
    axis = np.eye(20)[0]
    with pytest.raises(InvalidArgument, match="orthogonal"):
        TASK.sample(KEY, 3, k_star=axis, v_star=axis)
    for dtype in ("x", np.int32, np.complex64):
        with pytest.raises(InvalidArgument, match="dtype"):
            TASK.sample(KEY, 3, dtype=dtype)


def test_sizes_beyond_all_memory():
    huge = al.SingleLocation(20, 10**12)
    with pytest.raises(InvalidArgument, match="length"):
        al.monte_carlo_risk(huge, STUDENT, START, key=KEY, samples=10)
    assert np.isfinite(al.population_risk(huge, STUDENT)(START))
    with pytest.raises(InvalidArgument, match="dim"):
        al.SingleLocation(10**400, 5)


def test_vectors_must_be_unit_and_fit():
    unit = np.eye(4)
    with pytest.raises(InvalidArgument, match="k "):
        al.Overlaps.from_vectors(np.ones(4), unit[1], unit[0], unit[1])
    with pytest.raises(InvalidArgument, match="same for all"):
        al.Overlaps.from_vectors(np.eye(5)[0], unit[1], unit[0], unit[1])
    assert al.Overlaps.from_vectors([1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]).nu == 1
    with pytest.raises(InvalidArgument, match="k "):
        STUDENT(jnp.ones((2, 3, 4)), jnp.ones(3), jnp.ones(4))


@pytest.mark.parametrize("times", ["x", 1j, None])
def test_times(times):
    with pytest.raises(InvalidArgument, match="times"):
        al.dynamics.gradient_flow(al.population_risk(TASK, STUDENT), START, times=times)


def test_steps_must_be_numbers_and_an_empty_batch_is_a_batch():
    risk = al.population_risk(TASK, STUDENT)
    with pytest.raises(InvalidArgument, match="step_size"):
        al.dynamics.projected_gradient_descent(risk, START, step_size=True, steps=1)
    none = al.Overlaps(np.zeros(0), np.zeros(0))
    run = al.dynamics.projected_gradient_descent(risk, none, step_size=0.1, steps=2)
    assert dict(run.sizes) == {"run": 0, "step": 3}


def test_what_needs_numbers_says_so_under_jit():
    risk = al.population_risk(TASK, STUDENT)
    for function in (
        lambda o: risk.components(o),
        lambda o: o.to_vectors(4),
        lambda o: al.dynamics.projected_gradient_descent(risk, o, step_size=0.1, steps=1),
    ):
        with pytest.raises(InvalidArgument, match="overlaps"):
            jax.jit(function)(START)
