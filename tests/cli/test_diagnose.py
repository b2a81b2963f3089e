"""`attnlab diagnose`, run in this process on small files."""

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import attnlab as al
from attnlab import records
from attnlab.cli import app


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model of two layers, and a layer of in-context regression."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    names = {"W_Q": (2, 3, 8), "W_K": (2, 3, 8), "W_V": (2, 3, 8), "W_O": (2, 8, 3)}
    arrays = {f"layers.{i}.{n}": rng.normal(size=s) for i in range(2) for n, s in names.items()}
    np.savez(folder / "model.npz", **arrays)
    heads = al.KernelHeads([0.1, -0.1], [2.0, -2.0])
    al.circuits.save(al.MultiHeadAttention.from_heads(heads, 3), folder / "layer.npz")
    return folder


@pytest.fixture
def diagnose(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTNLAB_OUTPUT", raising=False)

    def call(file, *arguments):
        return CliRunner().invoke(app, ["diagnose", str(files / file), *map(str, arguments)])

    return call


def test_a_model(diagnose, tmp_path, files):
    result = diagnose("model.npz", "--out", "results")
    assert result.exit_code == 0, result.output
    assert "written column-wise" in result.output
    assert "copying" in result.output or "mixed" in result.output
    for kind in ("nc", "png", "pdf", "html"):
        name = f"results/diagnose-model.{kind}"
        assert (tmp_path / name).is_file()
        assert name in result.output
    record = records.load(tmp_path / "results" / "diagnose-model.nc")
    assert record.sizes["layer"] == 2
    provenance = records.provenance_of(record)
    assert provenance["command"] == "diagnose"
    assert provenance["config"]["file"] == str(files / "model.npz")


def test_one_layer_without_a_figure(diagnose, tmp_path):
    result = diagnose("model.npz", "--layer", 1, "--no-figure")
    assert result.exit_code == 0, result.output
    (only,) = (tmp_path / "attnlab-output").iterdir()
    assert only.name == "diagnose-model-layer-1.nc"
    assert records.load(only).layer.values.tolist() == [1]


def test_a_layer_of_in_context_regression(diagnose, tmp_path):
    result = diagnose("layer.npz", "--no-figure")
    assert result.exit_code == 0, result.output
    for text in ("positive", "negative", "effective step"):
        assert text in result.output
    record = records.load(tmp_path / "attnlab-output" / "diagnose-layer.nc")
    assert record.effective_step.item() == pytest.approx(0.4)


def test_a_layer_of_in_context_regression_on_prompts(diagnose, monkeypatch):
    asked = {}

    def spy(circuits, *, task, key):
        asked.update(task=task, key=key)
        return al.circuits.diagnosis.diagnose(circuits)  # drawing prompts takes seconds

    monkeypatch.setattr(al.circuits, "diagnose", spy)
    result = diagnose("layer.npz", "--length", 20, "--noise", 0.5, "--seed", 3, "--no-figure")
    assert result.exit_code == 0, result.output
    task = asked["task"]
    assert (task.dim, task.length, float(task.noise_std)) == (3, 20, 0.5)
    assert jax.random.key_data(asked["key"]).tolist() == [0, 3]


def test_a_mapping(diagnose, tmp_path):
    names = {"query": "Q", "key": "K", "value": "V", "output": "O"}
    lines = [f'{part} = "layers.{{layer}}.W_{name}"' for part, name in names.items()]
    (tmp_path / "map.toml").write_text("\n".join(lines))
    result = diagnose("model.npz", "--mapping", "map.toml", "--no-figure")
    assert result.exit_code == 0, result.output
    result = diagnose(
        "model.npz",
        "--mapping",
        "map.toml",
        "--layer",
        0,
        "--dim",
        6,
        "--outputs",
        2,
        "--no-figure",
    )
    assert "dim 6, 2 outputs" in result.output


@pytest.mark.parametrize(
    ("file", "arguments", "message"),
    [
        ("nothing.npz", (), "existing file"),
        ("model.npz", ("--layer", 7), "layer = 7"),
        ("model.npz", ("--dim", 7), "layer = None"),
        ("model.npz", ("--outputs", 2), "--outputs = 2"),
        ("model.npz", ("--length", 20), "--length = 20"),
        ("model.npz", ("--heads", 3), "heads = 3"),
        ("model.npz", ("--convention", "rows"), "convention = 'rows'"),
        ("model.npz", ("--mapping", "no.toml"), "mapping = 'no.toml'"),
        ("model.npz", ("--out", "/proc/attnlab"), "out = '/proc/attnlab'"),
        ("layer.npz", ("--length", 1), "--length = 1"),
        ("layer.npz", ("--length", 20, "--noise", -1), "--noise = -1"),
        ("layer.npz", ("--dim", 3), "says it itself"),
    ],
)
def test_bad_input_is_one_clear_error(diagnose, tmp_path, file, arguments, message):
    result = diagnose(file, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.output
    assert not list(tmp_path.rglob("*.nc"))


def test_a_stack_of_merged_attention(diagnose, files):
    parameters = np.random.default_rng(1).normal(size=(2, 1, 2, 3, 3))
    np.savez(files / "stack.npz", allparam=parameters)
    result = diagnose("stack.npz")
    assert result.exit_code != 0
    assert "--layer" in result.output
    assert diagnose("stack.npz", "--layer", 1).exit_code == 0
    np.savez(files / "one.npz", allparam=parameters[:1])
    assert diagnose("one.npz").exit_code == 0
