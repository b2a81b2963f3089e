"""The invariants of tasks: true samplers pass, each kind of wrong one is found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.testing import InvariantError, check_task
from attnlab.testing.in_context import check_in_context_laws
from attnlab.testing.invariants import Invariants


@pytest.mark.parametrize(
    "task",
    [
        al.SingleLocation(30, 5),
        al.SingleLocation(2, 1, noise_std=0.3, link="tanh"),
        al.SingleLocation(4, 40, token_std=2.0, signal=3.0, link="quadratic"),
    ],
    ids=["usual", "smallest", "wide"],
)
def test_single_location_follows_its_laws(task):
    held = check_task(task)
    assert {"same in float64", "informative token", "labels", "location uniform"} <= set(held)
    assert ("other tokens" in held) == (task.length > 1)


class Pairs(NamedTuple):
    X: jax.Array
    y: jax.Array


class Mean:
    """A task of its own: the label is the mean of the tokens."""

    dim, length = 3, 4

    def sample(self, key, batch):
        if batch < 1:
            raise InvalidArgument("batch", batch, "at least 1")
        X = jax.random.normal(key, (batch, self.length, self.dim), jnp.float32)
        return Pairs(X, jnp.mean(X, axis=(1, 2)))


def test_other_tasks_pass_the_general_invariants():
    held = check_task(Mean())
    assert "distinct prompts" in held
    assert "informative token" not in held


def broken(change):
    class Broken(Mean):
        def sample(self, key, batch):
            return change(super().sample(key, batch), key, batch)

    return Broken()


def drift(pairs, key, batch):
    ramp = jnp.linspace(0.0, 1.0, batch)
    return pairs._replace(y=pairs.y + ramp)


def by_precision(pairs, key, batch):
    return pairs._replace(X=jax.random.normal(key, pairs.X.shape))


calls = iter(range(10**6))


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        (lambda p, key, n: p._replace(X=p.X[:, :, :2]), "shapes"),
        (lambda p, key, n: p._replace(X=p.X[:, :2]), "shapes"),
        (lambda p, key, n: p._replace(y=p.y[:-1]), "shapes"),
        (lambda p, key, n: p._replace(y=p.y.at[0].set(jnp.nan)), "finite"),
        (lambda p, key, n: p._replace(y=p.y + next(calls)), "depends on the key alone"),
        (lambda p, key, n: p._replace(X=jnp.ones_like(p.X)), "depends on the key alone"),
        (lambda p, key, n: p._replace(X=jnp.asarray(np.asarray(p.X))), "same under jit"),
        (by_precision, "same in float64"),
        (lambda p, key, n: p._replace(X=p.X.at[-1].set(p.X[0])), "distinct prompts"),
        (drift, "equally distributed prompts"),
    ],
)
def test_each_violation_is_found(change, violated):
    with pytest.raises(InvariantError) as caught:
        check_task(broken(change))
    assert violated in caught.value.violations


def test_an_empty_batch_has_to_be_refused():
    class Careless(Mean):
        def sample(self, key, batch):
            X = jax.random.normal(key, (batch, self.length, self.dim), jnp.float32)
            return Pairs(X, jnp.mean(X, axis=(1, 2)))

    with pytest.raises(InvariantError, match="refuses an empty batch"):
        check_task(Careless())


def wrong_law(change):
    class Wrong(al.SingleLocation):
        def sample(self, key, batch, *arguments, **options):
            return change(super().sample(key, batch, *arguments, **options))

    return Wrong(6, 4, noise_std=0.5)


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        (lambda p: p._replace(location=p.location + 1), "location in range"),
        (lambda p: p._replace(location=jnp.zeros_like(p.location)), "location uniform"),
        (lambda p: p._replace(X=1.1 * p.X), "other tokens"),
        (lambda p: p._replace(X=p.X + 0.2), "informative token"),
        (lambda p: p._replace(X=p.X.at[..., 2].set(p.X[..., 3])), "other tokens"),
        (lambda p: p._replace(y=p.y + 0.2), "labels"),
        (lambda p: p._replace(y=p.X[jnp.arange(len(p.y)), p.location, 1]), "labels"),
    ],
)
def test_wrong_laws_are_found(change, violated):
    with pytest.raises(InvariantError) as caught:
        check_task(wrong_law(change))
    assert violated in caught.value.violations


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidArgument, match="task"):
        check_task("SingleLocation")
    with pytest.raises(InvalidArgument, match="batch"):
        check_task(Mean(), batch=10)
    with pytest.raises(InvalidArgument, match="seed"):
        check_task(Mean(), seed=-1)


@pytest.mark.parametrize(
    "task",
    [
        al.InContextRegression(3, 4, covariance=np.diag([4.0, 1.0, 0.2])),
        al.InContextRegression(1, 1, noise_std=0.0),
        al.InContextRegression(4, 6, supports=[[0, 1], [1, 2]], coefficients="independent"),
    ],
    ids=["anisotropic", "smallest", "two tasks"],
)
def test_in_context_regression_follows_its_laws(task):
    held = check_task(task)
    assert {"same in float64", "covariates", "coefficients", "query's noise"} <= set(held)


TWO = al.InContextRegression(4, 3, noise_std=0.5, supports=[[0, 1], [1, 2]])
DRAWN = TWO.sample(jax.random.key(2), 2000)


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        (lambda p: p._replace(yq=p.yq[:, 0]), "query and coefficients"),
        (lambda p: p._replace(beta=p.beta.at[0].set(jnp.nan)), "query and coefficients"),
        (lambda p: p._replace(X=1.1 * p.X), "covariates"),
        (lambda p: p._replace(xq=p.xq.at[:, 0].set(p.xq[:, 1])), "query"),
        (lambda p: p._replace(beta=p.beta + 0.01), "coefficients"),
        (lambda p: p._replace(beta=1.2 * p.beta), "coefficients"),
        (lambda p: p._replace(beta=p.beta.at[:, 0, 1].multiply(-1)), "coefficients"),
        (lambda p: p._replace(y=p.y[..., ::-1]), "response noise"),
        (lambda p: p._replace(yq=p.yq + 0.2), "query's noise"),
    ],
)
def test_wrong_laws_of_in_context_regression_are_found(change, violated):
    found = Invariants("a sample")
    check_in_context_laws(found, TWO, change(DRAWN))
    with pytest.raises(InvariantError) as caught:
        found.result()
    assert violated in caught.value.violations


def test_responses_of_in_context_regression_need_an_axis_for_the_examples():
    class Short(al.InContextRegression):
        def sample(self, key, batch, *arguments, **options):
            prompts = super().sample(key, batch, *arguments, **options)
            return prompts._replace(y=prompts.y[:, 0])

    with pytest.raises(InvariantError, match="y has shape"):
        check_task(Short(4, 3))
