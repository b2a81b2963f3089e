"""A wrong risk of overlaps, for mutations of claims about risks: off by a factor, or without symmetry."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..theory import SingleLocationRisk
from ..theory.setting import Components


class WrongRisk(SingleLocationRisk):
    """`times · R + tilt · ρ` of a right risk `R`."""

    method: ClassVar[str] = "closed form"
    right: SingleLocationRisk
    times: Any
    tilt: Any
    scale: Any

    def components_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Components:
        return Components(*(self.times * part for part in self.right.components_of(state, scale)))

    def value_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return self.times * self.right.value_of(state, scale) + self.tilt * state[..., 4]

    def gradient_of(
        self, state: Float[Array, "*runs 5"], scale: Any = None
    ) -> Float[Array, "*runs 5"]:
        slope = self.tilt * jnp.array([0.0, 0.0, 0.0, 0.0, 1.0])
        return self.times * self.right.gradient_of(state, scale) + slope

    def error_of(self, state: Float[Array, "*runs 5"], scale: Any = None) -> Float[Array, "*runs"]:
        return self.right.error_of(state, scale)

    def with_scale(self, scale: Any) -> WrongRisk:
        return wrong_risk(self.right.with_scale(scale), self.times, self.tilt)


def wrong_risk(right: SingleLocationRisk, times: Any = 1.0, tilt: Any = 0.0) -> WrongRisk:
    """The wrong version of a risk."""
    return WrongRisk(right=right, times=times, tilt=tilt, scale=right.scale)
