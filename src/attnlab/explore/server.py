"""Starts the page: marimo serves the notebook of this room on this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess

from .._core.children import module_program
from .._core.compilation import prefer_quick_compilation
from .._core.errors import InvalidArgument, check_flag, check_integer


def command(*, port: int, host: str, browser: bool) -> list[str]:
    """The command line that serves the page."""
    line = [*module_program("attnlab.explore.guard", "main"), host, str(port)]
    return [*line, "browser"] if browser else line


def serve(*, port: int = 2718, host: str = "127.0.0.1", browser: bool = True) -> int:
    """Serves the page until Ctrl-C; returns the exit status of the server.

    **Arguments:** `port` in [1, 65535]; `host`: by default only this machine can see the page;
    `browser`: open it.

    Raises `InvalidArgument`, also where the extra `explore` is not installed.
    """
    port = check_integer("port", port, minimum=1, maximum=65535)
    check_flag("browser", browser)
    if not isinstance(host, str) or not host.strip():
        raise InvalidArgument("host", host, "a name or an address, such as 127.0.0.1")
    if importlib.util.find_spec("marimo") is None:
        allowed = 'installed for this command: pip install "attnlab[explore]" brings it'
        raise InvalidArgument("marimo", None, allowed)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            allowed = f"free at {host} ({error.strerror or error})"
            raise InvalidArgument("port", port, allowed) from None
    prefer_quick_compilation()
    arguments = command(port=port, host=host, browser=browser)
    with subprocess.Popen(arguments, env=dict(os.environ)) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            while True:
                with contextlib.suppress(KeyboardInterrupt):  # the server gets it too, and ends
                    return process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
