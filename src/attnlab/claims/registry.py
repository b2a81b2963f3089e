"""Where the claims are: those of the papers, and those registered by hand."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .._core.errors import InvalidArgument, check_several
from .._core.workers import resolve
from .claim import Claim

# Papers stand to the right of this room, so none is imported here: a reference is looked up when the
# claims are asked for, and so are the papers' own references to their claims.
_PAPERS = "attnlab.papers:all_papers"
_REGISTERED: dict[str, Claim] = {}


def register(*claims: Claim) -> None:
    """Adds claims to those of the papers, for this process; an equal key replaces the earlier one."""
    for claim in claims:
        if not isinstance(claim, Claim):
            raise InvalidArgument("claim", claim, "a Claim")
        _REGISTERED[claim.key] = claim


def unregister(*keys: str) -> None:
    """Takes registered claims (`paper/id`) out again."""
    for key in keys:
        _REGISTERED.pop(key, None)


def claims_of(paper: object) -> tuple[Claim, ...]:
    """Claims of a `Paper`: its `claims` are a tuple, or a reference `"module:NAME"` to one."""
    claims = getattr(paper, "claims", None) or ()
    if isinstance(claims, str):
        claims = resolve(claims)
    for claim in claims:
        if not isinstance(claim, Claim):
            raise InvalidArgument(f"claims of paper {getattr(paper, 'key', '?')}", claim, "a Claim")
    return tuple(claims)


def papers() -> tuple[object, ...]:
    """All papers, as `papers.all_papers()` lists them."""
    return tuple(resolve(_PAPERS)())


def all_claims() -> tuple[Claim, ...]:
    """All claims, papers in the order of `papers.all_papers()`, then the registered ones.

    Raises `InvalidArgument` when two claims of papers have one key.
    """
    found: dict[str, Claim] = {}
    for paper in papers():
        for claim in claims_of(paper):
            if claim.key in found:
                raise InvalidArgument("claim id", claim.key, "used once")
            found[claim.key] = claim
    return tuple((found | _REGISTERED).values())


def find(ids: str | Claim | Iterable[str | Claim] | None = None) -> tuple[Claim, ...]:
    """Claims of these ids, in the order of the registry: `"paper"` or `"paper/claim"`; None is all.

    `Claim` objects may be given as they are, registered or not. Raises `InvalidArgument` for an
    unknown id, with the nearest ones.
    """
    if ids is None:
        return all_claims()
    if isinstance(ids, str | Claim):
        given: list[str | Claim] = [ids]
    else:
        given = check_several("claim ids", ids, "an id, a Claim, or a list of them")
    own = {claim.key: claim for claim in given if isinstance(claim, Claim)}
    names = [name for name in given if not isinstance(name, Claim)]
    known = {claim.key: claim for claim in all_claims()} if names else {}
    chosen: dict[str, Claim] = {}
    for name in names:
        hits = [key for key, claim in known.items() if name in (key, claim.paper)]
        if not hits:
            options = [*known, *{claim.paper for claim in known.values()}]
            near = difflib.get_close_matches(str(name), options, n=3, cutoff=0.4)
            hint = f" (nearest: {', '.join(near)})" if near else ""
            raise InvalidArgument("claim id", name, f"a paper or a claim in `attnlab list`{hint}")
        chosen.update({key: known[key] for key in hits})
    ordered = {key: known[key] for key in known if key in chosen}
    return tuple((ordered | own).values())
