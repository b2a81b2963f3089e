"""Finished results beside the report, found again by their content.

A result is filed under a digest of everything that it depends on: the configuration or claim, the
preset and seed, the source code behind it and the versions of the numerical libraries. The same
question asked again is looked up; anything changed is computed anew. Files are written whole, so a
run that was killed leaves its finished parts for the next.

    report-records/
        marion2025/gd-manifold/<digest>/...nc      records of experiments
        marion2025/claims/<claim>-<digest>.json    verdicts
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import claims, records
from .._core.errors import InvalidArgument

if TYPE_CHECKING:
    import xarray

# Rooms that draw and report, and whose changes leave every result as it is.
_NOT_BEHIND_RESULTS = ("plotting", "report", "cli")
_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "optax", "diffrax", "optimistix")
_DIGITS = 16


@dataclass(frozen=True)
class Entry:
    """A stored result: `kind` is "experiment" or "verdict"; `size` in bytes."""

    kind: str
    id: str
    path: Path
    size: int


class Store:
    """The folder of results of one report.

    The digest of the source code is taken once, when it is first needed: make a new `Store` to see
    changed code.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        self.directory = records.checked_path(directory, "directory")
        self._sources: dict[tuple[str, str], str] = {}

    def experiment_folder(self, id: str, config: Mapping[str, Any], module: str) -> Path:
        """Where the record of an experiment with this configuration belongs."""
        paper, _, name = id.partition("/")
        digest = self._digest({"experiment": id, "config": config}, paper, module)
        return self.directory / paper / name / digest

    def load_record(
        self, folder: Path, config: Mapping[str, Any] | None = None
    ) -> xarray.Dataset | None:
        """The finished record in such a folder; None when there is none, or it is damaged.

        With a `config` it has to have the provenance of a finished run with these settings.
        """
        for path in sorted(folder.glob("*.nc")):
            if path.name.endswith(".partial.nc"):
                continue
            try:
                dataset = records.load(path)
                if config is not None:
                    _check_provenance(dataset, config, path)
                return dataset
            except InvalidArgument as error:
                _tell_damaged(path, error)
                discard(path)
        return None

    def load_verdict(self, claim: claims.Claim, preset: str, seed: int) -> claims.Verdict | None:
        """The stored verdict on a claim; None when there is none, or it is damaged."""
        path = self.verdict_path(claim, preset, seed)
        if not os.path.lexists(path):
            return None
        try:
            (verdict,) = claims.load_verdicts(path)
            if (verdict.id, verdict.preset, verdict.seed) != (claim.key, preset, seed):
                raise InvalidArgument("verdict", verdict.id, f"that on {claim.key}")
        except ValueError as error:
            _tell_damaged(path, error)
            discard(path)
            return None
        return verdict.with_claim(claim)  # its texts may have been reworded since

    def save_verdict(self, verdict: claims.Verdict) -> None:
        """Files a verdict; one that failed to run, or lacked something, is not kept, so that it is
        tried again."""
        if verdict.failed is None and verdict.missing is None:
            path = self.verdict_path(verdict.claim, verdict.preset, verdict.seed)
            claims.save_verdicts([verdict], path)

    def entries(self) -> list[Entry]:
        """The results, finished ones only; `stored.inspect` tells more."""
        found = []
        for path in sorted(self.directory.glob("*/*/*/*.nc")):
            if path.name.endswith(".partial.nc"):
                continue
            paper, name = path.parts[-4], path.parts[-3]
            found.append(Entry("experiment", f"{paper}/{name}", path, path.lstat().st_size))
        for path in sorted(self.directory.glob("*/claims/*.json")):
            name = path.stem[: -_DIGITS - 1]
            found.append(Entry("verdict", f"{path.parts[-3]}/{name}", path, path.lstat().st_size))
        return found

    def clear(self) -> None:
        """Removes all stored results, and what killed runs have left of some."""
        from .stored import clear

        clear(self)

    def verdict_path(self, claim: claims.Claim, preset: str, seed: int) -> Path:
        """Where the verdict on a claim belongs."""
        question = {"claim": claim.key, "preset": preset, "seed": seed}
        digest = self._digest(question, claim.paper, module_of(claim.check))
        return self.directory / claim.paper / "claims" / f"{claim.id}-{digest}.json"

    def _digest(self, question: Mapping[str, Any], paper: str, module: str) -> str:
        outside = module.partition(".")[0]
        everything = {
            **question,
            "attnlab": self._source("attnlab", paper),
            "outside": "" if outside == "attnlab" else self._source(outside, ""),
            "libraries": {name: _version(name) for name in _LIBRARIES},
            "python": platform.python_version(),
            "environment": {k: v for k, v in os.environ.items() if k.startswith(("JAX_", "XLA_"))},
        }
        text = json.dumps(everything, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def _source(self, package: str, paper: str) -> str:
        key = (package, paper)
        if key not in self._sources:
            self._sources[key] = source_digest(package, paper)
        return self._sources[key]


def discard(path: Path) -> None:
    """Removes what is in the way of a result, whatever it is; nothing happens when it is gone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _check_provenance(dataset: xarray.Dataset, config: Mapping[str, Any], path: Path) -> None:
    provenance = records.provenance_of(dataset)
    if provenance.get("partial") or provenance["config"] != config:
        raise InvalidArgument(
            "record", str(path), "of a finished run with the settings of its folder"
        )


def _tell_damaged(path: Path, error: ValueError) -> None:
    reason = " ".join(str(getattr(error, "allowed", error)).split())
    logging.getLogger(__name__).warning(
        f"{path} is damaged and is computed anew (it should be {reason})"[:300]
    )


def page_path(out: str | os.PathLike[str]) -> Path:
    """The file of a page: `out`, or `report.html` in it when it has another suffix."""
    path = records.checked_path(out)
    return path if path.suffix.lower() in (".html", ".htm") else path / "report.html"


def store_directory(out: str | os.PathLike[str]) -> Path:
    """Where the results of the report `out` are kept: `<name>-records` beside the page."""
    path = page_path(out)
    return path.with_name(path.stem + "-records")


def module_of(function: str | Callable[..., Any] | None) -> str:
    """The module that a function or a reference `"module:name"` belongs to."""
    if isinstance(function, str):
        return function.partition(":")[0]
    return getattr(function, "__module__", "") or ""


def source_digest(package: str, paper: str = "") -> str:
    """Digest of the Python source of a top-level package or module; empty when it has none.

    Of attnlab itself only what stands behind results counts: not the rooms that draw, and of the
    papers only `paper`, the framework and helpers they share.
    """
    spec = importlib.util.find_spec(package) if package and package != "__main__" else None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    origin = Path(spec.origin)
    root = origin.parent
    files = sorted(root.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    digest = hashlib.sha256()
    for path in files:
        parts = path.relative_to(root).parts
        if package == "attnlab" and not _is_behind(parts, paper):
            continue
        digest.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _is_behind(parts: tuple[str, ...], paper: str) -> bool:
    if parts[0] in _NOT_BEHIND_RESULTS:
        return False
    if parts[0] == "papers" and len(parts) > 1:
        name = parts[1].removesuffix(".py")
        return name.startswith("_") or name == paper
    return True


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
