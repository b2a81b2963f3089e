"""Sphinx configuration: `sphinx-build -W -b html docs docs/_build/html`."""

import re

from attnlab._version import __version__

project = "attnlab"
author = "The attnlab developers"
copyright = "the attnlab developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas need no network
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_title = f"attnlab {version}"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "exclude-members": "count, index"}


def _from_markdown(app, what, name, obj, options, lines):
    """Docstrings are written in Markdown; this much of it autodoc has to be told."""
    out = []
    for line in lines:
        line = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
        if re.match(r"\s*\|[-| ]+\|\s*$", line):
            continue
        if row := re.match(r"\s*\| (.+) \|\s*$", line):
            line = "- " + " : ".join(cell.strip() for cell in row.group(1).split(" | "))
        out.append(line)
    lines[:] = out


def setup(app):
    app.connect("autodoc-process-docstring", _from_markdown)
