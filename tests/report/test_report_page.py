"""The page is complete in itself, well-formed, and says what happened."""

import html.parser
import re

import pytest

from attnlab import claims
from attnlab.report import build_report
from attnlab.report.content import address, slug
from attnlab.report.page import duration, short_paths

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(html.parser.HTMLParser):
    """Elements, texts by section and headings of a page; checks that tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.headings, self.open, self.texts = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append([int(tag[1]), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)
            if any(re.fullmatch("h[1-6]", tag) for tag in self.open):
                self.headings[-1][1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def built(finished):
    path, *_ = finished
    text = path.read_text(encoding="utf-8")
    return path, text, Page(text)


def test_page_loads_nothing_and_is_small(built):
    path, text, page = built
    assert path.name == "report.html"
    assert path.stat().st_size < 8e6
    for tag, attrs in page.elements:
        assert tag not in ("iframe", "object", "embed", "base")
        assert "src" not in attrs
        assert "srcset" not in attrs
        if tag == "link":
            assert attrs["href"] == "data:,"
    for style in re.findall(r"<style>(.*?)</style>", text, re.S):
        assert "url(" not in style
        assert "@import" not in style
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
    own = [script for script in scripts if len(script) < 1e6]
    assert len(own) == len(scripts) - 1  # the rest is the plotting library, once
    assert not any("http" in script for script in own)


def test_ids_are_unique_and_links_lead_somewhere(built):
    _, _, page = built
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
        for name in attrs.get("aria-labelledby", "").split():
            assert name in ids
    assert {"https://arxiv.org/abs/2701.00001"} == {
        attrs["href"] for _, attrs in page.elements if attrs.get("href", "").startswith("http")
    }


def test_page_is_readable_without_eyes_and_on_a_phone(built):
    _, _, page = built
    charts = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
    assert [c["aria-label"] for c in charts] == ["A falling curve. Risk"]
    assert ("html", {"lang": "en"}) in page.elements
    tables = sum(tag == "table" for tag, _ in page.elements)
    assert tables == sum(tag == "caption" for tag, _ in page.elements) >= 4
    assert all(attrs.get("scope") for tag, attrs in page.elements if tag == "th")
    viewport = [attrs["content"] for _, attrs in page.elements if attrs.get("name") == "viewport"]
    assert viewport == ["width=device-width, initial-scale=1"]


def test_counts_and_surprises_come_first(built):
    _, _, page = built
    text = page.text
    assert "checked 4 claims and ran 3 experiments of 1 paper" in text
    first = text[: text.index("All verdicts One row")]
    for words in (
        "✓ confirmed (1 answered) 1",
        "✗ refuted as stated 1",
        "? inconclusive 1",
        "! failed to run 1",
    ):
        assert words in first
    assert "What holds instead: The factor is 1." in first
    assert "ArithmeticError: no such <integral>" in first
    assert "on record: confirmed" in first  # an inconclusive claim that had been confirmed
    rows = text[text.index("One row per claim") : text.index("A paper <made> up")]
    order = [rows.index(f"Title of {name}") for name in ("raises", "open_", "bad", "good")]
    assert order == sorted(order)


def test_family_wise_error_and_what_is_undecided_stand_on_the_first_page(built):
    _, _, page = built
    first = page.text[: page.text.index("All verdicts One row")]
    assert "refutes any of the 4 is at most 0.04 %" in first
    assert "Undecided, and what would settle it Title of open_ : More runs." in first


def test_an_undecided_claim_says_what_would_settle_it_in_any_case(doe, tmp_path):
    paper = doe.paper((), (doe.claim("coarse"),))
    path = build_report(tmp_path / "a.html", papers=[paper], processes=1)
    text = Page(path.read_text(encoding="utf-8")).text
    words = "a smaller error of “slope” (now 1.00 ± 0.20 against = 1.1 (± 0.05)), such as the sizes"
    assert text.count(words) == 2  # on the first page and with the claim


def test_slips_and_answers_show_their_numbers(built):
    _, _, page = built
    slips, answers = page.text.split("Open questions answered What")
    slips = slips[slips.index("Slips found in the sources Statements") :]
    assert "Measured: factor <b>: 1.000 ± 0.010, where the statement gives = 2 (p-value <" in slips
    assert "ratio: measured 2.0000 ± 0.0010, stated = 2.001" in answers


def test_measured_and_stated_values_are_shown(built):
    _, _, page = built
    assert "factor <b> 1.000 ± 0.010 = 2" in page.text
    assert "The corrected form passes its own checks." in page.text
    assert "What would settle it: More runs." in page.text
    assert "It is 2." in page.text[page.text.index("Open questions answered") :]


def test_failed_experiments_are_reported_and_others_shown(built):
    _, _, page = built
    assert "RuntimeError: gave up at step <17>" in page.text
    assert "the figure could not be drawn: ValueError: nothing to draw" in page.text
    assert "in fails raise RuntimeError" in page.text  # the traceback
    assert sum(tag == "figure" for tag, _ in page.elements) == 1


def test_provenance_is_told(built):
    path, _, page = built
    assert "threefry" in page.text
    assert "jaxlib" in page.text
    assert "seed 0 steps 50" in page.text  # the configuration of an experiment
    verdicts = claims.load_verdicts(path.with_name("report-records") / "verdicts.json")
    assert {v.claim.id for v in verdicts} == {"good", "bad", "open", "raises"}


def test_a_page_without_figures_carries_no_library(doe, tmp_path):
    path = build_report(
        tmp_path / "a.html", papers=[doe.paper((), (doe.claim("good"),))], processes=1
    )
    assert path.stat().st_size < 60_000
    assert "None: no claim was refuted" in Page(path.read_text()).text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "< 0.1 s"),
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3900, "1 h 5 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_small_helpers():
    assert slug("claim", "a2/b c_d") == "claim-a2-b-c-d"
    assert address("@x{a,\n  doi = {10.1/2},\n  eprint = {1}\n}") == "https://doi.org/10.1/2"
    assert address('@x{a,\n  url = "https://e.org/x",\n}') == "https://e.org/x"
    assert address("@x{a,\n  title = {doi = no}\n}") is None
    assert short_paths('File "/home/jane/x/y/z.py", line 1') == 'File "x/y/z.py", line 1'
