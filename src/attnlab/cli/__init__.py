"""The command line. One module per group of commands; each command is a thin layer over the library.

Modules here import nothing heavy at the top, so that `attnlab --help` answers at once: a command
imports what it needs when it runs.
"""

from .main import app as app
from .main import main as main
