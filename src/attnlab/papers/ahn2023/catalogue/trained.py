"""Layers of which all weights are trained: which pattern they end in."""

from __future__ import annotations

from ..._framework import Experiment

_ROOT = "attnlab.papers.ahn2023"
# as in the claims: one training serves both
_SHORT = {"steps": 5000, "runs": 4, "batch_size": 256}

EXPERIMENTS = (
    Experiment(
        id="ahn2023/sparsity",
        title="All weights of one layer, trained, for six activations",
        summary=(
            "P and Q start at random and are trained on isotropic data. With every activation P ends "
            "reading the response alone and Q comparing covariates by a multiple of the identity."
        ),
        source="Theorem 1 and its figure of trained weights; note on ReLU attention, observation",
        config=f"{_ROOT}.sparsity:SparsityConfig",
        run=f"{_ROOT}.sparsity:run",
        figure=f"{_ROOT}.sparsity:figure",
        presets={"quick": _SHORT, "paper": {}},
        expected=(
            "Shares outside of the pattern of 0.01 to 0.02, A off a multiple of I by 0.005 to 0.02. "
            "Mean diagonal of v A: 0.769 (linear, n/(n+d+1)) and 1.212 (ReLU, 2n/(n+2d+3))."
        ),
    ),
    Experiment(
        id="ahn2023/preconditioner",
        title="Anisotropic data: the preconditioner of a trained layer",
        summary=(
            "Covariates have a covariance. Linear attention learns the preconditioner of Theorem 1, "
            "ReLU attention one of the same shape that its note leaves open."
        ),
        source="Theorem 1; note on ReLU attention, remark on non-isotropic inputs",
        config=f"{_ROOT}.preconditioner:PreconditionerConfig",
        run=f"{_ROOT}.preconditioner:run",
        figure=f"{_ROOT}.preconditioner:figure",
        presets={"quick": _SHORT, "paper": {}},
        expected=(
            "v A within 1 % of A* = n((n+1)Σ + tr Σ I)⁻¹ (linear) and 2n((n+3)Σ + 2 tr Σ I)⁻¹ (ReLU), "
            "0.4 away from multiples of I."
        ),
    ),
    Experiment(
        id="ahn2023/joint-pq",
        title="P and Q together: the minima of the exact risk",
        summary=(
            "Descents of the exact risk over all of P and Q. The global minimum always has the "
            "sparse pattern; with one large eigenvalue of Σ many starts end in another minimum."
        ),
        source="note on ReLU attention, remark on the joint optimum of P and Q; Theorem 1",
        config=f"{_ROOT}.joint:JointConfig",
        run=f"{_ROOT}.joint:run",
        figure=f"{_ROOT}.joint:figure",
        presets={
            "quick": {"starts": 48, "max_steps": 3000, "ratios": (1.0, 1.5, 2.0, 4.0, 8.0)},
            "paper": {},
        },
        expected=(
            "d = 5, n = 20: for Σ = I every start reaches the pattern. With a first eigenvalue of 4 "
            "about 45 % do; the others end at 5.03 (ReLU) and 4.28 (linear), where A* has 2.99 and "
            "1.76."
        ),
    ),
    Experiment(
        id="ahn2023/activations",
        title="Other activations: the exact risk along A = cI",
        summary=(
            "The exact risk of one layer with any activation, with the value fixed and free. Bounded "
            "odd activations are slightly better than linear attention."
        ),
        source="note on ReLU attention, remark on further non-linear functions",
        config=f"{_ROOT}.activations:ActivationsConfig",
        run=f"{_ROOT}.activations:run",
        figure=f"{_ROOT}.activations:figure",
        presets={"quick": {"points": 25}, "paper": {}},
        expected=(
            "d = 5, n = 20, with the best v: linear 1.154, tanh 1.114 at c = 0.187, erf 1.115, ReLU "
            "1.970, softmax 2.133 at c = 0.65, exp 2.843; GELU falls to 1.154 as c does to 0. With "
            "v = 1: tanh 2.450 at c = 4.36, GELU 1.956 at 1.21, exp 2.867 at 0.292."
        ),
    ),
)
