"""What several tests of long loops share."""

import pytest


class StopAfter:
    """A reporter that presses Ctrl-C after some advances."""

    def __init__(self, calls):
        self.left = calls

    def start(self, label, total):
        pass

    def advance(self, n=1, note=""):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def stop(self):
        pass


@pytest.fixture
def stop_after():
    return StopAfter
