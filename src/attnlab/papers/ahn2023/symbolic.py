"""Averages over Gaussian vectors, exactly and in any dimension, by SymPy.

Two kinds are enough for attention with ReLU. A score `a = x·v` with `|v| = s` is `sZ`, and the rest
of `x` is independent of it, so averages of piecewise polynomials of `a` are one-dimensional
integrals with a symbol for `s`. What is left are products of bilinear forms of Gaussian vectors.
By Isserlis' theorem their mean is a sum over pairings of equal vectors, each of which is a product
of traces, with `d` for every closed loop that meets no matrix: the dimension stays a symbol.

Source: note on ReLU attention, Proof; `docs/theory/relu-identities`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Factor = tuple[str, str, str]  # (M, x, y) stands for xᵀ M y; M = "I" is the identity


def symbols() -> tuple[Any, Any, Any, Any]:
    """`d`, `n`, `|A|_F²` and `tr A`, the last two under the names that `isserlis` gives them."""
    import sympy

    d, n = sympy.symbols("d n", positive=True)
    return d, n, _trace((("A", False), ("A", True))), _trace((("A", False),))


def scale() -> tuple[Any, Any]:
    """The standard normal `z` and the positive scale `s` of a score `sz`."""
    import sympy

    return sympy.Symbol("z", real=True), sympy.Symbol("s", positive=True)


def half_average(left: Any, right: Any) -> Any:
    """`E f(Z)` for `f = left(z)` where `z < 0` and `right(z)` where `z > 0`, polynomials in `z`."""
    import sympy

    z, _ = scale()
    total = sympy.Integer(0)
    for piece, sign in ((left, -1), (right, 1)):
        for (power,), coefficient in sympy.Poly(piece, z).terms():
            total += coefficient * sign**power * _half_moment(power)
    return sympy.simplify(total)


def stein_defect(left: Any, right: Any, a: Any) -> Any:
    """`E[Z h(sZ)] - s E[h'(sZ)]` for `h = left(a)` or `right(a)` on either side of 0.

    `h'` is the derivative apart from 0. The identity of Stein holds along `v` where this is 0; across
    `v` both sides are 0, since there `x` is independent of `x·v`.
    """
    import sympy

    z, s = scale()
    product = half_average(z * left.subs(a, s * z), z * right.subs(a, s * z))
    slope = half_average(*(sympy.diff(piece, a).subs(a, s * z) for piece in (left, right)))
    return sympy.simplify(product - s * slope)


def step_defect(t: Any) -> Any:
    """The same for `h(a) = 1{a > t}`, whose derivative is 0 but for `a = t`: a function of `s`."""
    import sympy

    z, s = scale()
    density = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    return sympy.simplify(sympy.integrate(z * density, (z, t / s, sympy.oo)))


def mean_slope() -> Any:
    """`E g'(sZ)` for ReLU."""
    import sympy

    return half_average(sympy.Integer(0), sympy.Integer(1))


def mean_read() -> Any:
    """The factor of `v` in `E[g(x_i·v) x_i]` for ReLU, from the integral and not from Stein."""
    import sympy

    z, s = scale()
    return sympy.simplify(half_average(sympy.Integer(0), z * (s * z)) / s)


def square_read() -> Any:
    """The factor of `|v|²` in `E[g(x_i·v)² |x_i|²]` for ReLU, in `d`.

    `|x_i|²` is `z²` and the squared length of the rest, which is independent with mean `d - 1`.
    """
    import sympy

    z, s = scale()
    d = symbols()[0]
    found = half_average(sympy.Integer(0), (s * z) ** 2 * (z**2 + d - 1))
    return sympy.factor(found / s**2)


def pair_term() -> Any:
    """`E[g_i g_j x_i·x_j]`, `i ≠ j`: given `x`, a product of means, `mean_read² |Aᵀx|²`."""
    return mean_read() ** 2 * isserlis([("A", "x", "y")] * 2)  # E_y (x'Ay)² = |A'x|²


def cross_term() -> Any:
    """`E[g_i x_i·x]`."""
    return mean_read() * isserlis([("A", "x", "x")])


def diagonal_term() -> Any:
    """`E[g_i² |x_i|²]`."""
    return square_read() * isserlis([("A", "x", "y")] * 2)


def unhalved_term() -> Any:
    """`E[(xᵀAx_i)² |x_i|²]`, which has no ReLU in it."""
    return isserlis([("A", "x", "y")] * 2 + [("I", "y", "y")])


def loss() -> Any:
    """`f(A)` of the note, averaged over `w`: the terms above, as often as they occur."""
    d, n, _, _ = symbols()
    return n * (n - 1) * pair_term() + n * diagonal_term() - 2 * n * cross_term() + d


def isserlis(factors: Sequence[Factor]) -> Any:
    """`E Π xᵀMy` over independent standard normal vectors, a polynomial in `d` and traces."""
    import sympy

    d = symbols()[0]
    ends = [end for _, left, right in factors for end in (left, right)]
    slots = [[i for i, name in enumerate(ends) if name == vector] for vector in sorted({*ends})]
    total = sympy.Integer(0)
    for pairings in itertools.product(*(list(_pairings(group)) for group in slots)):
        partner = {}
        for i, j in itertools.chain.from_iterable(pairings):
            partner[i], partner[j] = j, i
        term = sympy.Integer(1)
        for word in _loops([name for name, _, _ in factors], partner):
            term *= _trace(word) if word else d
        total += term
    return sympy.factor(total)


def by_entries(factors: Sequence[Factor], dim: int) -> Any:
    """The same in dimension `dim`, monomial by monomial; matrices have symbols for entries."""
    import sympy

    ends = sorted({end for factor in factors for end in factor[1:]})
    parts = {name: sympy.symbols(f"{name}:{dim}", real=True) for name in ends}
    product = sympy.Integer(1)
    for name, left, right in factors:
        matrix = sympy.eye(dim) if name == "I" else entries(name, dim)
        product *= (sympy.Matrix([parts[left]]) * matrix * sympy.Matrix(parts[right]))[0]
    total = sympy.Integer(0)
    for powers, coefficient in sympy.Poly(product, *itertools.chain(*parts.values())).terms():
        if all(power % 2 == 0 for power in powers):
            moments = (sympy.factorial2(power - 1) for power in powers if power)
            total += coefficient * sympy.prod(moments)
    return sympy.expand(total)


def entries(name: str, dim: int) -> Any:
    """A matrix with a symbol for each entry."""
    import sympy

    return sympy.Matrix(dim, dim, lambda i, j: sympy.Symbol(f"{name}_{i}{j}", real=True))


def rational(value: Fraction) -> Any:
    """SymPy's form of a fraction."""
    import sympy

    return sympy.Rational(value.numerator, value.denominator)


def vanishes(difference: Any) -> bool:
    """Whether SymPy simplifies `difference` to 0."""
    import sympy

    return sympy.simplify(difference) == 0


@functools.cache
def _half_moment(power: int) -> Any:
    """`E[Z^power; Z > 0]`."""
    import sympy

    z = sympy.Symbol("z", positive=True)
    density = sympy.exp(-(z**2) / 2) / sympy.sqrt(2 * sympy.pi)
    return sympy.integrate(z**power * density, (z, 0, sympy.oo))


def _pairings(slots: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All ways to pair up the slots: none where their number is odd."""
    if not slots:
        yield []
        return
    first, rest = slots[0], slots[1:]
    for k, other in enumerate(rest):
        for more in _pairings(rest[:k] + rest[k + 1 :]):
            yield [(first, other), *more]


def _loops(names: list[str], partner: dict[int, int]) -> Iterator[tuple[tuple[str, bool], ...]]:
    """The closed loops of a pairing as words `(matrix, transposed)`, identities left out.

    Factor `k` has the slots `2k`, its left end, and `2k + 1`. Entered at the right, it is transposed.
    """
    todo = set(range(len(names)))
    while todo:
        start = slot = 2 * min(todo)
        word = []
        while True:
            factor, transposed = divmod(slot, 2)
            todo.discard(factor)
            if names[factor] != "I":
                word.append((names[factor], bool(transposed)))
            slot = partner[slot ^ 1]
            if slot == start:
                break
        yield tuple(word)


def _trace(word: tuple[tuple[str, bool], ...]) -> Any:
    """A symbol for the trace, the same for all rotations of the word and for its transpose."""
    import sympy

    back = tuple((name, not transposed) for name, transposed in reversed(word))
    turns = [w[k:] + w[:k] for w in (word, back) for k in range(len(word))]
    text = "".join(name + "ᵀ" * transposed for name, transposed in min(turns))
    return sympy.Symbol(f"tr({text})", real=True)
