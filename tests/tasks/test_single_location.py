import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.tasks import get_link, link_names


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dim": 1, "length": 3}, "dim"),
        ({"dim": 2.5, "length": 3}, "dim"),
        ({"dim": True, "length": 3}, "dim"),
        ({"dim": 4, "length": 0}, "length"),
        ({"dim": 4}, "length"),
        ({"dim": 4, "length": 3, "log_length": 1.0}, "length"),
        ({"dim": 4, "log_length": -1.0}, "log_length"),
        ({"dim": 4, "log_length": math.nan}, "log_length"),
        ({"dim": 4, "length": 3, "token_std": -1.0}, "token_std"),
        ({"dim": 4, "length": 3, "token_std": 0.0}, "token_std"),
        ({"dim": 4, "length": 3, "token_std": 11.0, "signal": 1.0}, "token_std"),
        ({"dim": 4, "length": 3, "token_std": 1.5}, "token_std"),
        ({"dim": 4, "length": 3, "signal": -0.1}, "signal"),
        ({"dim": 4, "length": 3, "signal": "strong"}, "signal"),
        ({"dim": 4, "length": 3, "noise_std": -0.1}, "noise_std"),
        ({"dim": 4, "length": 3, "link": "cubic"}, "link"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(InvalidArgument, match=named) as caught:
        al.SingleLocation(**arguments)
    assert "must be" in str(caught.value)


def test_defaults_keep_the_norm_of_tokens():
    task = al.SingleLocation(7, 5)
    assert task.token_std == pytest.approx(math.sqrt(0.5))
    assert task.signal**2 + task.token_std**2 == pytest.approx(1.0)
    assert task.log_length == pytest.approx(math.log(5))


def test_a_log_length_that_is_an_integer_can_be_sampled():
    assert al.SingleLocation(4, log_length=math.log(64)).length == 64
    assert al.SingleLocation(4, log_length=0.0).length == 1
    with pytest.raises(InvalidArgument, match="log_length"):
        al.SingleLocation(4, log_length=100.0).sample(jax.random.key(0), 2)
    with pytest.raises(InvalidArgument, match="batch"):
        al.SingleLocation(1000, 10**6).sample(jax.random.key(0), 1000)


@pytest.mark.parametrize("log_length", [1e-11, 0.1, 0.69, math.log(2) - 1e-9])
def test_there_is_no_prompt_between_one_and_two_tokens(log_length):
    with pytest.raises(InvalidArgument, match=r"log_length = .* 0 \(one token\) or at least log 2"):
        al.SingleLocation(4, log_length=log_length)


@pytest.mark.parametrize("log_length", [1e-12, math.log(2) * (1 - 1e-13), math.log(7) + 1e-13])
def test_a_log_length_next_to_that_of_an_integer_is_it(log_length):
    """So that one token is one token: its logarithm is the 0 that risks look for."""
    task = al.SingleLocation(4, log_length=log_length)
    assert task.log_length == math.log(task.length)
    risk = al.population_risk(task, al.SoftmaxAttention(0.3))
    assert np.isfinite(risk(al.Overlaps(0.5, 0.5, 0.0, 0.0, 0.0)))


def test_prompts_have_the_stated_law():
    task = al.SingleLocation(6, 4, token_std=0.6, noise_std=0.3, link="tanh")
    k_star, v_star = task.hidden_directions(jax.random.key(8))
    assert float(k_star @ v_star) == pytest.approx(0.0, abs=1e-6)
    n = 60_000
    prompts = task.sample(jax.random.key(1), n, k_star, v_star)
    X, y, where = (np.asarray(part, float) for part in prompts)
    where = where.astype(int)
    informative = X[np.arange(n), where]
    others = X[np.arange(4)[None] != where[:, None]]
    shift = task.signal * math.sqrt(6) * np.asarray(k_star, float)
    # means and variances, in standard errors
    z_mean = (informative.mean(0) - shift) / (0.6 / math.sqrt(n))
    z_bulk = others.mean(0) * math.sqrt(len(others))
    z_var = (informative.var(0) / 0.36 - 1) * math.sqrt(n / 2)
    z_var_bulk = (others.var(0) - 1) * math.sqrt(len(others) / 2)
    z_place = (np.bincount(where, minlength=4) - n / 4) / math.sqrt(n * 3 / 16)
    residual = y - np.tanh(informative @ np.asarray(v_star, float))
    z_noise = (residual.var() / 0.09 - 1) * math.sqrt(n / 2)
    every = np.concatenate([z_mean, z_bulk, z_var, z_var_bulk, z_place, [z_noise]])
    assert np.abs(every).max() < 4.2
    assert np.mean(every**2) < 2.0


def test_precision_and_caller_do_not_change_the_sample():
    task = al.SingleLocation(5, 3, noise_std=0.1)
    single = task.sample(jax.random.key(3), 10)
    with jax.enable_x64(True):
        double = task.sample(jax.random.key(3), 10, dtype=jnp.float64)
    assert single.X.dtype == jnp.float32
    assert double.X.dtype == jnp.float64
    np.testing.assert_allclose(np.asarray(single.X), np.asarray(double.X), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(single.location), np.asarray(double.location))


def test_a_registered_link_is_usable_by_name():
    al.register_link("test-cubic", lambda x: x**3)
    assert "test-cubic" in link_names()
    assert al.SingleLocation(3, 2, link="test-cubic").link is get_link("test-cubic")
    with pytest.raises(InvalidArgument, match="test-cubic"):
        al.register_link("test-cubic", lambda x: x)
    with pytest.raises(InvalidArgument, match="function"):
        al.register_link("test-none", None)
