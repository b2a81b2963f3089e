"""Sweeps: a target computed at many settings, in batches spread over processes or a cluster, kept
as they are finished and put together into one labelled dataset.

    import attnlab as al

    dataset = al.sweep(
        "risk",
        task={"kind": "SingleLocation", "dim": 100, "length": 10},
        student={"kind": "PointwiseAttention", "activation": "erf"},
        grid={"student.scale": {"geomspace": [0.05, 5, 40]}, "task.noise_std": [0.0, 0.1]},
        out="scales",
    )

The room runs experiments and risks; it knows none of them.
"""

from typing import TYPE_CHECKING

from .._core.lazy import lazy_names
from .ready import read as read
from .ready import ready as ready

if TYPE_CHECKING:
    from .collect import Failure as Failure
    from .collect import failures as failures
    from .directory import Status as Status
    from .directory import status as status
    from .running import sweep as sweep

_LAZY = {
    "Failure": "collect",
    "Status": "directory",
    "failures": "collect",
    "status": "directory",
    "sweep": "running",
}

__getattr__ = lazy_names(__name__, _LAZY)
