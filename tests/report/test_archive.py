"""The archive holds everything behind a report, and the page can be made again from it alone."""

import hashlib
import html
import json
import re
import struct
import warnings
import zipfile

import pytest

from attnlab import claims, records
from attnlab.errors import InvalidArgument
from attnlab.report import archive as archive_module
from attnlab.report import build_report, from_archive, rebuild

MANIFEST = "MANIFEST.sha256"


def contents(path, page=False):
    """The files in a zip, without the page, which nothing is made of and which is large."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if page or name != "report.html"]
        return {name: archive.read(name) for name in names}


def unpacked(path, folder):
    """Records and the rest of an archive, as files."""
    for name, data in contents(path).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write(path, files, listed=None):
    """A zip of `files` whose manifest fits `listed` (default: the files themselves)."""
    listed = {k: v for k, v in (listed or files).items() if k != MANIFEST}
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in listed.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, MANIFEST: "".join(lines).encode()}.items():
            archive.writestr(name, data)
    return path


def refused(path, words, tmp_path):
    with pytest.raises(InvalidArgument, match=words):
        rebuild(path, tmp_path / "no.html")
    assert not (tmp_path / "no.html").exists()


def test_everything_behind_the_page_is_in_it(finished, tmp_path):
    page, path, _ = finished
    files = contents(path, page=True)
    assert sorted(files) == [
        MANIFEST,
        "README.md",
        "configuration.json",
        "environment/provenance.json",
        "environment/requirements.txt",
        "figures/doe2027/descent.json",
        "figures/doe2027/descent.pdf",
        "records/doe2027/blank.nc",
        "records/doe2027/descent.nc",
        "report.html",
        "report.json",
        "verdicts.json",
    ]
    assert files["report.html"] == page.read_bytes()
    for line in files[MANIFEST].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
    assert files["figures/doe2027/descent.pdf"].startswith(b"%PDF")
    configuration = json.loads(files["configuration.json"])
    assert (configuration["preset"], configuration["seed"]) == ("quick", 0)
    assert configuration["papers"] == ["doe2027"]
    assert configuration["experiments"]["doe2027/descent"] == {"seed": 0, "steps": 50}
    provenance = json.loads(files["environment/provenance.json"])
    assert {"git", "packages", "jax", "started"} <= set(provenance)
    requirements = files["environment/requirements.txt"].decode()
    assert f"numpy=={provenance['packages']['numpy']}\n" in requirements
    assert "attnlab==" not in requirements  # it is told by its revision
    assert "attnlab report doe2027 --preset quick --seed 0" in files["README.md"].decode()
    record = tmp_path / "descent.nc"
    record.write_bytes(files["records/doe2027/descent.nc"])
    assert records.config_of(records.load(record)) == {"seed": 0, "steps": 50}
    (tmp_path / "verdicts.json").write_bytes(files["verdicts.json"])
    assert len(claims.load_verdicts(tmp_path / "verdicts.json")) == 4
    # tracebacks, here as in the page, do not tell where their author keeps things
    assert str(page.parent) not in " ".join(
        data.decode() for name, data in files.items() if not name.endswith((".nc", ".pdf"))
    )


def test_the_same_report_gives_the_same_bytes(finished, tmp_path):
    _, path, _ = finished
    report, folder = from_archive.read_archive(path), unpacked(path, tmp_path)
    written = [
        archive_module.write_archive(report, "page", folder, tmp_path / name)
        for name in ("one.zip", "two.zip")
    ]
    assert written[0].read_bytes() == written[1].read_bytes()
    first, second = contents(path), contents(written[0])
    numbers = "figures/doe2027/descent.json"
    assert {name for name in first if first[name] != second[name]} <= {MANIFEST, numbers}
    assert json.loads(first[numbers]) == json.loads(second[numbers])  # 1 against 1.0
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == sorted(archive.namelist())
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_page_is_made_again_without_the_paper(finished, tmp_path):
    page, path, _ = finished
    again = rebuild(path, tmp_path / "deep").read_text(encoding="utf-8")
    assert (tmp_path / "deep" / "report.html").exists()
    assert "Rebuilt from the archive <code>a.zip</code>" in again
    assert "Nothing was computed" in again

    def same(text):
        """Without what tells that it was rebuilt, and where a record lies."""
        text = re.sub(r'<p class="rebuilt">.*?</p>\n', "", text)
        text = text.replace("for the original page", "for this page")
        return re.sub(r"record <code>.*?</code>", "", text)

    original = page.read_text(encoding="utf-8")
    assert same(again) == same(original)
    assert "record <code>records/doe2027/descent.nc</code>" in again


def test_rebuilding_computes_nothing(finished, tmp_path, monkeypatch):
    def computed(*_, **__):
        raise AssertionError("computed")

    monkeypatch.setattr("attnlab._core.workers.run_jobs", computed)
    monkeypatch.setattr("attnlab.records.provenance", computed)
    monkeypatch.setattr("attnlab._core.workers.resolve", computed)
    rebuild(finished[1], tmp_path / "again.html")


def test_a_file_that_is_no_archive_is_refused(finished, tmp_path):
    _, path, _ = finished
    data = path.read_bytes()
    refused(tmp_path / "absent.zip", "an existing file", tmp_path)
    for name, damaged in {
        "empty.zip": b"",
        "text.zip": b"not a zip",
        "half.zip": data[: len(data) // 2],
        "tail.zip": data[:-1],
        "flipped.zip": data[: len(data) // 3]
        + bytes([data[len(data) // 3] ^ 1])
        + data[len(data) // 3 + 1 :],
    }.items():
        (tmp_path / name).write_bytes(damaged)
        refused(tmp_path / name, "archive = .*zip", tmp_path)
    write(tmp_path / "other.zip", {"a.txt": b"a"})
    refused(tmp_path / "other.zip", "with a report.json", tmp_path)
    with zipfile.ZipFile(tmp_path / "bare.zip", "w") as archive:
        archive.writestr("report.json", "{}")
    refused(tmp_path / "bare.zip", f"with a {MANIFEST}", tmp_path)


def test_files_must_be_those_of_the_manifest(finished, tmp_path):
    files = contents(finished[1])
    bad = tmp_path / "bad.zip"
    changed = {**files, "verdicts.json": files["verdicts.json"].replace(b"confirmed", b"disproved")}
    refused(write(bad, changed, files), "the checksum of verdicts.json is another", tmp_path)
    fewer = {name: data for name, data in files.items() if not name.endswith("descent.nc")}
    refused(write(bad, fewer, files), "descent.nc is missing", tmp_path)
    refused(write(bad, {**files, "x": b""}, files), "x is not in its manifest", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile says that the name is there already
        write(bad, files)
        with zipfile.ZipFile(bad, "a") as archive:
            archive.writestr("report.json", files["report.json"])
    refused(bad, "report.json .*there twice", tmp_path)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "..\\x", "C:x", "a//b", "a/./b", "a\nb", "folder/"]
)
def test_names_that_lead_out_of_it_are_refused(finished, tmp_path, name):
    files = {"report.json": b"{}", name: b"x"}
    refused(write(tmp_path / "bad.zip", files), "a plain path inside it", tmp_path)


def test_links_are_refused(tmp_path):
    path = write(tmp_path / "bad.zip", {"report.json": b"{}"})
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    refused(path, "plain files", tmp_path)


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = write(tmp_path / "bomb.zip", {"zeros": bytes(5_000_000)})
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(from_archive, "LARGEST", 1_000_000)
    refused(path, "at most 1000000 bytes", tmp_path)
    # one that lies about its size: no more than it declares is unpacked, and the sum is another
    data = path.read_bytes().replace(struct.pack("<L", 5_000_000), struct.pack("<L", 1000))
    path.write_bytes(data)
    refused(path, "archive = ", tmp_path)
    monkeypatch.setattr(from_archive, "MOST", 1)
    refused(path, "in 1 files", tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(from_archive, "_TEXT_LIMIT", 10)
    refused(write(path, {"report.json": b'{"format": 1}'}), "texts have at most 10", tmp_path)


def test_well_formed_nonsense_is_refused(finished, tmp_path):
    files = contents(finished[1])
    bad = tmp_path / "bad.zip"

    def with_changes(name, change):
        document = json.loads(files[name])
        change(document)
        return write(bad, {**files, name: json.dumps(document).encode()})

    for name, change, words in (
        ("report.json", lambda d: d.update(format=99), "format 1"),
        ("report.json", lambda d: d.pop("chapters"), "KeyError: 'chapters'"),
        ("report.json", lambda d: d.update(chapters=3), "TypeError"),
        ("report.json", lambda d: d["chapters"][0]["claims"].append("a/b"), "KeyError: 'a/b'"),
        ("report.json", lambda d: d["chapters"][0]["paper"].update(x=1), "TypeError"),
        ("verdicts.json", lambda d: d["verdicts"][0].pop("checks"), "as attnlab writes it"),
        ("verdicts.json", lambda d: d["verdicts"][0].update(seconds="soon"), "attnlab wrote"),
        ("verdicts.json", lambda d: d["verdicts"][-1].update(verdict="inconclusive"), "rules of"),
        ("figures/doe2027/descent.json", lambda d: d.update(columns="2"), "figure.columns"),
        ("environment/provenance.json", lambda d: d.clear(), "attnlab wrote"),
    ):
        refused(with_changes(name, change), words, tmp_path)
    write(bad, {**files, "report.json": b"[" * 100_000})
    refused(bad, "attnlab wrote", tmp_path)
    # texts are shown as texts
    evil = "<script>alert(1)</script>"
    path = with_changes("report.json", lambda d: d["chapters"][0]["paper"].update(title=evil))
    text = rebuild(path, tmp_path / "evil.html").read_text(encoding="utf-8")
    assert evil not in text
    assert html.escape(evil) in text


def test_bad_arguments_are_refused_before_anything_runs(doe, tmp_path):
    (tmp_path / "file").write_text("")
    for archive in (tmp_path / "a.tar", tmp_path / "file" / "a.zip", tmp_path):
        with pytest.raises(InvalidArgument, match="archive"):
            build_report(tmp_path, papers=[doe.EVERYTHING], archive=archive)
    assert doe.runs() == []


def test_what_could_not_be_read_again_is_not_written(finished, tmp_path, monkeypatch):
    _, path, _ = finished
    report = from_archive.read_archive(path)
    monkeypatch.setattr(archive_module, "LARGEST", 1000)
    folder = unpacked(path, tmp_path)
    with pytest.raises(InvalidArgument, match="fewer papers"):
        archive_module.write_archive(report, "", folder, tmp_path / "b.zip")
    assert not list(tmp_path.glob("*b.zip*"))


def test_what_json_grows_to_is_bounded_before_it_is_parsed(finished, tmp_path, monkeypatch):
    files = contents(finished[1])
    bad = tmp_path / "bad.zip"
    document = json.loads(files["report.json"])
    nested = json.dumps(document | {"more": [[]] * 200_000})
    write(bad, {**files, "report.json": nested.encode()})
    rebuild(bad, tmp_path / "page.html")
    monkeypatch.setattr(from_archive, "_VALUES", 100_000)
    refused(bad, "100000 values in all", tmp_path)
    write(bad, files)
    rebuild(bad, tmp_path / "page.html")
    monkeypatch.setattr(from_archive, "_ALL_TEXT", 5000)  # each file is small, all are not
    refused(bad, "5000 bytes", tmp_path)
