"""The page can be read without eyes, without colours, without a mouse, and without a network."""

import html.parser
import itertools
import re

import pytest

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}
NAMED = {"a", "button", "figcaption", "caption", "summary", "title", "th", "figure"}


class Reader(html.parser.HTMLParser):
    """Notes faults as it reads; `text` of an element includes the labels of pictures in it."""

    def __init__(self):
        super().__init__()
        self.faults, self.stack, self.ids, self.levels, self.references = [], [], [], [], []
        self.counts, self.styles = {}, []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if "id" in attrs:
            self.ids.append(attrs["id"])
        for name in ("aria-labelledby", "aria-describedby"):
            self.references += attrs.get(name, "").split()
        if attrs.get("href", "").startswith("#"):
            self.references.append(attrs["href"][1:])
        label = attrs.get("aria-label", "").strip() or attrs.get("alt", "").strip()
        if (tag in ("img", "svg", "canvas") or attrs.get("role") == "img") and not label:
            self.faults.append(f"picture without a text: {tag} {attrs.get('id')}")
        if tag == "html" and not attrs.get("lang"):
            self.faults.append("no language")
        if tag == "th" and attrs.get("scope") not in ("row", "col"):
            self.faults.append("header cell without a scope")
        if "src" in attrs or (tag == "link" and not attrs.get("href", "").startswith("data:")):
            self.faults.append(f"loads something: {tag} {attrs}")
        if int(attrs.get("tabindex", 0)) > 0:
            self.faults.append("changes the order of the keyboard")
        if attrs.get("name") == "viewport" and re.search(
            "user-scalable=no|maximum", attrs["content"]
        ):
            self.faults.append("cannot be enlarged")
        if label:
            for element in self.stack:
                element[1] += label
        if tag not in VOID:
            self.stack.append([tag, label, set()])
            for element in self.stack[:-1]:
                element[2].add(tag)

    def handle_data(self, data):
        if self.stack and self.stack[-1][0] == "style":
            self.styles.append(data)
        elif self.stack and self.stack[-1][0] != "script":
            for element in self.stack:
                element[1] += data

    def handle_endtag(self, tag):
        element, text, inside = self.stack.pop()
        if element != tag:
            self.faults.append(f"{element} ends as {tag}")
        if (tag in NAMED or re.fullmatch("h[1-6]", tag)) and not text.strip():
            self.faults.append(f"{tag} without a text")
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "table" and not {"caption", "th"} <= inside:
            self.faults.append("table without caption or header cells")
        if tag == "figure" and "figcaption" not in inside:
            self.faults.append("figure without caption")
        if tag == "details" and "summary" not in inside:
            self.faults.append("details without summary")


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted(map(luminance, (one, two)))
    return (high + 0.05) / (low + 0.05)


def colour_faults(style):
    """Texts below 4.5 : 1 (WCAG AA): each rule's own pair, and each colour that is used alone on
    each background that has no colour of its own, wherever the one may stand in the other."""
    style = re.sub(r"#([0-9a-f])([0-9a-f])([0-9a-f])\b", r"#\1\1\2\2\3\3", style.lower())
    variables = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style))
    style = re.sub(r"var\(--([\w-]+)\)", lambda m: variables.get(m[1], m[0]), style)
    pairs, texts, grounds = [], {"#000000"}, {"#ffffff"}
    for rule in re.findall(r"{([^{}]*)}", style):
        text = re.search(r"(?:^|[;\s])color: (#[0-9a-f]{6})", rule)
        ground = re.search(r"background(?:-color)?: (#[0-9a-f]{6})", rule)
        if text and ground:
            pairs.append((text[1], ground[1]))
        elif text:
            texts.add(text[1])
        elif ground:
            grounds.add(ground[1])
    pairs += itertools.product(texts, grounds)
    return [f"contrast {a} on {b}" for a, b in pairs if contrast(a, b) < 4.5], len(pairs)


def faults(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    found = reader.faults + [f"{element[0]} does not end" for element in reader.stack]
    for tag in ("h1", "main", "title"):
        if reader.counts.get(tag) != 1:
            found.append(f"not one {tag}")
    for before, after in itertools.pairwise([0, *reader.levels]):
        if after > before + 1:
            found.append(f"h{after} after h{before}")
    found += [f"id {name} twice" for name in {n for n in reader.ids if reader.ids.count(n) > 1}]
    found += [f"no {name} to go to" for name in {*reader.references} - {*reader.ids}]
    style = "".join(reader.styles)
    if re.search(r"url\(|@import", style):
        found.append("style loads something")
    return found + colour_faults(style)[0]


def test_the_page_has_no_fault(finished):
    page, *_ = finished
    text = page.read_text(encoding="utf-8")
    assert faults(text) == []
    assert len(text.encode()) < 15e6
    reader = Reader()
    reader.feed(text)
    assert reader.counts["figure"] == 1
    assert reader.counts["table"] >= 5
    assert colour_faults("".join(reader.styles))[1] > 12
    # one scheme, on white: a dark one would need contrasts of its own
    assert "prefers-color-scheme" not in "".join(reader.styles)
    assert "color-scheme: light" in "".join(reader.styles)


def test_what_is_hidden_on_the_screen_is_printed(finished):
    text = finished[0].read_text(encoding="utf-8")
    assert '"beforeprint"' in text
    assert "element.open = true" in text
    printed = text[text.index("@media print") :]
    assert "break-inside: avoid" in printed[: printed.index("</style>")]


GOOD = """<!DOCTYPE html><html lang="en"><head><title>T</title><style>a { color: #0b57a4; }</style>
</head><body><main><h1>A</h1><h2 id="b">B</h2><a href="#b">to B</a>
<figure><div role="img" aria-label="A curve."></div><figcaption>C.</figcaption></figure>
<table><caption>D</caption><tr><th scope="col">E</th></tr></table></main></body></html>"""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("", ""), None),
        ((' lang="en"', ""), "no language"),
        (("<h1>A</h1>", ""), "not one h1"),
        (("h2", "h3"), "h3 after h1"),
        ((' id="b"', ""), "no b to go to"),
        (('id="b"', 'id="b"><p id="b"'), "id b twice"),
        (("to B", " "), "a without a text"),
        (("A curve.", ""), "picture without a text"),
        (("<figcaption>C.</figcaption>", ""), "figure without caption"),
        (("<caption>D</caption>", ""), "table without caption"),
        ((' scope="col"', ""), "without a scope"),
        (("<main>", '<main><img alt="x" src="x.png">'), "loads something"),
        (("a {", "@import 'x'; a {"), "style loads something"),
        (("#0b57a4", "#8fb8e0"), "contrast #8fb8e0 on #ffffff"),
        (("a {", "p { background: #888; } a {"), "contrast #0b57a4 on #888888"),
        (("a {", ".x { background: #fdd; color: #f55; } a {"), "contrast #ff5555 on #ffdddd"),
        (("</main>", ""), "main ends as body"),
    ],
)
def test_each_fault_is_found(change, fault):
    old, new = change
    page = GOOD.replace(old, new) if old else GOOD
    found = faults(page)
    assert found == [] if fault is None else any(fault in text for text in found), found
