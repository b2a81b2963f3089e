"""Files of the released code of ahn2023: the stack predicts what that code computes."""

import jax
import numpy as np
import pytest

import attnlab as al

LAYERS, DIM, LENGTH = 3, 4, 6
RNG = np.random.default_rng(12)
PARAMETERS = RNG.normal(size=(LAYERS, 1, 2, DIM, DIM)) / 4


def released(parameters, Z):
    """Its model, token by token, on rows `(x, y)`; the prediction is minus the last entry."""
    d, count = parameters.shape[-1], len(Z) - 1
    for layer in parameters:
        new = Z.copy()
        for P, Q in layer:
            for j, query in enumerate(Z):
                for key in Z[:count]:  # the query is nobody's key
                    weight = (query[:d] @ Q @ key[:d]) / count
                    new[j, :d] += weight * (P @ key[:d])
                    new[j, d] += weight * key[d]
        Z = new
    return -Z[-1, -1]


@pytest.fixture(scope="module")
def prompt():
    X, y, xq = RNG.normal(size=(LENGTH, DIM)), RNG.normal(size=LENGTH), RNG.normal(size=DIM)
    Z = np.zeros((LENGTH + 1, DIM + 1))
    Z[:LENGTH, :DIM], Z[:LENGTH, DIM], Z[-1, :DIM] = X, y, xq
    return (X, y, xq), Z


def test_the_stack_predicts_what_the_code_predicts(tmp_path, prompt):
    parts, Z = prompt
    np.savez(tmp_path / "w.npz", **{"module.allparam": PARAMETERS})
    stack = al.circuits.load(tmp_path / "w.npz")
    assert isinstance(stack, al.students.AttentionStack)
    assert all(isinstance(layer, al.students.MergedAttention) for layer in stack.layers)
    with jax.enable_x64(True):
        np.testing.assert_allclose(stack(*parts), released(PARAMETERS, Z), rtol=1e-12)
        # of one layer, whose circuits leave the sign to the stack
        one = al.circuits.load(tmp_path / "w.npz", layer=1)
        assert one.normalization.name == "linear"
        np.testing.assert_allclose(one(*parts), -released(PARAMETERS[1:2], Z), rtol=1e-12)


def test_several_heads(tmp_path, prompt):
    parts, Z = prompt
    parameters = RNG.normal(size=(1, 3, 2, DIM, DIM))
    np.savez(tmp_path / "w.npz", allparam=parameters)
    found = al.circuits.load(tmp_path / "w.npz", layer=0)
    assert found.n_heads == 3
    np.testing.assert_allclose(found(*parts), -released(parameters, Z), rtol=1e-12)
    with pytest.raises(al.InvalidArgument, match="layer = None .* 3 heads"):
        al.circuits.load(tmp_path / "w.npz")


def test_a_history_of_one_run_or_several(tmp_path, prompt):
    parts, Z = prompt
    steps = [step * PARAMETERS for step in (0.0, 0.5, 1.0)]
    one = {f"hist_dict[(0,)][{i}]": x for i, x in enumerate(steps)}
    np.savez(tmp_path / "one.npz", **one)
    np.savez(tmp_path / "two.npz", **one, **{"hist_dict[(1,)][0]": steps[0]})
    with jax.enable_x64(True):
        last = al.circuits.load(tmp_path / "one.npz")
        np.testing.assert_allclose(last(*parts), released(PARAMETERS, Z), rtol=1e-12)
        told = {"allparam": "hist_dict[(0,)][1]"}
        half = al.circuits.load(tmp_path / "two.npz", mapping=told)
        np.testing.assert_allclose(half(*parts), released(PARAMETERS / 2, Z), rtol=1e-12)
    for mapping in (None, {"allparam": "hist_dict[(2,)][0]"}):
        with pytest.raises(al.InvalidArgument, match=r"of hist_dict\[\(0,\)\]\[0\]"):
            al.circuits.load(tmp_path / "two.npz", mapping=mapping)


@pytest.mark.parametrize(
    ("arrays", "arguments", "message"),
    [
        ({"allparam": np.ones((3, 1, 3, 4, 4))}, {}, "has shape"),
        ({"allparam": np.ones((3, 1, 2, 4, 5))}, {}, "has shape"),
        ({"allparam": PARAMETERS, "gamma": np.ones(3)}, {}, "gamma beside it"),
        ({"allparam": PARAMETERS}, {"layer": 3}, "layer = 3"),
        ({"allparam": PARAMETERS}, {"dim": 4}, "dim = 4"),
        ({"allparam": PARAMETERS, "b.allparam": PARAMETERS}, {}, "mapping = None"),
        ({"allparam": np.full((1, 1, 2, 4, 4), np.nan)}, {}, "NaN"),
        ({"other": PARAMETERS}, {"mapping": {"allparam": "x"}}, "mapping = "),
    ],
)
def test_what_is_refused(tmp_path, arrays, arguments, message):
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(al.InvalidArgument) as caught:
        al.circuits.load(tmp_path / "w.npz", **arguments)
    assert message in str(caught.value)
