"""The report: one HTML page with what was checked, what came out, and how it was computed.

`build_report` runs what is missing and writes the page; `Store` keeps the results beside it, and
`inspect` and `clear` show and empty it; `rebuild` makes the page again from its archive. This room
knows papers only through the `papers` framework.

    import attnlab as al
    al.report.build_report("report.html", archive="report.zip")
    al.report.rebuild("report.zip", "again.html")
    al.report.inspect(al.report.Store("report-records"))
"""

from typing import TYPE_CHECKING

from .._core.lazy import lazy_names

if TYPE_CHECKING:
    from .build import build_report as build_report
    from .from_archive import rebuild as rebuild
    from .store import Store as Store
    from .stored import Stored as Stored
    from .stored import clear as clear
    from .stored import inspect as inspect

# Records load xarray and the page loads Jinja2: only when a report is made.
_LAZY = {
    "build_report": "build",
    "clear": "stored",
    "inspect": "stored",
    "rebuild": "from_archive",
    "Store": "store",
    "Stored": "stored",
}

__getattr__ = lazy_names(__name__, _LAZY)
