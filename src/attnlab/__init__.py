"""attnlab: a laboratory for attention models that can be solved exactly.

    import attnlab as al

    task = al.SingleLocation(dim=400, length=10)
    student = al.PointwiseAttention(activation="erf", scale=0.1)
    risk = al.population_risk(task, student)

Everything flows from left to right, and a module imports only from rooms to its left:

    task -> student -> risk -> dynamics -> record -> claim, figure -> report

Importing this package imports none of its heavy dependencies (JAX alone takes two seconds): each name
below is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from attnlab._version import __version__

if TYPE_CHECKING:
    from attnlab import (
        checkpoints,
        circuits,
        claims,
        dynamics,
        errors,
        estimators,
        papers,
        plotting,
        probing,
        records,
        report,
        students,
        sweeps,
        tasks,
        testing,
        theory,
    )
    from attnlab.dynamics import train
    from attnlab.errors import InvalidArgument
    from attnlab.students import (
        Activation,
        KernelHeads,
        MultiHeadAttention,
        Overlaps,
        PointwiseAttention,
        SoftmaxAttention,
        register_activation,
    )
    from attnlab.sweeps import sweep
    from attnlab.tasks import (
        InContextRegression,
        Link,
        Prompts,
        SeveralLocations,
        SingleLocation,
        register_link,
    )
    from attnlab.theory import mean_field_risk, monte_carlo_risk, population_risk

# Public name -> the module that defines it; a name that is a module itself maps to "".
_EXPORTS = {
    "Activation": "attnlab.students",
    "InContextRegression": "attnlab.tasks",
    "InvalidArgument": "attnlab.errors",
    "KernelHeads": "attnlab.students",
    "Link": "attnlab.tasks",
    "MultiHeadAttention": "attnlab.students",
    "Overlaps": "attnlab.students",
    "PointwiseAttention": "attnlab.students",
    "Prompts": "attnlab.tasks",
    "SeveralLocations": "attnlab.tasks",
    "SingleLocation": "attnlab.tasks",
    "SoftmaxAttention": "attnlab.students",
    "mean_field_risk": "attnlab.theory",
    "monte_carlo_risk": "attnlab.theory",
    "population_risk": "attnlab.theory",
    "register_activation": "attnlab.students",
    "register_link": "attnlab.tasks",
    "sweep": "attnlab.sweeps",
    "train": "attnlab.dynamics",
}
_MODULES = frozenset(
    {
        "checkpoints",
        "circuits",
        "claims",
        "dynamics",
        "errors",
        "estimators",
        "papers",
        "plotting",
        "probing",
        "records",
        "report",
        "students",
        "sweeps",
        "tasks",
        "testing",
        "theory",
    }
)

__all__ = [
    "Activation",
    "InContextRegression",
    "InvalidArgument",
    "KernelHeads",
    "Link",
    "MultiHeadAttention",
    "Overlaps",
    "PointwiseAttention",
    "Prompts",
    "SeveralLocations",
    "SingleLocation",
    "SoftmaxAttention",
    "__version__",
    "checkpoints",
    "circuits",
    "claims",
    "dynamics",
    "errors",
    "estimators",
    "mean_field_risk",
    "monte_carlo_risk",
    "papers",
    "plotting",
    "population_risk",
    "probing",
    "records",
    "register_activation",
    "register_link",
    "report",
    "students",
    "sweep",
    "sweeps",
    "tasks",
    "testing",
    "theory",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"attnlab.{name}")
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value  # the next access does not come back here
        return value
    raise AttributeError(f"module 'attnlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
