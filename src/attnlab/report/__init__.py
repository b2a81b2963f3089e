"""The report: one HTML page with what was checked, what came out, and how it was computed.

`build_report` runs what is missing and writes the page; `Store` keeps the results beside it. This
room knows papers only through the `papers` framework.

    import attnlab as al
    al.report.build_report("report.html")
    al.report.Store("report-records").entries()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import build_report as build_report
    from .store import Store as Store

# Records load xarray and the page loads Jinja2: only when a report is made.
_LAZY = {"build_report": "build", "Store": "store"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
