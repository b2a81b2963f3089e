"""An interruption that Python could not pass on comes again, but never after the work has ended."""

import gc
import time

import pytest

from attnlab._core import interrupt


class Finalised:
    """Raises where Python can only report it."""

    def __del__(self):
        raise KeyboardInterrupt


def lose_one():
    Finalised()
    gc.collect()


def test_a_lost_interruption_comes_again():
    with pytest.raises(KeyboardInterrupt), interrupt.interruptible():
        lose_one()
        time.sleep(20 * interrupt._AGAIN)


def test_none_comes_after_the_block():
    with interrupt.interruptible():
        lose_one()
    time.sleep(4 * interrupt._AGAIN)
