"""A layer as a sum of kernel regressors: what is left when its patterns are taken to be exact.

Source: eq. (3.1), (3.2) and (B.8) of he2025; `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from typing import Literal

from .._core.errors import check_choice
from ..students import KernelHeads
from .circuits import Circuits, check_circuits

Form = Literal["scalar", "diagonal", "matrix"]
FORMS: tuple[Form, ...] = ("scalar", "diagonal", "matrix")


def reduce(circuits: Circuits, form: Form | None = None) -> KernelHeads:
    """Heads with the circuits' `ω` and `μ`, everything else dropped.

    `form` says what is kept of the covariate block of `KQ`: `"scalar"`, the mean of its diagonal
    (the default for one task), `"diagonal"`, the diagonal (the default for several), or `"matrix"`,
    all of it. `mu` is `(H,)` for one task and `(H, N)` for several, in float64. Raises
    `InvalidArgument`.
    """
    check_circuits(circuits)
    if form is None:
        form = "scalar" if circuits.n_outputs == 1 else "diagonal"
    check_choice("form", form, FORMS)
    omega = {
        "scalar": circuits.omega,
        "diagonal": circuits.omega_diagonal,
        "matrix": circuits.kq_covariates.copy(),
    }[form]
    mu = circuits.mu[:, 0] if circuits.n_outputs == 1 else circuits.mu
    return KernelHeads(omega, mu, normalization=circuits.normalization)
