"""Layers of linear attention where covariates are isotropic, and their risk, traced by JAX.

With `x = Σ^{1/2} x̃` a covariance and a prior become one prior, and the layers
`Ã = Σ^{1/2} A Σ^{1/2}`, `B̃ = Σ^{-1/2} B Σ^{1/2}`; given `S = X̃ᵀX̃/n` the risk follows from the
recursion of `deep_linear_sampled`. Source: ahn2023; `docs/theory/deep-linear-attention`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..tasks import InContextRegression

_CHUNK_NUMBERS = 2**23


class Whitened:
    """A task in coordinates in which its covariates are isotropic.

    `A_l` becomes `Σ^{1/2} A_l Σ^{1/2}`, `B_l` becomes `Σ^{-1/2} B_l Σ^{1/2}`, and `prior` is
    `Σ^{1/2} W Σ^{1/2}`.
    """

    def __init__(self, task: InContextRegression):
        self.values, self.vectors = np.linalg.eigh(task.covariance_matrix)
        self.root = (self.vectors * np.sqrt(self.values)) @ self.vectors.T
        self.inverse = (self.vectors / np.sqrt(self.values)) @ self.vectors.T
        prior = self.root @ task.prior_matrix @ self.root
        self.prior = (prior + prior.T) / 2
        self.dim, self.length, self.noise = task.dim, task.length, task.noise_std**2
        self.signal = float(np.trace(self.prior))

    def whiten(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Both matrices in the new coordinates, `(2, layers, d, d)`."""
        return np.stack([self.root @ a @ self.root, self.inverse @ b @ self.root])

    def original(self, layers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of `whiten`."""
        return self.inverse @ layers[0] @ self.inverse, self.root @ layers[1] @ self.inverse

    def draw(self, key: Any, samples: int) -> Float[np.ndarray, "samples dim dim"]:
        """`XᵀX/n` of that many sets of isotropic examples."""
        chunk = max(1, min(samples, _CHUNK_NUMBERS // (self.dim * (self.length + self.dim))))
        squares = []
        for start in range(0, samples, chunk):
            shape = (min(chunk, samples - start), self.length, self.dim)
            X = np.asarray(jax.random.normal(jax.random.fold_in(key, start), shape, jnp.float32))
            X = X.astype(np.float64)
            squares.append(np.swapaxes(X, 1, 2) @ X / self.length)
        return np.concatenate(squares)


def risks_given(
    layers: Float[Array, "parts layers dim dim"],
    S: Float[Array, "samples dim dim"],
    prior: Float[Array, "dim dim"],
    noise: Float[Array, ""],
) -> Float[Array, " samples"]:
    """The risk less `σ²` given each `S = XᵀX/n` of isotropic covariates, to be traced by JAX.

    `layers`: `A_l` alone (`parts = 1`) or with `B_l`. `noise`: `σ²/n`.
    """
    eye = jnp.eye(S.shape[-1])
    G, R, T = jnp.zeros_like(S), jnp.broadcast_to(eye, S.shape), eye
    moved = False
    for place in range(layers.shape[1]):
        step = T @ layers[0, place].T @ jnp.swapaxes(T, -1, -2) if moved else layers[0, place].T
        change = step @ R
        G, R = G + change, R - S @ change
        if len(layers) > 1 and place < layers.shape[1] - 1:
            T, moved = T - step @ S @ T @ layers[1, place].T, True
    # R stays I - SG
    bias = jnp.sum((G @ S - eye) @ prior * (G @ S - eye), (-2, -1))
    return bias + noise * jnp.sum(G @ S * G, (-2, -1))
