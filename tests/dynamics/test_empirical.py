"""Training on fixed prompts against NumPy and finite differences, and against the population."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

import attnlab as al
from attnlab.dynamics.empirical import empirical_gradient_descent

TASK = al.SingleLocation(6, 3, noise_std=0.1)
STUDENT = al.PointwiseAttention("erf", 0.7)
START = al.Overlaps.on_sphere(jax.random.key(5), 6, runs=2)
KEY = jax.random.key(9)


def prompts(run, n):
    data_key, _ = jax.random.split(jax.random.fold_in(KEY, run))
    X, y, _ = TASK.sample(data_key, n)
    return np.asarray(X, float), np.asarray(y, float)


def training_risk(X, y, k, v):
    return np.mean((np.sum(erf(0.7 * X @ k) * (X @ v), -1) - y) ** 2)


def test_one_step_is_the_numerical_gradient_of_the_training_risk():
    n, size, h = 20, 0.05, 1e-5
    out = empirical_gradient_descent(
        TASK, STUDENT, START, n_prompts=n, step_size=size, steps=1, key=KEY, dtype=jnp.float64
    )
    k, v = START.to_vectors(6)
    for run in range(2):
        X, y = prompts(run, n)
        np.testing.assert_allclose(
            out.training_risk[run, 0], training_risk(X, y, k[run], v[run]), rtol=1e-6
        )
        moved = []
        for which in (0, 1):
            here = [k[run], v[run]]
            gradient = np.zeros(6)
            for i, axis in enumerate(np.eye(6)):
                ends = []
                for sign in (1, -1):
                    there = list(here)
                    there[which] = here[which] + sign * h * axis
                    ends.append(training_risk(X, y, *there))
                gradient[i] = (ends[0] - ends[1]) / (2 * h)
            tangent = gradient - gradient @ here[which] * here[which]
            step = here[which] - size * tangent
            moved.append(step / np.linalg.norm(step))
        new_k, new_v = moved
        for name, value in (
            ("kappa", new_k[0]), ("nu", new_v[1]), ("theta", new_v[0]), ("eta", new_k[1]),
            ("rho", new_k @ new_v), ("training_risk", training_risk(X, y, new_k, new_v)),
        ):  # fmt: skip
            np.testing.assert_allclose(out[name][run, 1], value, atol=2e-6, err_msg=name)


def test_recorded_risk_is_the_population_risk_of_the_saved_state():
    out = empirical_gradient_descent(
        TASK, STUDENT, START, n_prompts=8, step_size=0.1, steps=6, save_every=2, key=KEY,
        scale_schedule=lambda step: 0.7 / (1 + 0.1 * step),
    )  # fmt: skip
    np.testing.assert_allclose(out.scale[0], 0.7 / (1 + 0.1 * out.step.values))
    risk = al.population_risk(TASK, STUDENT)
    state = al.Overlaps(*(out[n].values for n in ("kappa", "nu", "theta", "eta", "rho")))
    np.testing.assert_allclose(out.risk, risk(state, out.scale.values), rtol=1e-12)


def test_many_prompts_train_like_the_population_and_few_overfit():
    how = {"step_size": 0.05, "steps": 60, "save_every": 60}
    population = al.dynamics.projected_gradient_descent(
        al.population_risk(TASK, STUDENT), START, **how
    )
    gaps = []
    for n in (100, 10_000):
        out = empirical_gradient_descent(TASK, STUDENT, START, n_prompts=n, key=KEY, **how)
        gaps.append(float(abs(out.kappa - population.kappa).max()))
    assert gaps[1] < 0.03
    assert gaps[1] < gaps[0] / 3  # the gap falls as 1/sqrt(n)
    small = empirical_gradient_descent(
        TASK, STUDENT, START, n_prompts=4, key=KEY, step_size=0.1, steps=800, save_every=800
    )
    assert (small.training_risk[:, -1] < 0.3 * small.risk[:, -1]).all()


def test_a_full_batch_is_the_whole_descent_and_a_pass_uses_every_prompt():
    how = {"n_prompts": 12, "step_size": 0.05, "key": KEY}
    whole = empirical_gradient_descent(TASK, STUDENT, START, steps=3, **how)
    batch = empirical_gradient_descent(TASK, STUDENT, START, steps=3, batch_size=12, **how)
    np.testing.assert_allclose(whole.kappa, batch.kappa, atol=1e-6)
    # with small steps, one pass in batches of 4 moves like one step on the sum of the batches
    tiny = {**how, "step_size": 1e-3}
    passed = empirical_gradient_descent(
        TASK, STUDENT, START, steps=3, batch_size=4, dtype=jnp.float64, **tiny
    )
    tiny["step_size"] = 3e-3
    step = empirical_gradient_descent(TASK, STUDENT, START, steps=1, dtype=jnp.float64, **tiny)
    change = step.eta[:, -1] - step.eta[:, 0]
    assert abs(change).min() > 1e-4
    np.testing.assert_allclose(passed.eta[:, -1] - passed.eta[:, 0], change, rtol=0.03)


def test_shared_prompts_are_those_of_the_first_run():
    same = al.Overlaps.unstack(np.repeat(START.stack()[:1], 2, axis=0))
    how = {"n_prompts": 5, "step_size": 0.1, "steps": 4, "key": KEY}
    shared = empirical_gradient_descent(TASK, STUDENT, same, shared_prompts=True, **how)
    own = empirical_gradient_descent(TASK, STUDENT, same, **how)
    np.testing.assert_allclose(shared.kappa[0], shared.kappa[1], atol=1e-6)
    np.testing.assert_allclose(shared.kappa[0], own.kappa[0], atol=1e-6)
    assert abs(own.kappa[0, -1] - own.kappa[1, -1]) > 1e-4


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_prompts": 0}, "n_prompts"),
        ({"batch_size": 9}, "batch_size"),
        ({"shared_prompts": 1}, "shared_prompts"),
        ({"n_prompts": 10**8}, "n_prompts = 100000000 .*2 GiB"),
    ],
)
def test_bad_settings_are_named(change, name):
    how = {"n_prompts": 8, "step_size": 0.1, "steps": 1, "key": KEY, **change}
    with pytest.raises(al.InvalidArgument, match=name):
        empirical_gradient_descent(TASK, STUDENT, START, **how)
