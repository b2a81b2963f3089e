"""Attention masses of many sizes: against plain quadrature, at the ends, in parts, and refusals."""

import sys

import numpy as np
import pytest
from scipy.special import expit

import attnlab as al
from attnlab.theory import attention_masses


def test_one_other_token_is_a_logistic_of_a_gaussian():
    # the last score is beyond the lattice, on which e^-350 of the weight is resolved
    mean, std = np.array([0.0, 1.0, -3.0, 500.0, 5000.0]), np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    found = attention_masses(1.0, 0.0, mean, std)
    z = np.linspace(-12, 12, 4001)
    law = np.exp(-(z**2) / 2) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    logit = mean[:, None] + np.sqrt(std[:, None] ** 2 + 1) * z
    np.testing.assert_allclose(found.mass, expit(logit) @ law, rtol=1e-11)
    np.testing.assert_allclose(found.mass_square, expit(logit) ** 2 @ law, rtol=1e-11)
    np.testing.assert_allclose(found.missing[:3], (expit(-logit) @ law)[:3], rtol=1e-11)
    np.testing.assert_allclose(found.participation, 1.0, rtol=1e-11)


def test_sizes_that_need_different_lattices_are_computed_in_parts(monkeypatch):
    module = sys.modules[attention_masses.__module__]
    spread, mean = np.array([[2.0], [0.3], [0.8]]), np.array([0.0, 3.0])
    whole = attention_masses(spread, 3.0, mean, 1.0)
    monkeypatch.setattr(module, "_LARGEST", 1)
    parts = attention_masses(spread[:, 0], 3.0, 3.0, 1.0)
    for one, other in zip(whole, parts):
        assert one.shape == (3, 2)
        np.testing.assert_allclose(other, one[:, 1], rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wide", 1, 1, 1), "spread = 'wide'"),
        ((1, 1, 1, np.nan), "std = nan"),
        (([], 1, 1, 1), "spread"),
        (([1, 2], [1, 2, 3], 1, 1), "broadcast"),
    ],
)
def test_bad_sizes_are_refused(arguments, message):
    with pytest.raises(al.InvalidArgument, match=message):
        attention_masses(*arguments)
