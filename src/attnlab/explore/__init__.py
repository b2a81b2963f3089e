"""A page to play with: exact risks under sliders, every experiment as a form, every claim by a click.

`views` computes what the page shows, as figures and rows of numbers, and can be called without it;
`app.py` is the page, a marimo notebook; `server` starts it. Install it with the extra `explore`.
"""

from typing import TYPE_CHECKING

from .._core.lazy import lazy_names

if TYPE_CHECKING:
    from .heads import heads_view as heads_view
    from .overlaps import overlaps_view as overlaps_view
    from .server import serve as serve
    from .view import View as View

_LAZY = {
    "View": "view",
    "heads_view": "heads",
    "overlaps_view": "overlaps",
    "serve": "server",
}

__getattr__ = lazy_names(__name__, _LAZY)
