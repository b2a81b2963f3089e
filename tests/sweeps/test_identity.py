"""When two functions are the same one: what a directory was filled by is not mistaken."""

import collections
import dataclasses
import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest

import attnlab as al
from attnlab.sweeps.identity import identity_of


def make(a):
    def scaled(x):
        return a * x

    return scaled


def other(x):
    return x


def logged(function):
    @functools.wraps(function)
    def call(x):
        return function(x) + 1

    return call


class Scaled:
    def __init__(self, a):
        self.a = a

    def __call__(self, x):
        return self.a * x

    def method(self, x):
        return self.a * x


def with_default(a):
    def call(x, a=a):
        return a * x

    return call


def memoised(function):
    known = {}

    @functools.wraps(function)
    def call(x):
        if x not in known:
            known[x] = function(x)
        return known[x]

    return call


def stateless(text):
    """A class without state, made anew with another body."""
    scope = {"__name__": "made"}
    exec(f"class Model:\n    def __call__(self, x):\n        return {text}", scope)
    return scope["Model"]()


def inherited(text):
    scope = {"__name__": "made"}
    exec(f"class Base:\n    factor = 1\n    def __call__(self, x):\n        return {text}", scope)
    exec("class Model(Base):\n    def __init__(self):\n        self.a = 1", scope)
    return scope["Model"]()


def with_property(text):
    scope = {"__name__": "made"}
    exec(f"class Model:\n    @property\n    def a(self):\n        return {text}", scope)
    exec("class Other(Model):\n    @staticmethod\n    def b(x):\n        return x", scope)
    return scope["Other"]()


@dataclasses.dataclass(slots=True)
class Slotted:
    function: object
    factor: object

    def __call__(self, x):
        return self.function(x) * self.factor


def tabled(last):
    def look(x, table=[(i, i) for i in range(20_000)] + [last]):
        return table[x][1]

    return look


def pairs():
    import jax

    yield stateless("x * 2"), stateless("x * 1000")
    yield inherited("x * 2"), inherited("x * 1000")
    yield with_property("1"), with_property("2")
    yield Slotted(other, 1), Slotted(other, 2)
    yield Slotted(lambda x: x, 1), Slotted(lambda x: x + 1, 1)
    yield tabled((0, 1)), tabled((0, -5))
    yield make(collections.deque([1])), make(collections.deque([2]))
    yield make(np.array([1, "a"], object)), make(np.array([1, "b"], object))
    yield memoised(other), memoised(make(1))

    yield make(1), make(2)
    yield make(np.arange(3.0)), make(np.arange(3.0) + 1)
    yield functools.partial(make, a=1), functools.partial(make, a=2)
    yield functools.partial(make), functools.partial(other)
    yield np.vectorize(make), np.vectorize(other)
    yield (
        jax.jit(functools.partial(lambda x, a: x * a, a=1)),
        jax.jit(functools.partial(lambda x, a: x * a, a=2)),
    )
    yield np.vectorize(lambda x: x + 1), np.vectorize(lambda x: x + 2)
    yield make(jax.numpy.arange(3)), make(jax.numpy.arange(4))
    yield Scaled(1), Scaled(2)
    yield Scaled(1).method, Scaled(2).method
    yield other, logged(other)
    yield logged(other), logged(make(1))
    yield with_default(1), with_default(2)
    yield eval("lambda x: 1 * x"), eval("lambda x: 10 * x")
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    yield first, second
    yield make({"a": [1, 2]}), make({"a": [1, 3]})
    yield make({1, 2}), make({1, 3})
    yield np.sin, np.cos


@pytest.mark.parametrize("pair", list(pairs()))
def test_functions_that_differ_are_told_apart_and_the_same_is_the_same(pair):
    left, right = map(identity_of, pair)
    assert left != right
    assert [left, right] == [identity_of(function) for function in pair]


def test_what_is_remembered_is_no_part_of_it():
    class Cached:
        @functools.cached_property
        def table(self):
            return [1, 2]

        def __call__(self, x):
            return self.table[x]

    @functools.cache
    def cached(x):
        return x

    @functools.singledispatch
    def dispatched(x):
        return x

    for function in (memoised(other), Cached(), cached, make(dispatched)):
        before = identity_of(function)
        (dispatched if "make" in repr(function) else function)(1)
        assert identity_of(function) == before


def test_what_refers_to_itself_or_lies_deep_is_read():
    class Node:
        def __init__(self):
            self.others = set()

        def __call__(self, x):
            return x

        def __getattr__(self, name):
            raise RuntimeError(name) if name == "__wrapped__" else AttributeError(name)

    left, right = Node(), Node()
    left.others.add(right), right.others.add(left)
    assert len(identity_of(left)) == 16
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert identity_of(make(deep)) == identity_of(make(deep))
    many = [Node() for _ in range(40)]
    for one, following in itertools.pairwise(many):
        one.others |= {following, (following,)}
    assert len(identity_of(many[0])) == 16  # at once


def test_the_digest_is_the_same_in_another_process(tmp_path):
    text = (
        "import collections\nimport numpy as np\nimport scipy.stats\n\n\ndef make(a):\n"
        "    return lambda x, b={'k', 'l', 'm'}: (a, x, b)\n"
    )
    (tmp_path / "made.py").write_text(text)
    code = (
        "from made import make, np; from attnlab.sweeps.identity import identity_of;"
        "from made import collections, scipy;"
        "print(*(identity_of(make(a)) for a in ({'x', 'y', 'z'}, np.arange(3), scipy.stats.norm,"
        " collections.deque([{'x', 'y', 'z'}]), np.array([{'x', 'y'}], object))))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]


def test_another_function_does_not_get_the_results_of_the_first(tmp_path):
    al.sweep(make(1.0), grid={"x": [1, 2]}, out=tmp_path, workers=0)
    with pytest.raises(al.InvalidArgument, match="source was"):
        al.sweep(make(100.0), grid={"x": [1, 2]}, out=tmp_path, workers=0)


def test_a_module_that_has_changed_since_it_was_imported_is_not_mixed_with_the_new_one(tmp_path):
    place = tmp_path / "code"
    place.mkdir()
    (place / "edited.py").write_text("def f(x):\n    return x\n")
    options = {"grid": {"x": [1, 2]}, "paths": [str(place)], "out": tmp_path / "out"}
    al.sweep("edited:f", workers=0, **options)
    (place / "edited.py").write_text("def f(x):\n    return 10 * x\n")
    # in this process it is still the old one, whose results those are
    assert al.sweep("edited:f", workers=0, **options).value.values.tolist() == [1, 2]
    # another process would import the new one
    with pytest.raises(al.InvalidArgument, match="the same function here"):
        al.sweep("edited:f", timeout=60, workers=0, fresh=True, **options)


def test_a_process_imports_what_lies_beside_the_file_first(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "funcs_beside.py").write_text("def f(x):\n    return x + 1000\n")
    (tmp_path / "sub" / "funcs_beside.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "sub" / "s.toml").write_text('target = "funcs_beside:f"\n[grid]\nx = [0, 1]\n')
    monkeypatch.chdir(tmp_path)
    dataset = al.sweep(tmp_path / "sub" / "s.toml", workers=0, timeout=60)
    assert dataset.value.values.tolist() == [1, 2]
