"""The invariants of activations and links: true ones pass, each kind of violation is found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab.errors import InvalidArgument
from attnlab.students import Activation, activation_names
from attnlab.tasks import Link, link_names
from attnlab.testing import InvariantError, check_activation, check_link

PARITY = {"erf": "odd", "tanh": "odd", "sign": "odd", "linear": "odd", "quadratic": "even"}


@pytest.mark.parametrize("name", activation_names())
def test_all_registered_activations_pass(name):
    held = check_activation(name, parity=PARITY.get(name))
    assert {"elementwise", "finite", "kinks declared"} <= set(held)
    assert (PARITY.get(name) in held) == (name in PARITY)


@pytest.mark.parametrize("name", link_names())
def test_all_registered_links_pass(name):
    held = check_link(name, parity=PARITY.get(name))
    link = al.tasks.get_link(name)
    assert ("polynomial" in held) == (link.polynomial is not None)
    assert ("gaussian_mean" in held) == (link.gaussian_mean is not None)


def centred(x):
    return jnp.tanh(x - jnp.mean(x))


def half(x):
    return jnp.tanh(x).astype(jnp.float16).astype(x.dtype)


@jax.custom_jvp
def wrong_slope(x):
    return jnp.tanh(x)


wrong_slope.defjvp(lambda primals, tangents: (jnp.tanh(primals[0]), 2 * tangents[0]))


@pytest.mark.parametrize(
    ("function", "violated"),
    [
        (lambda x: float(x), "evaluates"),
        (lambda x: np.tanh(np.asarray(x)), "evaluates"),
        (lambda x: jnp.sum(x), "evaluates"),
        (centred, "elementwise"),
        (lambda x: jnp.tanh(x).astype(jnp.float32), "keeps the dtype"),
        (half, "differentiable"),
        (lambda x: x / x, "finite"),
        (lambda x: jnp.exp(x**2), "finite"),
        (lambda x: x if float(jnp.max(x)) > 0 else -x, "traceable"),
        (wrong_slope, "differentiable"),
        (lambda x: jnp.abs(x), "kinks declared"),
        (lambda x: jnp.tanh(x) + 1e-3 * jnp.sign(x - 1.7), "kinks declared"),
        (lambda x: jnp.clip(x, -0.5, 3.0), "kinks declared"),
    ],
)
def test_each_violation_is_found(function, violated):
    with pytest.raises(InvariantError) as caught:
        check_activation(Activation("mine", function))
    assert violated in caught.value.violations
    assert f"- {violated}: " in str(caught.value)


def test_declared_kinks_count():
    clipped = Activation("clip", lambda x: jnp.clip(x, -0.5, 3.0), kinks=(-0.5, 3.0))
    assert "kinks declared" in check_activation(clipped)
    with pytest.raises(InvariantError, match=r"slope jumps by 1 at 3, which is no declared kink"):
        check_activation(Activation("clip", clipped.function, kinks=(-0.5,)))


def test_steep_but_smooth_functions_have_no_kink():
    assert "kinks declared" in check_activation(Activation("steep", lambda x: jnp.tanh(300 * x)))


def test_false_parity_is_found_and_unknown_parity_refused():
    with pytest.raises(InvariantError, match="odd"):
        check_activation("relu", parity="odd")
    with pytest.raises(InvariantError, match="even"):
        check_activation("tanh", parity="even")
    with pytest.raises(InvalidArgument, match="parity"):
        check_activation("tanh", parity="both")
    with pytest.raises(InvalidArgument, match="activation"):
        check_activation("tahn")


def square_mean(m, v):
    return m**2 + v


def test_declared_averages_are_checked_against_quadrature():
    def fourth(m, v):
        return m**4 + 6 * m**2 * v + 3 * v**2

    true = Link("square", lambda x: x * x, gaussian_mean=square_mean, gaussian_square=fourth)
    assert {"gaussian_mean", "gaussian_square"} <= set(check_link(true))
    for field, wrong in (
        ("gaussian_mean", lambda m, v: m**2 + 1.001 * v),
        ("gaussian_square", lambda m, v: m**4 + 3 * v**2),
        ("gaussian_mean", lambda m, v: m**2 + jnp.sqrt(v) ** 2 + 0 * jnp.sqrt(v)),
    ):
        link = Link("square", lambda x: x * x, **{field: wrong})
        with pytest.raises(InvariantError) as caught:
            check_link(link)
        assert set(caught.value.violations) == {field}
    with pytest.raises(InvariantError, match="polynomial"):
        check_link(Link("cube", lambda x: x**3, polynomial=(0.0, 1.0)))


def test_averages_of_links_with_kinks_split_there():
    def relu_mean(m, v):
        s = jnp.sqrt(jnp.where(v > 0, v, 1.0))
        inside = m * jax.scipy.stats.norm.cdf(m / s) + s * jax.scipy.stats.norm.pdf(m / s)
        return jnp.where(v > 0, inside, jax.nn.relu(m))

    assert "gaussian_mean" in check_link(
        Link("relu", jax.nn.relu, kinks=(0.0,), gaussian_mean=relu_mean)
    )
