"""The page made again from its archive: checked against the manifest, nothing computed.

An archive may come from anywhere. It is never unpacked; names, sizes and checksums of all files are
checked before one is read, and the page is made of texts and numbers only. The papers' code is not
needed: figures are drawn from their plotted numbers, verdicts follow from their checks.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import claims, records
from .._core.errors import InvalidArgument
from .._core.files import replacing
from ..claims.files import FORMAT as VERDICTS_FORMAT
from ..claims.files import verdict_from_dict
from ..papers import Experiment, Paper
from ..plotting.replot import figure_from_numbers
from .archive import FORMAT, LARGEST, MANIFEST, MOST, checked_name
from .content import Chapter, ExperimentResult, Report
from .page import render_page
from .store import page_path

_TEXT_LIMIT = 2**28  # bytes of one JSON file, which is read into memory
# of all JSON files that are read: bytes, and values, of which each takes about a hundred bytes then
_ALL_TEXT, _VALUES = 2**29, 2 * 10**7
_PIECE = 2**20
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError)
_NONSENSE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
_SYMLINK = 0o120000


def rebuild(archive: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Writes the page of the report in `archive` to `out`, without computing anything.

    It has the content of the original page, with the times of the original run, and says that it
    was rebuilt.

    **Arguments:** `archive`, a zip that `build_report(archive=...)` wrote; `out`, as in
    `build_report`.

    Returns the path of the page. Raises `InvalidArgument` when the archive is damaged, incomplete,
    changed, too large, of another format, or when `out` cannot be written; then nothing is written.
    """
    import jinja2

    path = page_path(out)
    report = read_archive(archive)
    records.writable_file(path)
    try:
        page = render_page(report)
    except (*_NONSENSE, jinja2.TemplateError) as error:
        raise _bad(archive, f"whose files attnlab wrote ({_short(error)})") from error
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def read_archive(archive: str | os.PathLike[str]) -> Report:
    """The report in an archive, its `archive` set. Raises `InvalidArgument` as `rebuild` does."""
    path = records.checked_path(archive, "archive")
    if not path.is_file():
        raise _bad(archive, "an existing file")
    try:
        with zipfile.ZipFile(path) as opened:
            _check(opened, archive)
            return replace(_report(_Reader(opened, archive)), archive=path.name)
    except InvalidArgument:
        raise
    except _NONSENSE as error:
        raise _bad(archive, f"whose files attnlab wrote ({_short(error)})") from error
    except _DAMAGED as error:
        raise _bad(archive, f"an undamaged zip ({_short(error)})") from error


def _bad(archive: str | os.PathLike[str], words: str) -> InvalidArgument:
    allowed = words if words.startswith("an ") else f"an archive of a report {words}"
    return InvalidArgument("archive", str(archive), allowed)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:160] if text else type(error).__name__


def _check(opened: zipfile.ZipFile, archive: str | os.PathLike[str]) -> None:
    """Names, sizes, and every byte against the manifest."""
    entries = opened.infolist()
    if len(entries) > MOST or sum(entry.file_size for entry in entries) > LARGEST:
        raise _bad(archive, f"of at most {LARGEST} bytes in {MOST} files")
    names = [checked_name(entry.filename) for entry in entries]
    for entry in entries:
        if (entry.external_attr >> 16) & 0o170000 == _SYMLINK or entry.flag_bits & 1:
            raise _bad(archive, f"of plain files (not {entry.filename})")
    if MANIFEST not in names:
        raise _bad(archive, f"with a {MANIFEST}")
    listed = _manifest(_bytes(opened, MANIFEST, archive), archive)
    there = sorted(name for name in names if name != MANIFEST)
    for name in sorted({*listed, *there}):
        if name not in listed or there.count(name) != 1:
            what = "is missing" if name not in there else "is not in its manifest, or there twice"
            raise _bad(archive, f"with just the files of its manifest ({name} {what})")
    for name in there:
        if _sha256(opened, name) != listed[name]:
            raise _bad(archive, f"as it was written (the checksum of {name} is another)")


def _manifest(data: bytes, archive: str | os.PathLike[str]) -> dict[str, str]:
    listed = {}
    for line in data.decode("utf-8").splitlines():
        digest, gap, name = line[:64], line[64:66], line[66:]
        if gap != "  " or not name or name in listed:
            raise _bad(archive, f"with one line 'checksum  name' a file in {MANIFEST}")
        listed[name] = digest
    return listed


def _sha256(opened: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with opened.open(name) as file:
        while piece := file.read(
            _PIECE
        ):  # in pieces: what a file unpacks to never fills the memory
            digest.update(piece)
    return digest.hexdigest()


def _bytes(opened: zipfile.ZipFile, name: str, archive: str | os.PathLike[str]) -> bytes:
    size = opened.getinfo(name).file_size
    if size > _TEXT_LIMIT:
        raise _bad(archive, f"whose texts have at most {_TEXT_LIMIT} bytes (not {name})")
    with opened.open(name) as file:
        return file.read(size + 1)


class _Reader:
    """JSON files of a checked archive."""

    def __init__(self, opened: zipfile.ZipFile, archive: str | os.PathLike[str]):
        self.opened, self.archive = opened, archive
        self._bytes = self._values = 0

    def json(self, name: str, format: int | None = None) -> Any:
        if name not in self.opened.namelist():
            raise _bad(self.archive, f"with a {name}")
        found = json.loads(self._counted(name))
        if format is not None and (not isinstance(found, dict) or found.get("format") != format):
            raise _bad(self.archive, f"whose {name} is of format {format}")
        return found

    def _counted(self, name: str) -> bytes:
        """The text of a file. A few bytes of it, such as `[],`, can become twenty times as many when
        it is parsed, so that the values are counted before: one for each comma and bracket."""
        data = _bytes(self.opened, name, self.archive)
        self._bytes += len(data)
        self._values += sum(data.count(mark) for mark in (b",", b"[", b"{"))
        if self._bytes > _ALL_TEXT or self._values > _VALUES:
            words = f"whose JSON files have at most {_ALL_TEXT} bytes and {_VALUES} values in all"
            raise _bad(self.archive, f"{words} (reached in {name})")
        return data


def _report(reader: _Reader) -> Report:
    document = reader.json("report.json", FORMAT)
    verdicts = {}
    for entry in reader.json("verdicts.json", VERDICTS_FORMAT)["verdicts"]:
        verdict = verdict_from_dict(entry)
        if verdict.verdict != entry["verdict"]:
            words = "whose verdicts follow from their checks by the rules of this version"
            raise _bad(reader.archive, f"{words} ({verdict.id} was {entry['verdict']})")
        verdicts[verdict.id] = verdict
    return Report(
        tuple(_chapter(chapter, verdicts, reader) for chapter in document["chapters"]),
        str(document["preset"]),
        int(document["seed"]),
        float(document["seconds"]),
        dict(reader.json("environment/provenance.json")),
        frozenset(document["stored_verdicts"]),
    )


def _chapter(
    data: Mapping[str, Any], verdicts: Mapping[str, claims.Verdict], reader: _Reader
) -> Chapter:
    described = data["paper"]
    return Chapter(
        Paper(**{**described, "authors": tuple(described["authors"])}),
        tuple(verdicts[key] for key in data["claims"]),
        tuple(_result(result, reader) for result in data["experiments"]),
        data["error"],
    )


def _result(data: Mapping[str, Any], reader: _Reader) -> ExperimentResult:
    texts = {name: data[name] for name in ("id", "title", "summary", "source", "expected")}
    # Described, not to be run: what it ran stays with the paper's own package.
    experiment = Experiment(
        **texts, config="", run="", figure=None, presets={"quick": {}, "paper": {}}
    )
    figure = data["figure"]
    return ExperimentResult(
        experiment,
        figure=None if figure is None else figure_from_numbers(reader.json(figure)),
        error=data["error"],
        details=data["details"],
        seconds=float(data["seconds"]),
        stored=bool(data["stored"]),
        record=None if data["record"] is None else Path(checked_name(data["record"])),
        provenance=dict(data["provenance"]),
    )
