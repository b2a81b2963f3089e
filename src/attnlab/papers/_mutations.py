"""Short notation for the mutations of a paper."""

from __future__ import annotations

from collections.abc import Callable

from ..claims.mutation import Expectation, Mutation
from ..claims.perturbations import Perturbation


def breaker(paper: str) -> Callable[..., Mutation]:
    """A function `(claim, target, change, text, expects=None) -> Mutation` for the claims of `paper`.

    A target without a package, such as `"checks_risk:exact_risk"`, is a module of the paper's room.
    """

    def broken(
        claim: str,
        target: str,
        change: Perturbation,
        text: str,
        expects: Expectation | None = None,
    ) -> Mutation:
        if "." not in target.partition(":")[0]:
            target = f"attnlab.papers.{paper}.{target}"
        return Mutation(f"{paper}/{claim}", target, change, text, expects)

    return broken
