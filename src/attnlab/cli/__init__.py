"""The command line. One module per group of commands; each command is a thin layer over the library.

Modules here import nothing heavy at the top, so that `attnlab --help` answers at once: a command
imports what it needs when it runs. `main` imports nothing at all before it has taken hold of Ctrl-C.
"""

import signal
from typing import TYPE_CHECKING

from .._core.interrupt import leave_at_once
from .._core.lazy import lazy_names

if TYPE_CHECKING:
    from .application import app as app

__getattr__ = lazy_names(__name__, {"app": "application"})


def main() -> None:
    """The entry point `attnlab`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)
    from .application import start

    start()
