"""The errors that attnlab raises on purpose."""

from ._core.errors import InvalidArgument as InvalidArgument
from ._core.interrupt import RunInterrupted as RunInterrupted
