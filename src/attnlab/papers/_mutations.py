"""Short notation for the mutations of a paper."""

from __future__ import annotations

from ..claims.mutation import Expectation, Mutation
from ..claims.perturbations import Part, Perturbation, factor, power, sign


class Breaker:
    """Makes mutations of the claims of one paper.

    A target without a package, such as `"checks_risk:exact_risk"`, is a module of the paper's room.
    """

    def __init__(self, paper: str):
        self.paper = paper

    def __call__(
        self,
        claim: str,
        target: str,
        change: Perturbation,
        text: str,
        expects: Expectation | None = None,
    ) -> Mutation:
        """One mutation."""
        if "." not in target.partition(":")[0]:
            target = f"attnlab.papers.{self.paper}.{target}"
        return Mutation(f"{self.paper}/{claim}", target, change, text, expects)

    def thrice(
        self,
        claim: str,
        target: str,
        words: str,
        of: Part = None,
        *,
        without: tuple[str, ...] = (),
        expects: Expectation | None = None,
    ) -> tuple[Mutation, ...]:
        """A formula (`words` says which) doubled, with the other sign, and with the exponent 3/2;
        `without` those of "doubled", "other sign" and "exponent 3/2" that change nothing that the
        claim is about, or lead out of the numbers for which the formula has a meaning."""
        changes = {
            "doubled": factor(2, of),
            "other sign": sign(of),
            "exponent 3/2": power(1.5, of),
        }
        return tuple(
            self(claim, target, change, f"{words}: {text}", expects)
            for text, change in changes.items()
            if text not in without
        )
