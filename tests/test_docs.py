"""The manual: what docstrings cite exists, what it shows in Python runs, its pages are linked."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
matplotlib.use("Agg")


def pages():
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def python_blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


def test_every_theory_page_that_the_source_cites_exists():
    cited = {}
    for source in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"docs/theory/([\w-]+)", source.read_text(encoding="utf-8")):
            cited.setdefault(name, source.name)
    assert "pointwise-attention" in cited
    missing = {
        name: by for name, by in cited.items() if not (DOCS / "theory" / f"{name}.md").exists()
    }
    assert not missing


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/-]+)$", index, re.M))
    there = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md")} - {"index"}
    there = {name for name in there if not name.startswith("_build")}
    assert there <= listed
    assert {name for name in listed if "/" in name} <= there


def test_links_between_pages_lead_somewhere():
    for page in pages():
        for target in re.findall(
            r"\]\(([^)#:]+\.(?:md|png|cff))\)", page.read_text(encoding="utf-8")
        ):
            assert (page.parent / target).exists(), (page.name, target)


def test_code_of_the_theory_pages_names_what_exists():
    """`Code:` lines name modules and objects that can be imported."""
    import importlib

    for page in (DOCS / "theory").glob("*.md"):
        line = next(
            x for x in page.read_text(encoding="utf-8").splitlines() if x.startswith("*Code:*")
        )
        for name in re.findall(r"`(attnlab[\w.]*)`", line):
            parts = name.split(".")
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                parent = importlib.import_module(".".join(parts[:-1]))
                assert hasattr(parent, parts[-1]), (page.name, name)


_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def contradicted(told, printed):
    """The numbers of a comment that are not among the printed ones. `below x`: all printed ones are;
    powers of ten to a factor of 3, others to a unit of their last digit."""
    there = [float(x) for x in re.findall(_NUMBER, printed)]
    wrong = []
    for below, text in re.findall(rf"(below )?(?<![\w.^])({_NUMBER})", told):
        number = float(text)
        if below:
            good = bool(there) and there[-1] < number
        elif "e" in text:
            good = any(number / 3 < x < number * 3 for x in there)
        else:
            unit = 10.0 ** -len(text.partition(".")[2])
            good = any(abs(x - number) <= unit * (1 + 1e-9) for x in there)
        if not good:
            wrong.append(text)
    return wrong


def test_a_comment_that_says_another_number_is_noticed():
    assert not contradicted("quadrature 0.24324... 3e-13", "quadrature 0.2432436 2.6e-13")
    assert not contradicted("(4, 6, 6) each", "(4, 6, 6) (4, 6, 6)")
    assert contradicted("1.0 and the same signs", "[0.846]") == ["1.0"]
    assert contradicted("quadrature, error below 1e-12", "0.3 ± 1.29e-10") == ["1e-12"]


@pytest.mark.parametrize(
    "page", [p for p in pages() if python_blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_python_on_the_page_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "page"}  # one page, one namespace
    for block in python_blocks(page):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            exec(compile(ast.Module([statement], []), str(page), "exec"), space)
            shown = capsys.readouterr()
            assert shown.err == ""
            _, marked, told = lines[statement.end_lineno - 1].partition("  # ")
            if marked and lines[statement.lineno - 1].startswith("print("):
                assert not contradicted(told, shown.out), (told, shown.out)


def test_the_example_of_a_paper_is_complete(tmp_path, monkeypatch):
    """Its two files, installed: found through the entry point, run, checked and reported."""
    from typer.testing import CliRunner

    from attnlab import claims
    from attnlab.cli import app
    from attnlab.papers import all_papers

    text = (DOCS / "guides" / "extending.md").read_text(encoding="utf-8")
    (pyproject,) = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    (module,) = re.findall(r"^```python\n(# doe_attnlab.py\n.*?)^```", text, re.M | re.S)
    project = tomllib.loads(pyproject)["project"]
    points = project["entry-points"]["attnlab.papers"]
    site = tmp_path / "site"
    installed = site / "doe_attnlab-1.0.dist-info"
    installed.mkdir(parents=True)
    (site / "doe_attnlab.py").write_text(module, encoding="utf-8")
    (installed / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (installed / "entry_points.txt").write_text("[attnlab.papers]\n" + "".join(lines))
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    all_papers.cache_clear()
    try:
        (commands,) = re.findall(r"^```bash\n(attnlab list doe2027\n.*?)^```", text, re.M | re.S)
        for command in commands.splitlines():
            one_process = [] if " report " not in command else ["--processes", "1"]
            done = CliRunner().invoke(app, [*command.split()[1:], *one_process])
            assert done.exit_code == 0, (command, done.output)
        again = CliRunner().invoke(app, ["report", "--from", "doe.zip", "--out", "again.html"])
        assert again.exit_code == 0, again.output
    finally:
        all_papers.cache_clear()
        sys.modules.pop("doe_attnlab", None)
    (verdict,) = claims.load_verdicts(tmp_path / "doe-records" / "verdicts.json")
    assert verdict.verdict == "confirmed"
    for page in ("doe.html", "again.html"):
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert "The best of 31 scales is" in text
        assert 'aria-label="A curve that falls to a minimum near 0.06' in text
