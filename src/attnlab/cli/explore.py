"""`explore`: a page with sliders over exact risks, served on this machine."""

from __future__ import annotations

from typing import Annotated

import typer


def explore(
    port: Annotated[int, typer.Option(help="Port of the page.")] = 2718,
    host: Annotated[
        str, typer.Option(help="Who can see the page; by default this machine only.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a page to play with: exact risks under sliders, experiments as forms, claims by a click.

    Needs the extra `explore` (marimo). Ends with Ctrl-C.
    """
    from .._core.environment import check_environment
    from ..explore import serve

    check_environment()
    raise typer.Exit(serve(port=port, host=host, browser=browser))
