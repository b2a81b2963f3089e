"""Collecting invariants: all are tried, and the violated ones are reported together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class InvariantError(AssertionError):
    """Invariants that do not hold. `violations` maps the name of each to what was seen."""

    def __init__(self, subject: str, violations: dict[str, str]):
        self.subject, self.violations = subject, violations
        lines = [f"  - {name}: {seen}" for name, seen in violations.items()]
        super().__init__("\n".join([f"{subject} violates", *lines]))


class Invariants:
    """The invariants of one subject.

    Each is a function that returns None when it holds and otherwise says what was seen. One that
    raises is violated too, and does not keep the next from being tried.
    """

    def __init__(self, subject: str):
        self.subject = subject
        self.held: list[str] = []
        self.violations: dict[str, str] = {}

    def require(self, name: str, invariant: Callable[[], str | None]) -> bool:
        """Tries an invariant; whether it holds."""
        try:
            seen = invariant()
        except Exception as error:
            text = str(error).splitlines()[0] if str(error) else ""
            seen = f"raised {type(error).__name__}: {text}"
        if seen is None:
            self.held.append(name)
            return True
        self.violations[name] = seen
        return False

    def result(self) -> tuple[str, ...]:
        """Names of all that hold. Raises `InvariantError` when one does not."""
        if self.violations:
            raise InvariantError(self.subject, self.violations)
        return tuple(self.held)


def shown(value: Any) -> str:
    """A short text for a value in a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
