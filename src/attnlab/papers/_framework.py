"""What a paper and an experiment are: data that names its functions and imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidArgument, check_choice
from .._core.workers import resolve

if TYPE_CHECKING:
    import xarray
    from pydantic import BaseModel

    from ..plotting.spec import Figure

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Experiment:
    """One computation of a paper that gives a record and a figure.

    **Fields:**

    - `id`: `"<citation key>/<name>"`.
    - `title`, and `summary` in plain words: what a reader sees in it.
    - `source`: the place in the paper.
    - `config`: a subclass of `papers.Config` (or another pydantic model that forbids extra entries
      and has a `seed`), or `"module:Class"`.
    - `run`: `(config) -> xarray.Dataset`, or `"module:function"`. Long loops in it report to
      `current_progress()` and may use `current_checkpoint(name)`; when interrupted it raises
      `RunInterrupted` with what was computed.
    - `figure`: `(dataset) -> plotting.spec.Figure`, or `"module:function"`; None for no figure. It
      has to work on the partial dataset of an interrupted run too.
    - `presets`: the configurations `"quick"` (seconds) and `"paper"` (the sizes of the paper),
      each as entries that differ from the defaults of `config`.
    - `expected`: the numbers that a reader should see.
    - `cites`: citation keys of the works behind it, the paper itself aside.
    """

    id: str
    title: str
    summary: str
    source: str
    config: str | type[BaseModel]
    run: str | Callable[[Any], xarray.Dataset]
    figure: str | Callable[[xarray.Dataset], Figure] | None
    presets: Mapping[str, Mapping[str, Any]]
    expected: str
    cites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("id", "title", "summary", "source", "expected"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidArgument(f"Experiment.{name}", value, "a non-empty text")
        paper, _, short = self.id.partition("/")
        if not paper or not short or "/" in short or " " in self.id:
            raise InvalidArgument("Experiment.id", self.id, "of the form 'citation-key/name'")
        if set(self.presets) != set(PRESETS):
            raise InvalidArgument("Experiment.presets", sorted(self.presets), "quick and paper")

    @property
    def paper(self) -> str:
        """The citation key in front of the slash."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """The name behind the slash."""
        return self.id.partition("/")[2]

    def config_class(self) -> type[BaseModel]:
        """The class of the configuration. Imports its module."""
        from ._config import is_config

        found = resolve(self.config) if isinstance(self.config, str) else self.config
        if not is_config(found):
            allowed = "a pydantic model with extra='forbid' and a field seed, such as papers.Config"
            raise InvalidArgument("Experiment.config", self.config, allowed)
        return found

    def configure(
        self, preset: str = "quick", changes: Mapping[str, Any] | None = None
    ) -> BaseModel:
        """The configuration of a preset with `changes`: typed values, or texts as on a command line.

        Raises `InvalidArgument` for an unknown preset or key and for a value of the wrong type or
        out of range; the message lists the keys with their types.
        """
        from ._config import configure

        check_choice("preset", preset, PRESETS)
        return configure(
            self.config_class(), self.presets[preset], {} if changes is None else changes
        )

    def compute(self, config: BaseModel) -> xarray.Dataset:
        """Runs it: the dataset for this configuration."""
        return _function(self.run)(config)

    def plot(self, dataset: xarray.Dataset) -> Figure | None:
        """What to draw of it; None when the experiment has no figure."""
        return None if self.figure is None else _function(self.figure)(dataset)


@dataclass(frozen=True)
class Paper:
    """A paper: how to cite it, its experiments and its claims.

    **Fields:** `key` (the citation key, which ids start with), `title`, `authors`, `year`, `bibtex`
    (an entry with that key), `experiments`, `claims` (a tuple of `claims.Claim`, or
    `"module:NAME"` of one; None while there are none), `references` (BibTeX entries, by key, of
    further works that its experiments cite), `mutations` (a tuple of `claims.Mutation`, or
    `"module:NAME"` of one: formulas broken on purpose to test the claims), `sweeps` (TOML files of
    ready sweeps in its package, as `"package:file"`).
    """

    key: str
    title: str
    authors: tuple[str, ...]
    year: int
    bibtex: str
    experiments: tuple[Experiment, ...] = ()
    claims: str | tuple[Any, ...] | None = None
    references: Mapping[str, str] = field(default_factory=dict)
    mutations: str | tuple[Any, ...] | None = None
    sweeps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.key or "/" in self.key or " " in self.key:
            raise InvalidArgument("Paper.key", self.key, "a citation key without / and spaces")
        if f"{{{self.key}," not in self.bibtex:
            raise InvalidArgument("Paper.bibtex", self.bibtex, f"an entry with key {self.key}")
        ids = [experiment.id for experiment in self.experiments]
        for id_ in ids:
            if not id_.startswith(self.key + "/") or ids.count(id_) > 1:
                raise InvalidArgument("Experiment.id", id_, f"'{self.key}/name', used once")


def _function(reference: str | Callable[..., Any]) -> Callable[..., Any]:
    return resolve(reference) if isinstance(reference, str) else reference
