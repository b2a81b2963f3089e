"""What differs between two configurations, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard


def differences(then: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> list[str]:
    """What differs between two configurations, one line each."""
    found: list[str] = []
    for name in sorted({*then, *now}):
        old, new = then.get(name), now.get(name)
        if json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True):
            continue  # 1 is not 1.0
        where = f"{at}{name}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{where}.")
        elif _all_mappings(old) and _all_mappings(new) and len(old) == len(new):
            for a, b in zip(old, new, strict=True):
                found += differences(a, b, f"{where} {b.get('dim', '')}: ")
        else:
            found.append(f"{where} was {_shown(old)}, is {_shown(new)}")
    return found


def _all_mappings(value: Any) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values from {_shown(value[0])} to {_shown(value[-1])}"
    return json.dumps(value)
