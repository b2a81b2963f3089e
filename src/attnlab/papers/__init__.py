"""Papers: one module or package per citation key, with its experiments and its claims.

This room is the right end of the house and the only one that knows a paper; nothing in it is
reusable, what is reusable belongs further left. A module `papers/<key>` defines `PAPER`, a `Paper`,
and imports nothing heavy: experiments and claims name the functions that they need as
`"module:name"`, and these are imported when they are run. Modules whose name starts with an
underscore are the framework.

    from attnlab import papers

    papers.all_papers()
    experiment = papers.find_experiment("marion2025/gd-manifold")
    dataset = experiment.compute(experiment.configure("quick", {"runs": "3"}))
    papers.run_experiment("marion2025/gd-manifold", "quick", {"runs": 3}).record

Other distributions add papers through the entry-point group `attnlab.papers`.
"""

from typing import TYPE_CHECKING

from .._core.lazy import lazy_names
from ._bibliography import bibtex_for as bibtex_for
from ._bibliography import citable as citable
from ._discovery import all_experiments as all_experiments
from ._discovery import all_papers as all_papers
from ._discovery import collect as collect
from ._discovery import find_experiment as find_experiment
from ._framework import Experiment as Experiment
from ._framework import Paper as Paper

if TYPE_CHECKING:
    from ._config import Config as Config
    from ._runner import Outputs as Outputs
    from ._runner import Replay as Replay
    from ._runner import rerun as rerun
    from ._runner import run_experiment as run_experiment

# These need pydantic or NumPy, which listing experiments does not.
_LAZY = {
    "Config": "_config",
    "Outputs": "_runner",
    "Replay": "_runner",
    "rerun": "_runner",
    "run_experiment": "_runner",
}

__getattr__ = lazy_names(__name__, _LAZY)
