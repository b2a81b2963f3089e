"""`python -m attnlab` is the command `attnlab`."""

from .cli import main

main()
