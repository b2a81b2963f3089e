"""`attnlab probe`: what it asks `run` for."""

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.papers import find_experiment


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], {}),
        (["--model", "null"], {"model": "null"}),  # a directory of that name, not its absence
        (["--model", "a=b, c"], {"model": "a=b, c"}),
        (["--sentences", "400"], {"sentences": 400, "sizes": (50, 200)}),
        (["--sentences", "3000"], {"sentences": 3000}),
        (["--preset", "paper", "--seed", "3"], {"seed": 3}),
        (["--what", "heads", "--sentences", "100"], {"sentences": 100}),
    ],
)
def test_settings(monkeypatch, arguments, wanted):
    found = []

    def run(id_, preset, set_, out, figure):
        changes = dict(setting.split("=", 1) for setting in set_)
        found.append((find_experiment(id_).configure(preset, changes), id_, preset))

    monkeypatch.setattr("attnlab.cli.run.run", run)
    result = CliRunner().invoke(app, ["probe", *arguments])
    assert result.exit_code == 0, result.output
    ((config, id_, preset),) = found
    assert config == find_experiment(id_).configure(preset).model_copy(update=wanted)
