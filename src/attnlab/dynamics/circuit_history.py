"""The circuits of a layer of heads along its training: what is recorded, and its tail averages.

Source: Section 3 of he2025 (what the circuits look like); `docs/theory/multi-head-attention`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from .._core.errors import InvalidArgument, check_real
from ..students import AttentionLayer, KernelHeads

if TYPE_CHECKING:
    import xarray

LONG_NAMES = {
    "omega": "mean diagonal of the covariate block of KQ",
    "omega_spread": "root mean square deviation of that diagonal from its mean",
    "off_diagonal": "root mean square of the other effective entries of KQ",
    "mu": "entries of OV from each response to its own output",
    "ov_rest": "root mean square of the other effective entries of OV",
    "kq": "KQ: the logit of token i for query j is z_i KQ[i, j] z_j",
    "ov": "OV: what a head adds is OV times the attended token",
}


@dataclass(frozen=True)
class CircuitMeasure:
    """A measure for `train`: each head's circuits `KQ^h`, `OV^h` as a few numbers.

    Only effective entries count: the first `dim` columns of `KQ` (a query's own response is 0) and
    the last `N` rows of `OV` (only they reach the prediction). All sizes are absolute, in the units
    of `omega` and `mu`, since a head may have `ω = 0`. On dimension `head`:

    - `omega`: mean diagonal of the `(dim, dim)` covariate block of `KQ`; `omega_spread`: root mean
      square deviation of the diagonal from it; `off_diagonal`: root mean square of the remaining
      `dim²` effective entries, off the diagonal and in the row of each response.
    - `mu`: the entry of `OV` from a response to its own output, `(head,)`, with an axis `output`
      for several of them; `ov_rest`: root mean square of the other effective entries.

    **Arguments:** `matrices` adds the whole `kq` and `ov`, `(head, row, column)`.

    Of `KernelHeads`, `omega` and `mu` as they are.
    """

    matrices: bool = False

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Names of the axes."""
        matrix = ("head", "row", "column")
        single = ("omega", "omega_spread", "off_diagonal", "ov_rest")
        return dict.fromkeys(single, ("head",)) | {
            "mu": ("head", "output"),
            "kq": matrix,
            "ov": matrix,
        }

    def __call__(self, layer: Any) -> dict[str, Any]:
        if isinstance(layer, KernelHeads):
            return {"omega": layer.omega, "mu": layer.mu}
        d, n = layer.dim, layer.n_outputs
        kq, ov = layer.kq, layer.ov
        diagonal = jnp.diagonal(kq[:, :d, :d], axis1=1, axis2=2)
        omega = diagonal.mean(-1)
        # masks, not differences of sums: those cancel
        rest = jnp.where(jnp.eye(d + n, d, dtype=bool), 0.0, kq[:, :, :d])
        mu = jnp.diagonal(ov[:, d:, d:], axis1=1, axis2=2)
        ov_rest = jnp.where(jnp.eye(n, d + n, d, dtype=bool), 0.0, ov[:, d:, :])
        found = {
            "omega": omega,
            "omega_spread": jnp.sqrt(jnp.mean((diagonal - omega[:, None]) ** 2, -1)),
            "off_diagonal": jnp.sqrt(jnp.sum(rest**2, (1, 2)) / (d * (d + n - 1) or 1)),
            "mu": mu[:, 0] if n == 1 else mu,
            "ov_rest": jnp.sqrt(jnp.sum(ov_rest**2, (1, 2)) / (n * (d + n - 1) or 1)),
        }
        return found | ({"kq": kq, "ov": ov} if self.matrices else {})


def default_measure(layer: Any) -> CircuitMeasure | None:
    """What `train` records of a layer unasked: its circuits, where it has some."""
    return CircuitMeasure() if isinstance(layer, AttentionLayer | KernelHeads) else None


def tail_average(history: xarray.Dataset, fraction: float = 0.1) -> xarray.Dataset:
    """Means of a history over its saved steps in the last `fraction` of training.

    With a constant learning rate the weights jitter about where they have settled, and one
    snapshot with them. The average is over saved steps: save often enough that some ten of them, or
    better hundred, fall into the tail. The risk is on the same test prompts at all saved steps, so
    that the mean of `risk_error` is the standard error of the mean `risk`.

    **Returns:** a dataset without `step`; the attribute `saved_steps` counts what was averaged.
    Raises `InvalidArgument` for `fraction` outside of (0, 1] or a history without `step`.
    """
    fraction = check_real("fraction", fraction, low=0.0, low_open=True, high=1.0)
    if "step" not in getattr(history, "dims", ()):
        raise InvalidArgument("history", type(history).__name__, "a dataset with dimension step")
    steps = history["step"].values
    tail = history.isel(step=steps >= (1 - fraction) * steps[-1])
    moving = [name for name in tail.data_vars if "step" in tail[name].dims]
    means = tail[moving].mean("step", keep_attrs=True)
    kept = tail.drop_vars([*moving, "step"])
    return means.merge(kept).assign_attrs(history.attrs, saved_steps=int(tail.sizes["step"]))
