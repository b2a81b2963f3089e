"""Building the report: run what is missing, then write one page."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import claims, records
from .. import papers as papers_room
from .._core.errors import InvalidArgument, check_choice, check_integer, check_several
from .._core.files import clear_left_over, replacing
from .._core.progress import current_progress
from .._core.workers import Job, JobResult, run_jobs
from ..claims.registry import claims_of
from ..claims.runner import job_of, verdict_of
from ..papers import Experiment, Paper
from .archive import archive_path, write_archive
from .content import Chapter, ExperimentResult, Report
from .page import render_page
from .store import Store, module_of, page_path, store_directory

if TYPE_CHECKING:
    import xarray


def build_report(
    out: str | os.PathLike[str],
    *,
    preset: str = "quick",
    seed: int = 0,
    papers: Iterable[str | Paper] | None = None,
    processes: int = 2,
    archive: str | os.PathLike[str] | None = None,
) -> Path:
    """Checks the claims, runs the experiments, and writes one HTML file that needs no network.

    Results are kept in `<name>-records` beside the file and used again while nothing they depend
    on has changed (`report.store`); a run that was killed goes on where it was. An experiment or
    check that fails is reported in the page.

    **Arguments:**

    - `out`: the file (`.html`), or a directory, which gets a `report.html`.
    - `preset`: `"quick"` or `"paper"` (the sizes of the papers).
    - `seed`: of all checks and experiments.
    - `papers`: citation keys or `Paper` objects; None is all.
    - `processes`: workers of one thread each; 1 computes in this process.
    - `archive`: also write everything behind the page to this zip (`report.archive`).

    Returns the path of the file. Raises `InvalidArgument` before anything is computed: an unknown
    preset or paper, a directory that cannot be written to.
    """
    start = time.perf_counter()
    check_choice("preset", preset, ("quick", "paper"))
    seed = check_integer("seed", seed, minimum=0)
    check_integer("processes", processes, minimum=1)
    chosen = _choose(papers)
    path = page_path(out)
    records.writable_file(path)
    if archive is not None:
        records.writable_file(archive_path(archive), "archive")
    store = Store(store_directory(path))
    records.writable_files(store.directory, ["verdicts.json"])
    clear_left_over(store.directory, below=True)
    settings = {"preset": preset, "seed": seed, "papers": [paper.key for paper in chosen]}
    provenance = records.provenance(settings, preset=preset)
    work = _Work(store, preset, seed)
    for paper in chosen:
        work.plan(paper)
    work.run(processes)
    chapters = tuple(work.chapter(paper) for paper in chosen)
    report = Report(
        chapters,
        preset,
        seed,
        time.perf_counter() - start,
        records.finish(provenance, time.perf_counter() - start),
        frozenset(work.stored),
    )
    claims.save_verdicts(report.verdicts, store.directory / "verdicts.json", provenance=provenance)
    page = render_page(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if archive is not None:
        write_archive(report, page, path.parent, archive)
    return path


def compute(experiment: Experiment, preset: str, seed: int, folder: str) -> str:
    """Runs an experiment (in a worker) and returns the path of its record."""
    outputs = papers_room.run_experiment(
        experiment, preset, {"seed": seed}, directory=folder, figure=False
    )
    return str(outputs.record)


class _Work:
    """What has to be computed for a report, and what came of it."""

    def __init__(self, store: Store, preset: str, seed: int):
        self.store, self.preset, self.seed = store, preset, seed
        self.jobs: list[Job] = []
        self.verdicts: dict[str, claims.Verdict] = {}
        self.datasets: dict[str, xarray.Dataset] = {}
        self.errors: dict[str, tuple[str, str]] = {}
        self.stored: set[str] = set()  # keys of verdicts
        self._stored_records: set[str] = set()
        self._claims: dict[str, claims.Claim] = {}
        self._claims_of: dict[str, tuple[claims.Claim, ...]] = {}
        self._folders: dict[str, Path] = {}

    def plan(self, paper: Paper) -> None:
        """Looks up what is stored, and notes what is not. What cannot even be read (a configuration,
        a module of claims) becomes an error in the chapter."""
        for experiment in paper.experiments:
            try:
                config = experiment.configure(self.preset, {"seed": self.seed})
            except Exception as error:
                self.errors[experiment.id] = (f"{type(error).__name__}: {error}", "")
                continue
            settings = config.model_dump(mode="json")
            folder = self.store.experiment_folder(
                experiment.id, settings, module_of(experiment.run)
            )
            self._folders[experiment.id] = folder
            stored = self.store.load_record(folder, settings)
            if stored is not None:
                self.datasets[experiment.id] = stored
                self._stored_records.add(experiment.id)
            else:
                arguments = (experiment, self.preset, self.seed, str(folder))
                group = f"{paper.key}/{module_of(experiment.run)}"
                self.jobs.append(
                    Job(experiment.id, "attnlab.report.build:compute", arguments, group)
                )
        try:
            self._claims_of[paper.key] = claims_of(paper)
        except Exception as error:
            self.errors[f"claims of {paper.key}"] = (f"{type(error).__name__}: {error}", "")
        for claim in self._claims_of.get(paper.key, ()):
            key = f"claim {claim.key}"
            self._claims[key] = claim
            verdict = self.store.load_verdict(claim, self.preset, self.seed)
            if verdict is not None:
                self.verdicts[claim.key] = verdict
                self.stored.add(claim.key)
            else:
                self.jobs.append(replace(job_of(claim, self.preset, self.seed), key=key))

    def run(self, processes: int) -> None:
        """Runs what is missing; each finished part is stored at once."""
        progress = current_progress()
        progress.start("report", len(self.jobs))

        def keep(result: JobResult) -> None:
            if result.key in self._claims:
                claim = self._claims[result.key]
                verdict = verdict_of(claim, result, self.preset, self.seed)
                self.store.save_verdict(verdict)
                self.verdicts[claim.key] = verdict
            elif result.error is not None:
                self.errors[result.key] = (result.error, result.details)
            progress.advance(1, result.key)

        try:
            run_jobs(self.jobs, processes=processes, on_result=keep)
        finally:
            progress.stop()

    def chapter(self, paper: Paper) -> Chapter:
        """The results of a paper."""
        verdicts = tuple(self.verdicts[claim.key] for claim in self._claims_of.get(paper.key, ()))
        results = tuple(self._result(experiment) for experiment in paper.experiments)
        error, _ = self.errors.get(f"claims of {paper.key}", (None, ""))
        return Chapter(paper, verdicts, results, error)

    def _result(self, experiment: Experiment) -> ExperimentResult:
        if experiment.id in self.errors:
            error, details = self.errors[experiment.id]
            return ExperimentResult(experiment, error=error, details=details)
        folder = self._folders[experiment.id]
        dataset = self.datasets.get(experiment.id)
        if dataset is None:
            dataset = self.store.load_record(folder)
        if dataset is None:
            return ExperimentResult(experiment, error=f"no record was left in {folder.name}")
        provenance = records.provenance_of(dataset)
        result = ExperimentResult(
            experiment,
            seconds=float(provenance.get("seconds") or 0.0),
            stored=experiment.id in self._stored_records,
            record=_record_path(folder, self.store),
            provenance=provenance,
        )
        try:
            return replace(result, figure=_checked_figure(experiment, dataset))
        except Exception as error:
            text = f"the figure could not be drawn: {type(error).__name__}: {error}"
            return replace(result, error=text)


def _checked_figure(experiment: Experiment, dataset: xarray.Dataset) -> Any:
    from ..plotting.prepare import prepare

    figure = experiment.plot(dataset)
    if figure is not None:
        prepare(figure)  # raises for marks that cannot be drawn
    return figure


def _record_path(folder: Path, store: Store) -> Path:
    (path, *_) = sorted(p for p in folder.glob("*.nc") if not p.name.endswith(".partial.nc"))
    return path.relative_to(store.directory.parent)


def _choose(papers: Iterable[str | Paper] | None) -> list[Paper]:
    known = {paper.key: paper for paper in papers_room.all_papers()}
    if papers is None:
        return list(known.values())
    chosen = []
    if isinstance(papers, str | Paper):
        papers = [papers]
    for paper in check_several("papers", papers, "citation keys or Paper objects"):
        if isinstance(paper, Paper):
            chosen.append(paper)
        else:
            chosen.append(known[check_choice("paper", paper, known)])
    if not chosen:
        raise InvalidArgument("papers", [], "at least one paper")
    return chosen
