"""More runs or steps than can be computed are refused, with what they would need."""

import jax
import optax
import pytest

import attnlab as al

TASK = al.SingleLocation(dim=20, length=3)
RISK = al.population_risk(TASK, al.PointwiseAttention(activation="erf", scale=0.1))


def test_runs():
    with pytest.raises(al.InvalidArgument, match=r"runs = 10{12} .* years and 2e\+05 GB"):
        al.Overlaps.on_sphere(jax.random.key(0), 20, runs=10**12)


@pytest.mark.parametrize(
    ("steps", "save_every", "needs"),
    [(10**15, 10**12, r"steps = 10{15} .*31.7 years"), (10**11, 1, r"save_every .* GB")],
)
def test_steps_and_what_is_saved_of_them(steps, save_every, needs):
    start = al.Overlaps.on_sphere(jax.random.key(0), 20, runs=2)
    with pytest.raises(al.InvalidArgument, match=needs):
        al.dynamics.projected_gradient_descent(
            RISK, start, step_size=1e-3, steps=steps, save_every=save_every
        )


def test_steps_of_training():
    layer = al.MultiHeadAttention(5, n_heads=1, key=jax.random.key(3))
    with pytest.raises(al.InvalidArgument, match=r"steps = .* years"):
        al.train(
            layer,
            al.InContextRegression(dim=5, length=9),
            optimizer=optax.sgd(1e-2),
            steps=10**14,
            batch_size=4,
            key=jax.random.key(2),
        )


def test_the_command_says_it_in_a_line(tmp_path):
    from typer.testing import CliRunner

    from attnlab.cli import app

    command = ["run", "marion2025/gd-manifold", "--out", str(tmp_path), "--set"]
    for setting in ("runs=10000000000", "steps=1000000000000000"):
        result = CliRunner().invoke(app, [*command, setting])
        assert result.exit_code == 2
        assert "this would need about" in result.stderr
        assert len(result.stderr.splitlines()) == 1
