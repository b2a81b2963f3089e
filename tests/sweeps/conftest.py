"""A module of point functions that workers can import, and sweeps that read it."""

import textwrap

import pytest

FUNCTIONS = """
import os
import time


def plain(i, wait=0.0):
    time.sleep(wait)
    return {"x": i / 7, "v": ("k", [i / 3, i / 11])}


def nasty(i):
    if i == 2:
        raise ValueError("not two")
    if i == 5:
        time.sleep(1000)
    if i == 7:
        os._exit(3)
    return i / 7


def threads(i):
    return {"libraries": os.environ["OMP_NUM_THREADS"], "compiler": os.environ["NPROC"]}


def _forked(log):
    # a copy of this process, whose number is noted
    pid = os.fork()
    if pid:
        with open(log, "a") as file:
            file.write(f"{pid} ")
    return pid


def forks_and_hangs(i, log):
    if i == 1:
        _forked(log)  # both hang
        time.sleep(1000)
    return i


def forks_and_crashes(i, log):
    if i == 1:
        if _forked(log):
            os.kill(os.getpid(), 9)
        time.sleep(1000)
    return i


def forks_and_returns(i, log):
    if i == 1 and not _forked(log):
        time.sleep(0.2)
        return -999
    if i == 2:
        time.sleep(0.5)
    return i


def forks_and_leaves(i, log):
    if i == 1 and not os.path.exists(log) and not _forked(log):
        time.sleep(1000)
    return i


def stuck(i, log):
    import ctypes

    with open(log, "w") as file:
        file.write(f"{os.getpid()}.")
    ctypes.PyDLL(None).sleep(1000)  # holds on to the interpreter


def talks(i):
    print("so much to say " * 1000)
    return i


def nasty_arrays(i):
    for one in i:
        nasty(one)
    return {"x": i / 7}


def curve(a, b, n=2):
    import jax.numpy as jnp

    return {"z": jnp.exp(-a) * b, "v": jnp.arange(n) * a}


def picture(dataset):
    from attnlab.plotting import Axis, Figure, Line, Panel

    line = Line(dataset["i"].values, dataset["x"].values, label="x")
    return Figure("Sevenths", [Panel("", Axis("i"), Axis("x"), [line])])


def anything(**settings):
    return 1.0


def unlike(dataset):
    return 5


def draw(a, key):
    import jax

    return a + jax.random.normal(key)
"""


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """The directory of the module `pointy`."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "pointy.py").write_text(FUNCTIONS)
    return directory


@pytest.fixture
def toml(functions):
    """Writes a sweep file beside the functions."""

    def write(name, text):
        path = functions / f"{name}.toml"
        path.write_text(textwrap.dedent(text))
        return path

    return write
