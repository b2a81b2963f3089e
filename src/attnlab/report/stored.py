"""What a store holds: each result with its size and age, and whether today's code would use it.

A result is *valid* when the same question asked now would find it: its digest is that of today's
code, libraries and settings. Otherwise it is *stale*: the code has changed since, or its paper is
gone. Killed runs leave partial records, checkpoints and half-written files, which no report takes
for results. Whatever else lies in the folder is neither listed nor removed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import claims, records
from .._core.errors import InvalidArgument
from ..claims.registry import claims_of
from ..papers import Experiment, Paper, all_papers
from .store import Store, discard, module_of

_IN_USE = 3600.0  # seconds for which a half-written file may belong to a run that still goes on


@dataclass(frozen=True)
class Stored:
    """A file in a store.

    **Fields:** `kind`: "experiment", "verdict" or "unfinished"; `id`: `paper/name`; `path`; `size`
    in bytes; `age` in seconds; `state`: "valid", "stale", "damaged", or "left over" by a run that
    was killed.
    """

    kind: str
    id: str
    path: Path
    size: int
    age: float
    state: str


def inspect(store: Store, *, papers: Iterable[Paper] | None = None) -> list[Stored]:
    """Everything in a store, ordered by paper, kind and name.

    `papers` are those whose results can be valid; None is all that `attnlab list` shows.
    """
    found = []
    known = _Known(store, all_papers() if papers is None else papers)
    for entry in store.entries():
        state = known.verdict if entry.kind == "verdict" else known.experiment
        try:
            found.append((entry.kind, entry.id, entry.path, state(entry.id, entry.path)))
        except Exception:  # whatever a damaged file brings about: it can still be cleared
            found.append((entry.kind, entry.id, entry.path, "damaged"))
    found += [("unfinished", id_, path, "left over") for id_, path in _unfinished(store.directory)]
    now = time.time()
    stored = []
    for kind, id_, path, state_ in found:
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile: a run has finished it
            about = path.lstat()
            age = max(0.0, now - about.st_mtime)
            stored.append(Stored(kind, id_, path, about.st_size, age, state_))
    return sorted(stored, key=lambda s: (s.id.partition("/")[0], s.kind, s.id, s.age))


def clear(
    store: Store,
    ids: Iterable[str] | None = None,
    *,
    stale: bool = False,
    papers: Iterable[Paper] | None = None,
) -> tuple[Stored, ...]:
    """Removes results and returns what was removed.

    **Arguments:** `ids`: papers, or experiments and claims (`paper/name`); None is everything;
    `stale`: only what no report would use any more: stale and damaged results, and what killed runs
    left an hour ago or earlier (younger files may belong to a run that still goes on); `papers`: as
    in `inspect`.

    Raises `InvalidArgument` for an id of which nothing is stored; then nothing is removed.
    """
    everything = inspect(store, papers=papers)
    chosen = everything if ids is None else select(everything, ids)
    if stale:
        chosen = [item for item in chosen if _is_useless(item)]
    for item in chosen:
        discard(item.path)
    if len(chosen) == len(everything):
        discard(store.directory / "verdicts.json")  # of results that are gone
    folders = [path for path in store.directory.rglob("*") if path.is_dir()]
    for folder in [*sorted(folders, reverse=True), store.directory]:  # inner ones first
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()
    return tuple(chosen)


def select(items: Sequence[Stored], ids: str | Iterable[str]) -> list[Stored]:
    """Those of these papers or ids. Raises `InvalidArgument` for an id of which there is nothing."""
    wanted = [ids] if isinstance(ids, str) else list(ids)
    for id_ in wanted:
        if not any(_is(item, id_) for item in items):
            there = sorted({item.id.partition("/")[0] for item in items})
            allowed = f"one of which something is stored ({', '.join(there) or 'nothing is'})"
            raise InvalidArgument("id", id_, allowed)
    return [item for item in items if any(_is(item, id_) for id_ in wanted)]


def _is(item: Stored, id_: str) -> bool:
    return id_ in (item.id, item.id.partition("/")[0])


def _is_useless(item: Stored) -> bool:
    if item.state == "left over":
        return item.age >= _IN_USE
    return item.state != "valid"


def _unfinished(top: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(top.glob("*/*/*/*.partial.nc")):
        yield "/".join(path.parts[-4:-2]), path
    for path in sorted(top.glob("*/*/*/.checkpoints/*/*.npz")):
        yield "/".join(path.parts[-6:-4]), path
    for path in sorted(top.rglob(".*.tmp")):
        parts = path.relative_to(top).parts
        name = parts[1] if len(parts) > 2 else path.name
        yield (f"{parts[0]}/{name}" if len(parts) > 1 else path.name), path


class _Known:
    """Whether a report would find a result today."""

    def __init__(self, store: Store, papers: Iterable[Paper]):
        self.store = store
        self.experiments: dict[str, Experiment] = {}
        self.claims: dict[str, claims.Claim] = {}
        for paper in papers:
            self.experiments |= {experiment.id: experiment for experiment in paper.experiments}
            with contextlib.suppress(Exception):  # claims that cannot be read: nothing of theirs
                self.claims |= {claim.key: claim for claim in claims_of(paper)}

    def experiment(self, id_: str, path: Path) -> str:
        try:
            config = records.config_of(records.load(path))
        except InvalidArgument:
            return "damaged"
        experiment = self.experiments.get(id_)
        if experiment is None:
            return "stale"
        folder = self.store.experiment_folder(id_, config, module_of(experiment.run))
        return "valid" if folder == path.parent else "stale"

    def verdict(self, id_: str, path: Path) -> str:
        try:
            (verdict,) = claims.load_verdicts(path)
        except (InvalidArgument, ValueError):
            return "damaged"
        claim = self.claims.get(id_)
        if claim is None:
            return "stale"
        expected = self.store.verdict_path(claim, verdict.preset, verdict.seed)
        return "valid" if expected == path else "stale"
