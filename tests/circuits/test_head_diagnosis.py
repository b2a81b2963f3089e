"""Spectra from thin factors against dense matrices, and heads made to be something."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attnlab as al
from attnlab.checkpoints import AttentionWeights
from attnlab.circuits import diagnose_heads
from attnlab.circuits.spectra import cosines, gram, spectrum
from attnlab.circuits.zero_sum import zero_sum_groups

WIDTH = 9


def layer(kq, ov, number=0):
    """A layer with these circuits, as factors `(left, right)` for each head."""
    weights = AttentionWeights(
        query=np.stack([right for _, right in kq]),
        key=np.stack([left.T for left, _ in kq]),
        value=np.stack([right for _, right in ov]),
        output=np.stack([left for left, _ in ov]),
        query_bias=None,
        key_bias=None,
        value_bias=None,
        output_bias=None,
        scale=1.0,
    )
    return al.circuits.HeadCircuits(weights, number)


def factors(rng, rank=3, width=WIDTH):
    return rng.normal(size=(width, rank)), rng.normal(size=(rank, width))


def orthonormal(rng, rank=3):
    return np.linalg.qr(rng.normal(size=(WIDTH, rank)))[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_every_number_is_that_of_the_dense_matrix(seed, rank):
    left, right = factors(np.random.default_rng(seed), rank)
    found, dense = spectrum(left, right), left @ right
    kept = min(rank, WIDTH)
    singular = np.linalg.svd(dense, compute_uv=False)
    values = np.linalg.eigvals(dense)
    symmetric, norm = (dense + dense.T) / 2, np.linalg.norm(dense)
    shares = singular[:kept] / singular.sum()
    np.testing.assert_allclose(found.singular, singular[:kept], rtol=1e-7, atol=1e-9 * norm)
    np.testing.assert_allclose(
        np.sort(np.abs(found.eigenvalues)),
        np.sort(np.abs(values))[WIDTH - kept :],
        rtol=1e-5,
        atol=1e-5 * norm,
    )
    expected = {
        "norm": norm,
        "trace": np.trace(dense),
        "symmetric": np.sum(symmetric**2) / norm**2,
        "sign": values.sum().real / np.abs(values).sum(),
        "effective_rank": np.exp(-np.sum(shares * np.log(shares))),
        "stable_rank": (norm / singular[0]) ** 2,
        "diagonal": np.linalg.norm(np.diag(dense)) / norm,
        "identity": np.trace(dense) / norm / WIDTH**0.5,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_numbers_do_not_depend_on_how_a_matrix_is_split():
    rng = np.random.default_rng(1)
    left, right = factors(rng)
    mix = rng.normal(size=(3, 3))
    one, other = spectrum(left, right), spectrum(left @ mix, np.linalg.solve(mix, right))
    for name in one._fields:
        np.testing.assert_allclose(
            np.abs(getattr(one, name)), np.abs(getattr(other, name)), rtol=1e-9, err_msg=name
        )


def test_small_singular_values_are_not_lost():
    rng = np.random.default_rng(2)
    u, v, exact = orthonormal(rng), orthonormal(rng), np.array([1.0, 1e-6, 1e-12])
    np.testing.assert_allclose(spectrum(u, exact[:, None] * v.T).singular, exact, rtol=1e-3)


def test_known_matrices():
    u = orthonormal(np.random.default_rng(3), 4)
    turn = np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]])
    copies = spectrum(2 * u, u.T)
    assert copies.sign == pytest.approx(1)
    assert copies.symmetric == pytest.approx(1)
    assert (copies.effective_rank, copies.stable_rank) == pytest.approx((4, 4))
    assert copies.identity == pytest.approx(4 / (2 * 3))  # tr / (|M| √9) = 8 / (4 · 3)
    turns = spectrum(u @ turn, u.T)
    assert turns.symmetric == pytest.approx(0)
    assert turns.sign == pytest.approx(0)
    moves = spectrum(u[:, :2], u[:, 2:].T)  # nilpotent: its eigenvalues are 0
    assert moves.sign == 0
    assert moves.symmetric == pytest.approx(0.5)
    places = spectrum(np.eye(9)[:, :2], np.diag([1.0, -1.0]) @ np.eye(9)[:2])
    assert places.diagonal == pytest.approx(1)
    assert places.identity == places.sign == 0
    nothing = spectrum(0 * u, u.T)
    assert all(not np.any(value) for value in nothing)


def test_products_of_heads():
    rng = np.random.default_rng(4)
    pairs = [factors(rng) for _ in range(4)]
    left, right = (np.stack(x) for x in zip(*pairs))
    dense = (left @ right).reshape(4, -1)
    np.testing.assert_allclose(gram(left, right), dense @ dense.T, rtol=1e-10)
    unit = dense / np.linalg.norm(dense, axis=1)[:, None]
    np.testing.assert_allclose(cosines(gram(left, right)), unit @ unit.T, atol=1e-12)
    left[2] = 0
    assert not cosines(gram(left, right))[2].any()


def test_groups_that_cancel():
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, 50))
    heads = np.stack([a, -0.9 * a, b, c, -b - c, 1e-3 * a, -1e-3 * a])

    def found(**more):
        told = {"threshold": 0.1, "dummy": 0.1, "largest": 5, **more}
        return zero_sum_groups(heads @ heads.T, **told)

    groups = found()
    assert [group.heads for group in groups] == [(2, 3, 4), (0, 1)]
    assert groups[0].value == pytest.approx(0, abs=1e-7)
    assert groups[1].value == pytest.approx(0.1 / 1.9)
    assert [group.heads for group in found(threshold=0.05)] == [(2, 3, 4)]
    assert [group.heads for group in found(largest=2)] == [(0, 1)]
    assert (5, 6) in [group.heads for group in found(dummy=0.0)]
    assert zero_sum_groups(np.zeros((3, 3)), threshold=1.0, dummy=0.1, largest=3) == ()


def made(rng, number=0):
    """Heads that copy, suppress, do something else, and nothing; the first two cancel."""
    u, small = orthonormal(rng), orthonormal(rng)
    ov = [(u, u.T), (-u, u.T), factors(rng), (0.01 * small, small.T)]
    return layer([factors(rng) for _ in range(4)], ov, number)


def test_a_layer():
    rng = np.random.default_rng(6)
    found = diagnose_heads(made(rng))
    (one,) = found.layers
    assert one.deeds[:2] == ("copying", "suppressing")
    assert one.deeds[3] == "dummy"
    assert [g.heads for g in diagnose_heads(made(rng), dummy=0.05).layers[0].zero_sum] == [(0, 1)]
    assert one.ov_cosine[0, 1] == pytest.approx(-1)
    assert not one.key_offset.any()
    strict = diagnose_heads(made(rng), sign=1.0, dummy=0.0)
    assert strict.layers[0].deeds[2] == "mixed"
    assert "heads 0, 1 cancel" in str(diagnose_heads(made(rng), dummy=0.05))


def test_the_key_offset_is_measured():
    rng = np.random.default_rng(7)
    one = made(rng)
    weights = one.weights
    bias = rng.normal(size=weights.query.shape[:2])
    biased = AttentionWeights(**{**vars(weights), "query_bias": bias})
    other = al.circuits.HeadCircuits(biased)
    expected = np.linalg.norm(other.key_offset, axis=1) / np.linalg.norm(one.kq, axis=(1, 2))
    np.testing.assert_allclose(diagnose_heads(other).layers[0].key_offset, expected)


def test_layers_as_a_dataset_and_a_table(tmp_path):
    rng = np.random.default_rng(8)
    found = diagnose_heads([made(rng), made(rng, 5)], dummy=0.0)
    data = found.to_dataset()
    assert data.layer.values.tolist() == [0, 5]
    assert data.sizes["kq_rank"] == 3
    assert data.does.sel(layer=5, head=1).item() == "suppressing"
    dense = made(np.random.default_rng(8))
    np.testing.assert_allclose(
        data.kq_singular_values[0], np.linalg.svd(dense.kq, compute_uv=False)[:, :3]
    )
    assert data.group_member[0].values.tolist() == [True, True, False, False]
    assert data.group_zero_sum.values[0] == pytest.approx(0, abs=1e-6)
    assert all(data[name].attrs["long_name"] for name in data if str(name).startswith("ov_"))
    text = str(found)
    assert text.count("\n5 ") == 4
    assert "cancel" in text
    al.records.save(data, tmp_path / "d.nc")
    again = al.records.load(tmp_path / "d.nc")
    assert again.does.values.tolist() == data.does.values.tolist()
    none = diagnose_heads(layer([factors(rng)], [factors(rng)]))
    assert "no group of heads cancels" in str(none)
    al.records.save(none.to_dataset(), tmp_path / "e.nc")


def test_circuits_of_in_context_regression_are_taken_too():
    rng = np.random.default_rng(9)
    circuits = al.circuits.Circuits(*rng.normal(size=(2, 2, 4, 4)), dim=3)
    (one,) = diagnose_heads(circuits).layers
    np.testing.assert_allclose(one.ov[1].singular, np.linalg.svd(circuits.ov[1])[1])
    assert one.kq[0].trace == pytest.approx(np.trace(circuits.kq[0]))


def test_what_is_refused():
    rng = np.random.default_rng(10)
    other = layer([factors(rng, 2)], [factors(rng, 2)])
    for bad in (3, [], [3], "model", [made(rng), other]):
        with pytest.raises(al.InvalidArgument, match="found"):
            diagnose_heads(bad)
    huge = layer([(1e70 * a, b) for a, b in [factors(rng)]], [factors(rng)], number=3)
    with pytest.raises(al.InvalidArgument, match="layer 3, entries up to"):
        diagnose_heads(huge)
    for name, value in (("sign", 2), ("dummy", -1), ("zero_sum", "x"), ("largest_group", 1)):
        with pytest.raises(al.InvalidArgument, match=name):
            diagnose_heads(made(rng), **{name: value})
