"""`python -m attnlab` is the command `attnlab`."""

import sys
from pathlib import Path

# `-m` puts the current directory first on the path, where any file could stand in for a library
if not sys.flags.safe_path and Path(sys.path[0]) != Path(__file__).parents[1]:
    del sys.path[0]

from .cli import main

main()
