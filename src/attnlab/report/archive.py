"""One zip with everything behind a report, made to be published beside a paper.

The same report gives the same bytes: entries are sorted and carry no time of their own. Each file
stands in the manifest with its SHA-256, in the form that `sha256sum -c` reads. `from_archive` makes
the page again from it, without computing anything.

    MANIFEST.sha256   README.md   report.html
    report.json                       what the page says, apart from the verdicts and figures
    verdicts.json                     claims, checks with measured and stated values, verdicts
    configuration.json                preset, seed, papers, the settings of each experiment
    environment/provenance.json       versions, device, precision, git revision, times
    environment/requirements.txt      every installed distribution with its version
    records/<paper>/<name>.nc         the data of each experiment
    figures/<paper>/<name>.pdf .json  the figure, and the numbers that it shows
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import claims, records
from .._core.errors import InvalidArgument
from .._core.files import replacing
from .._version import __version__
from .content import Chapter, ExperimentResult, Report
from .page import short_paths

FORMAT = 1
MANIFEST = "MANIFEST.sha256"
LARGEST, MOST = 4 * 2**30, 10_000  # bytes when unpacked, and files: more is not an archive of ours
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_PIECE = 2**20

_README = """\
# A report of attnlab, with everything behind it

{claims} claims and {experiments} experiments of {papers}: preset {preset}, seed {seed},
computed by attnlab {version}{revision} from {started} on.

- `report.html`: the page, readable without a network.
- `verdicts.json`: each claim with its checks, measured and stated values, and the verdict.
- `records/`: the data of each experiment (netCDF-4 with its own provenance); the page names them by
  where they lay beside it.
- `figures/`: each figure as PDF, and the numbers that it shows as JSON.
- `configuration.json`, `environment/`: the settings; versions, device, precision, git revision.
- `report.json`: what the page is made of besides.
- `MANIFEST.sha256`: SHA-256 of every file.

Check the files, after unpacking:

    sha256sum -c MANIFEST.sha256

Make the page again from this archive, without computing anything:

    attnlab report --from THIS.zip --out page.html

Compute everything again, with the versions of `environment/requirements.txt`:

    {command}

One experiment alone, compared with its record: `attnlab rerun records/PAPER/NAME.nc`.
"""


def archive_path(path: str | os.PathLike[str]) -> Path:
    """`path` as the name of an archive. Raises `InvalidArgument` unless it ends in `.zip`."""
    archive = records.checked_path(path, "archive")
    if archive.suffix.lower() != ".zip" or archive.is_dir():
        raise InvalidArgument("archive", str(path), "the name of a file that ends in .zip")
    return archive


def write_archive(report: Report, page: str, folder: Path, path: str | os.PathLike[str]) -> Path:
    """Writes the archive of a `report` whose HTML is `page`, whole or not at all.

    `folder` is what the paths of the records are relative to. Returns the path. Raises
    `InvalidArgument` when it would grow beyond `LARGEST`.
    """
    path = archive_path(path)
    content = dict(_content(report, page, folder))
    size = sum(c.stat().st_size if isinstance(c, Path) else len(c) for c in content.values())
    if size > LARGEST or len(content) >= MOST:
        allowed = f"for at most {LARGEST} bytes in {MOST} files; archive fewer papers at a time"
        raise InvalidArgument("archive", f"{size} bytes in {len(content)} files", allowed)
    sums = {checked_name(name): _sha256(part) for name, part in content.items()}
    lines = (f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    content[MANIFEST] = "".join(lines).encode()
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in sorted(content):
            _add(archive, name, content[name], sums.get(name))
    return path


def checked_name(name: str) -> str:
    """`name` if it names a file below the folder that an archive is unpacked into, on any system."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r'[\\:*?"<>|\x00-\x1f]', name):
        raise InvalidArgument("file in the archive", name, "a plain path inside it")
    return name


def command(report: Report) -> str:
    """The command that computes a report again."""
    keys = " ".join(chapter.paper.key for chapter in report.chapters)
    return f"attnlab report {keys} --preset {report.preset} --seed {report.seed}"


def _content(report: Report, page: str, folder: Path) -> Iterator[tuple[str, bytes | Path]]:
    yield "report.html", page.encode()
    yield "README.md", _readme(report).encode()
    yield "report.json", _json(_document(report))
    yield "verdicts.json", _verdicts(report)
    settings = {
        result.experiment.id: result.provenance.get("config")
        for result in report.experiments
        if result.record is not None
    }
    configuration = {
        "command": command(report),
        "preset": report.preset,
        "seed": report.seed,
        "papers": [chapter.paper.key for chapter in report.chapters],
        "experiments": settings,
    }
    yield "configuration.json", _json(configuration)
    yield "environment/provenance.json", _json(report.provenance)
    yield "environment/requirements.txt", _requirements(report).encode()
    for result in report.experiments:
        if result.record is not None:
            yield _record_name(result), folder / result.record
        if result.figure is not None:
            yield from _figure(result)


def _record_name(result: ExperimentResult) -> str:
    return f"records/{result.experiment.id}.nc"


def _figure_name(result: ExperimentResult) -> str:
    return f"figures/{result.experiment.id}"


def _figure(result: ExperimentResult) -> Iterator[tuple[str, bytes]]:
    from ..plotting.matplotlib_renderer import save_figure

    with tempfile.TemporaryDirectory() as folder:
        stem = Path(folder) / "figure"
        assert result.figure is not None
        save_figure(result.figure, stem, kinds=("pdf", "json"))
        for kind in ("pdf", "json"):
            yield f"{_figure_name(result)}.{kind}", stem.with_name(f"figure.{kind}").read_bytes()


def _document(report: Report) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "attnlab": __version__,
        "preset": report.preset,
        "seed": report.seed,
        "seconds": report.seconds,
        "stored_verdicts": sorted(report.stored_verdicts),
        "chapters": [_chapter(chapter) for chapter in report.chapters],
    }


def _chapter(chapter: Chapter) -> dict[str, Any]:
    paper = chapter.paper
    return {
        "paper": {
            "key": paper.key,
            "title": paper.title,
            "authors": list(paper.authors),
            "year": paper.year,
            "bibtex": paper.bibtex,
        },
        "claims": [verdict.id for verdict in chapter.verdicts],
        "experiments": [_experiment(result) for result in chapter.experiments],
        "error": chapter.error,
    }


def _experiment(result: ExperimentResult) -> dict[str, Any]:
    experiment = result.experiment
    texts = ("id", "title", "summary", "source", "expected")
    return {
        **{name: getattr(experiment, name) for name in texts},
        "figure": None if result.figure is None else f"{_figure_name(result)}.json",
        "record": None if result.record is None else _record_name(result),
        "error": result.error,
        "details": short_paths(result.details),
        "seconds": result.seconds,
        "stored": result.stored,
        "provenance": dict(result.provenance),
    }


def _verdicts(report: Report) -> bytes:
    shown = [replace(v, details=short_paths(v.details)) for v in report.verdicts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts.json"
        provenance = dict(report.provenance)
        return claims.save_verdicts(shown, path, provenance=provenance).read_bytes()


def _readme(report: Report) -> str:
    git = report.provenance.get("git") or {}
    return _README.format(
        claims=len(report.verdicts),
        experiments=len(report.experiments),
        papers=", ".join(chapter.paper.key for chapter in report.chapters),
        preset=report.preset,
        seed=report.seed,
        version=report.provenance["attnlab"],
        revision=f", git revision {git['revision']}" if git else "",
        started=report.provenance["started"],
        command=command(report),
    )


def _requirements(report: Report) -> str:
    """The installed distributions as `pip freeze` lists them; attnlab itself by its revision."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if name and name != "attnlab":
            found.setdefault(name, distribution.version)  # the first on the path is the one in use
    git = report.provenance.get("git") or {}
    lines = [f"# Python {report.provenance['python']} on {report.provenance['platform']}"]
    lines.append(f"# attnlab {report.provenance['attnlab']}, git revision {git.get('revision')}")
    lines += [f"{name}=={version}" for name, version in sorted(found.items())]
    return "\n".join(lines) + "\n"


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


@contextmanager
def _opened(part: bytes | Path) -> Iterator[Any]:
    with io.BytesIO(part) if isinstance(part, bytes) else open(part, "rb") as file:
        yield file


def _sha256(part: bytes | Path) -> str:
    with _opened(part) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(archive: zipfile.ZipFile, name: str, part: bytes | Path, expected: str | None) -> None:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
    info.external_attr = 0o100644 << 16
    digest = hashlib.sha256()
    with _opened(part) as source, archive.open(info, "w", force_zip64=True) as target:
        while piece := source.read(_PIECE):
            digest.update(piece)
            target.write(piece)
    if expected is not None and digest.hexdigest() != expected:
        raise InvalidArgument("archive", name, "of files that nobody else writes meanwhile")
