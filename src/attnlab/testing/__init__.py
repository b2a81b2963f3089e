"""Invariants that users run on their own tasks, links, activations and claims.

    import attnlab as al

    def test_my_activation():
        al.testing.check_activation(al.register_activation("cubic-ish", lambda x: x / (1 + x**2)))

Each function returns the names of the invariants that it found to hold, and raises
`InvariantError`, an `AssertionError` that lists every violated one, otherwise.
"""

from .claims import check_claim as check_claim
from .functions import check_activation as check_activation
from .functions import check_link as check_link
from .invariants import InvariantError as InvariantError
from .tasks import check_task as check_task
