"""What is of the wrong kind gets the one error of bad input, before anything is computed."""

import pytest

from attnlab import claims, papers, report
from attnlab.errors import InvalidArgument

WRONG = [5, 2.5, True, b"x", object(), ["a", 3], 2**70, "a\0"]
CALLS = {
    "find_experiment": papers.find_experiment,
    "run_experiment": papers.run_experiment,
    "rerun": papers.rerun,
    "bibtex_for": papers.bibtex_for,
    "verify": claims.verify,
    "mutate": claims.mutate,
    "mutations": lambda wrong: claims.mutate("marion2025/risk-formula", mutations=wrong),
    "rebuild": lambda wrong: report.rebuild(wrong, "x.html"),
    "papers": lambda wrong: report.build_report("x.html", papers=wrong),
    "out": report.build_report,
    "archive": lambda wrong: report.build_report("x.html", archive=wrong),
    "directory": lambda wrong: papers.run_experiment("marion2025/oracle-risk", directory=wrong),
    "changes": lambda wrong: papers.run_experiment("marion2025/oracle-risk", changes=wrong),
    "load_verdicts": claims.load_verdicts,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_wrong_kinds_are_bad_input(call, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument):
        CALLS[call](wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings", [{"seed": 2**64}, {"lengths": [3, 2**70]}, {"noise_std": 10**400}]
)
def test_integers_beyond_64_bits_are_refused(settings):
    with pytest.raises(InvalidArgument):
        papers.find_experiment("marion2025/oracle-risk").configure("quick", settings)
