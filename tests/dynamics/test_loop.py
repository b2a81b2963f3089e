import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import attnlab as al
from attnlab._core.checkpoint import use_checkpoints
from attnlab._core.interrupt import RunInterrupted
from attnlab._core.progress import use_progress
from attnlab.dynamics import loop as loop_module


class Counter(loop_module.Loop):
    slope: jax.Array

    def step(self, carry, i):
        return carry + self.slope * i

    def snapshot(self, carry, i):
        return {"value": carry, "at": i}


def run(steps, save_every, slope=1.0):
    with jax.enable_x64(True):
        loop, carry = Counter(jnp.asarray(slope)), jnp.zeros(2)
    return loop_module.run_loop(
        loop,
        carry,
        steps=steps,
        save_every=save_every,
        label="counting",
        finish=lambda steps, shots: (steps, shots),
    )


@pytest.mark.parametrize(
    ("steps", "save_every"), [(0, 1), (1, 1), (1000, 1), (1000, 7), (50, 100), (1234, 300)]
)
def test_every_save_holds_its_own_step(steps, save_every):
    at, shots = run(steps, save_every)
    assert at[0] == 0
    assert at[-1] == steps
    np.testing.assert_array_equal(shots["at"], at)
    np.testing.assert_array_equal(shots["value"][:, 0], at * (at - 1) / 2)


@pytest.fixture
def short_chunks(monkeypatch):
    monkeypatch.setattr(loop_module, "_CHUNK_SECONDS", 1e-9)


def test_an_interrupted_loop_keeps_what_it_saved(short_chunks, stop_after):
    with use_progress(stop_after(40)), pytest.raises(RunInterrupted) as caught:
        run(200, 10)
    at, shots = caught.value.partial
    assert 2 <= len(at) < 21
    np.testing.assert_array_equal(shots["value"][:, 0], at * (at - 1) / 2)


def test_an_interrupted_loop_goes_on_where_it_stopped(short_chunks, tmp_path, stop_after):
    with (
        use_progress(stop_after(40)),
        pytest.raises(RunInterrupted),
        use_checkpoints(tmp_path, "config"),
    ):
        run(200, 10)
    assert list(tmp_path.iterdir())
    seen = []

    class Watch(stop_after):
        def advance(self, n=1, note=""):
            seen.append(n)

    with use_progress(Watch(0)), use_checkpoints(tmp_path, "config"):
        at, shots = run(200, 10)
    assert seen[0] > 0  # it did not start at zero
    assert sum(seen) == 200
    np.testing.assert_array_equal(shots["value"][:, 0], at * (at - 1) / 2)
    assert not tmp_path.exists() or not list(tmp_path.iterdir())  # done: nothing is left behind


def test_a_checkpoint_of_another_run_is_not_taken(short_chunks, tmp_path, stop_after):
    with (
        use_progress(stop_after(40)),
        pytest.raises(RunInterrupted),
        use_checkpoints(tmp_path, "config"),
    ):
        run(200, 10)
    with use_checkpoints(tmp_path, "config"):
        at, shots = run(200, 10, slope=2.0)
    np.testing.assert_array_equal(shots["value"][:, 0], at * (at - 1))


def test_interrupted_descent_resumes_to_the_same_bits(short_chunks, tmp_path, stop_after):
    risk = al.population_risk(al.SingleLocation(30, 6), al.PointwiseAttention("erf", 0.4))
    start = al.Overlaps.on_sphere(jax.random.key(0), 30, runs=3)

    def descend():
        return al.dynamics.projected_gradient_descent(
            risk,
            start,
            step_size=0.01,
            steps=80,
            save_every=20,
            scale_schedule=lambda i: 1 / (1 + i),
        )

    whole = descend()
    with (
        use_progress(stop_after(12)),
        pytest.raises(RunInterrupted) as caught,
        use_checkpoints(tmp_path, "k"),
    ):
        descend()
    assert caught.value.partial.sizes["step"] < 5
    with use_checkpoints(tmp_path, "k"):
        resumed = descend()
    np.testing.assert_array_equal(whole.kappa, resumed.kappa)


def test_a_long_loop_that_is_done_keeps_its_end_until_that_is_saved(tmp_path, monkeypatch):
    ticks = itertools.count(0.0, 1.1)  # so that no checkpoint was due after the last chunk
    monkeypatch.setattr(loop_module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with pytest.raises(OSError, match="disk"), use_checkpoints(tmp_path, "config"):
        run(100, 1)
        raise OSError("the disk is full")
    (file,) = tmp_path.iterdir()
    with np.load(file) as kept:
        assert kept["array.done"] == 100
    with use_checkpoints(tmp_path, "config"):
        at, shots = run(100, 1)
    np.testing.assert_array_equal(shots["value"][:, 0], at * (at - 1) / 2)
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}/*"))
