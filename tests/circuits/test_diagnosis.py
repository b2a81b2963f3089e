"""Patterns as numbers, roles, modes, and the nearest algorithm, on circuits made to have them."""

import jax
import numpy as np
import pytest

import attnlab as al
from attnlab.circuits import Circuits, diagnose, extract
from attnlab.circuits.patterns import first_order
from attnlab.errors import InvalidArgument
from attnlab.students import Normalization, affine, get_normalization, squared_affine
from attnlab.tasks import kac_murdock_szego

KEY = jax.random.key(7)
TASK = al.InContextRegression(5, 40)
TWO_TASKS = al.InContextRegression(6, 40, supports=((0, 1, 2, 3), (2, 3, 4, 5)))
FOUR = al.KernelHeads([0.13, -0.13, 0.005, -0.13], [3.5, -1.7, 0.1, -1.8])


def of(omega, mu, dim=5, **options):
    return extract(al.KernelHeads(omega, mu, **options), dim=dim)


def test_perfect_patterns_are_perfect_numbers():
    found = diagnose(of([0.13, -0.13], [3.5, -3.5]))
    assert found.role == ("positive", "negative")
    assert all(value == 0 for value in found.worst.values())
    assert found.layer.sign_matching == 1.0
    assert found.layer.zero_sum == pytest.approx([0.0])
    assert found.layer.omega_spread == pytest.approx(0.0)
    assert found.effective_step == pytest.approx(2 * 0.13 * 3.5)
    np.testing.assert_allclose(found.layer.effective_matrix[0], 0.91 * np.eye(5), atol=1e-15)
    assert found.references[0].name == "I"
    np.testing.assert_allclose(found.references[0].cosine, [1, -1])
    np.testing.assert_allclose(found.references[0].distance, 0, atol=1e-15)
    np.testing.assert_array_equal(found.omega, [0.13, -0.13])
    np.testing.assert_array_equal(found.mu, [3.5, -3.5])
    assert found.tasks is None
    assert found.comparison is None


def test_each_departure_is_its_own_number():
    """One entry of size a changed in a matrix whose other entries have norm b: a/√(a²+b²)."""

    def changed(kq=None, ov=None):
        base = of([0.2, -0.2], [3.0, -3.0])
        matrices = base.kq.copy(), base.ov.copy()
        for matrix, entries in zip(matrices, (kq or {}, ov or {})):
            for place, value in entries.items():
                matrix[(1, *place)] = value
        return diagnose(Circuits(*matrices, dim=5)).worst

    share = 0.3 / np.sqrt(0.3**2 + 5 * 0.2**2)
    none = dict.fromkeys(diagnose(of([0.2], [3.0])).worst, 0.0)
    expected = {**none, "off_diagonal": share, "identity_distance": share}
    assert changed({(0, 3): 0.3}) == pytest.approx(expected)
    expected = {**none, "label_rows": share, "identity_distance": share}
    assert changed({(5, 2): 0.3}) == pytest.approx(expected)
    share = 4.0 / 5.0
    assert changed(ov={(5, 1): 4.0}) == pytest.approx({**none, "ov_covariates": share})
    diagonal = np.array([-0.2, -0.2, -0.2, -0.2, -0.7])
    share = np.sqrt(np.sum((diagonal + 0.3) ** 2) / np.sum(diagonal**2))
    expected = {**none, "diagonal_spread": share, "identity_distance": share}
    assert changed({(4, 4): -0.7}) == pytest.approx(expected)
    # entries that meet the query's label, or are not read, are no departure
    assert changed({(2, 5): 9.0, (5, 5): 9.0}, {(2, 5): 9.0, (0, 0): 9.0}) == pytest.approx(none)
    mixing = Circuits(
        np.zeros((1, 3, 3)), [[[0, 0, 0], [0, 3.0, 4.0], [0, 0, 0]]], dim=1, n_outputs=2
    )
    assert diagnose(mixing).patterns.ov_mixing == pytest.approx([0.8])


def test_relations_between_heads():
    found = diagnose(of([0.1, -0.2, 0.3], [2.0, -3.0, -1.0]))
    assert found.role == ("positive", "negative", "mixed")
    assert found.layer.sign_matching == pytest.approx(2 / 3)
    assert found.layer.zero_sum == pytest.approx([2 / 6])
    assert found.layer.averaging == pytest.approx([-2.0])
    sizes = np.array([0.1, 0.2, 0.3])
    assert found.layer.omega_spread == pytest.approx(sizes.std() / sizes.mean())
    assert found.effective_step == pytest.approx(0.2 + 0.6 - 0.3)


def test_roles_and_their_threshold():
    assert diagnose(extract(FOUR, dim=5)).role == ("positive", "negative", "dummy", "negative")
    assert diagnose(extract(FOUR, dim=5), dummy=0.01).role[2] == "positive"
    # a head without output is a dummy whatever its scores; one that averages is not
    assert diagnose(of([0.1, 0.5, 0.0], [2.0, 0.0, 1.0])).role == ("positive", "dummy", "mixed")
    # a head of small output and large scores takes part
    assert diagnose(of([0.01, 2.0], [50.0, 1.0])).role == ("positive", "positive")
    assert diagnose(of([0.0, 0.0], [0.0, 0.0])).role == ("dummy", "dummy")
    assert diagnose(of([1e-9], [1e-9])).role == ("positive",)


@pytest.mark.parametrize(
    ("normalization", "slope"),
    [
        ("softmax", 1.0),
        (affine(0.5), 0.5),
        (squared_affine(0.8), 1.6),
        ("linear", 1.0),
        ("relu", 0.5),
        (
            Normalization(
                "own", lambda s, axis: (1 + 3 * s) / (1 + 3 * s).sum(axis, keepdims=True)
            ),
            3.0,
        ),
    ],
    ids=["softmax", "affine", "squared", "linear", "relu", "own"],
)
def test_first_order_of_normalisations_gives_the_effective_step(normalization, slope):
    assert first_order(get_normalization(normalization)) == pytest.approx(slope, rel=1e-6)
    # at small scores two opposite heads are a gradient step of this size
    omega, mu = 0.002 / slope, 250.0
    circuits = of([omega, -omega], [mu, -mu], normalization=normalization)
    found = diagnose(circuits, task=TASK, key=KEY, prompts=400)
    assert found.effective_step == pytest.approx(1.0, rel=1e-6)
    closest = found.comparison.closest
    wanted = "gradient descent" if normalization in ("linear", "relu") else "debiased"
    assert closest.name.startswith(wanted)
    assert closest.fit["step"] == pytest.approx(1.0, abs=2e-3)
    assert closest.value < 0.01 * found.comparison.size


def test_nearest_estimators_of_layers_that_are_one():
    opposite = diagnose(of([0.05, -0.05], [9.0, -9.0]), task=TASK, key=KEY, prompts=400).comparison
    assert [row.name for row in opposite.estimators[:2]] == [
        "debiased gradient descent",
        "gradient descent",
    ]
    # what separates the two is far beyond the standard errors
    near, far = opposite.estimators[:2]
    assert far.value - near.value > 5 * np.hypot(near.error, far.error)
    values = [row.value for row in opposite.estimators]
    assert values == sorted(values)
    assert opposite.estimators[-1].name == "zero"
    assert opposite.estimators[-1].value == pytest.approx(opposite.size)

    single = diagnose(of([0.52], [1.42]), task=TASK, key=KEY, prompts=400).comparison
    assert single.closest.name == "kernel regressor"
    assert single.closest.fit == pytest.approx({"omega": 0.52, "mu": 1.42}, abs=1e-4)
    assert single.closest.value < 1e-4
    nothing = diagnose(of([0.5], [0.0]), task=TASK, key=KEY, prompts=400).comparison
    assert nothing.closest.value == 0.0
    assert nothing.size == 0.0


def test_distance_and_its_standard_error():
    """Two gradient steps differ by (a - b) times the step: its mean square is known in closed form,
    `(d+1)/L + 1 + dσ²/L` per unit step."""
    circuits = of([1.0], [0.7], normalization="linear")
    row = next(
        r
        for r in diagnose(circuits, task=TASK, key=KEY, prompts=20_000).comparison.estimators
        if r.name == "zero"
    )
    exact = 0.7 * np.sqrt(1 + 6 / 40 + 5 * 0.1 / 40)
    assert abs(row.value - exact) < 4.5 * row.error
    assert 0 < row.error < 0.02 * exact


def test_reductions_keep_what_they_say():
    rng = np.random.default_rng(2)
    full = 0.1 * (np.eye(5) + 0.3 * rng.normal(size=(5, 5)))
    found = diagnose(of(np.stack([full, -full]), [4.0, -4.0]), task=TASK, key=KEY, prompts=400)
    scalar, diagonal, matrix = (row.value for row in found.comparison.reductions)
    assert matrix < 1e-9
    assert diagonal > 0.01
    assert scalar > 0.01
    heads = diagnose(of(np.stack([full, -full]), [4.0, -4.0]), form="matrix").heads
    np.testing.assert_allclose(heads.omega, [full, -full])
    assert found.heads.omega == pytest.approx([np.trace(full) / 5, -np.trace(full) / 5])


def test_anisotropic_layers_against_both_inverses():
    task = al.InContextRegression(4, 20, covariance=kac_murdock_szego(4))
    best = np.linalg.inv(al.estimators.optimal_preconditioner(task))
    circuits = of(0.02 * np.stack([best, -best]), [20.0, -20.0], dim=4)
    found = diagnose(circuits, task=task, key=KEY, prompts=400, references={"own": np.ones((4, 4))})
    by_name = {r.name: r for r in found.references}
    assert list(by_name) == ["I", "Σ⁻¹", "Γ̃⁻¹", "own"]
    np.testing.assert_allclose(by_name["Γ̃⁻¹"].distance, 0, atol=1e-12)
    np.testing.assert_allclose(by_name["Γ̃⁻¹"].layer_cosine, 1)
    inverse = np.linalg.inv(task.covariance_matrix)
    cosine = np.sum(best * inverse) / np.linalg.norm(best) / np.linalg.norm(inverse)
    np.testing.assert_allclose(by_name["Σ⁻¹"].cosine, [cosine, -cosine])
    np.testing.assert_allclose(by_name["Σ⁻¹"].distance, np.sqrt(1 - cosine**2))
    assert by_name["I"].distance[0] > by_name["Σ⁻¹"].distance[0]
    assert "preconditioned" in found.comparison.closest.name


def superposed():
    """Three heads for two tasks: outputs that cancel, steps η = 0.9 on each support and 0 outside
    (conditions (C.5) and (C.6)), by least squares."""
    mu = 3 * np.array([[-1.0, -2.0], [2.0, 1.0], [-1.0, 1.0]])
    steps = 0.9 * TWO_TASKS.support_mask
    return np.linalg.pinv(mu.T) @ steps, mu


MODES = {
    "I": ([[0.42, 0.42, 0.5, 0.5, 0.42, 0.42]], [[1.4, 1.4]]),
    "II": (
        np.outer([1, -1], [0.12, 0.12, 0.13, 0.13, 0.12, 0.12]),
        [[3.0, 3.0], [-3.0, -3.0]],
    ),
    "III": (
        0.12 * np.array([[1, 1, 1, 1, 0, 0], [-1, -1, -1, -1, 0, 0], [0, 0, 1, 1, 1, 1],
                         [0, 0, -1, -1, -1, -1]]),
        [[3.5, 0], [-3.5, 0], [0, 3.5], [0, -3.5]],
    ),
    "IV": superposed(),
    "none": (0.1 * np.eye(3, 6), [[1.0, 2.0], [2.0, -1.0], [3.0, 1.0]]),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_several_tasks(mode):
    omega, mu = (np.array(part, float) for part in MODES[mode])
    circuits = of(omega, mu, dim=6)
    found = diagnose(circuits, task=TWO_TASKS, key=KEY, prompts=400)
    assert found.tasks.mode == mode
    step = np.einsum("hn,hi->ni", mu, omega)
    np.testing.assert_allclose(found.tasks.step, step, atol=1e-12)
    np.testing.assert_allclose(found.tasks.inside, [step[0, :4].mean(), step[1, 2:].mean()])
    leaks = [
        np.sqrt(np.mean(step[n, out] ** 2) / np.mean(step[n, inn] ** 2))
        for n, (inn, out) in enumerate([([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1])])
    ]
    np.testing.assert_allclose(found.tasks.leak, leaks, atol=1e-12)
    groups = found.tasks.groups
    assert groups[0] == groups[1] != groups[2] == groups[3] != groups[4] == groups[5]
    names = [row.name for row in found.comparison.estimators]
    if mode in ("III", "IV"):
        assert found.comparison.closest.name == "independent debiased gradient descent"
        np.testing.assert_allclose(found.layer.zero_sum, 0, atol=1e-12)
        np.testing.assert_allclose(found.tasks.inside_spread, 0, atol=1e-12)
        np.testing.assert_allclose(found.tasks.group_spread, 0, atol=1e-12)
    if mode == "II":
        assert names[0] == "debiased gradient descent"
    if mode == "I":
        assert names[0] == "kernel regressor"
    if mode == "III":
        assert found.roles.by_task == (
            ("positive", "dummy"),
            ("negative", "dummy"),
            ("dummy", "positive"),
            ("dummy", "negative"),
        )
        np.testing.assert_array_equal(found.tasks.support[0], [1, 1, 1, 1, 0, 0])
    if mode == "IV":
        # a negative head, a positive head, and one with both signs
        assert found.role[:2] == ("negative", "positive")
        assert found.roles.by_task[2] == ("negative", "positive")
        assert found.role[2] == "mixed"
        np.testing.assert_array_equal(found.tasks.support[2], [1, 1, 0, 0, 1, 1])


def test_outputs_that_read_other_labels_are_no_mode_of_their_own():
    omega, mu = MODES["III"]
    base = of(omega, mu, dim=6)
    ov = base.ov.copy()
    ov[:, 6, 7] = [0.0, 0.0, 2.0, -2.0]  # output 0 reads label 1 through the heads of task 1
    found = diagnose(
        Circuits(base.kq, ov, dim=6, n_outputs=2), task=TWO_TASKS, key=KEY, prompts=400
    )
    assert found.tasks.mode == "mixing"
    expected = np.zeros((2, 2, 6))
    expected[0, 0, :4] = expected[1, 1, 2:] = 2 * 0.12 * 3.5
    expected[0, 1, 2:] = 2 * 0.12 * 2.0
    np.testing.assert_allclose(found.tasks.label_step, expected, atol=1e-12)
    cross = 2 * 0.12 * 2.0 * np.sqrt(4 / 6) / (2 * 0.12 * 3.5)
    np.testing.assert_allclose(found.tasks.cross, [cross, 0], atol=1e-12)
    # what mixes is not in the reduction
    assert found.comparison.reductions[1].value > 0.1
    assert "each other's labels" in str(found)
    assert diagnose(base, task=TWO_TASKS, key=KEY, prompts=400).tasks.cross == pytest.approx([0, 0])


def test_table_and_dataset_hold_the_numbers():
    found = diagnose(extract(FOUR, dim=5), task=TASK, key=KEY, prompts=400)
    text = str(found)
    for part in ("4 heads", "dummy", "effective step", "debiased gradient descent", "own scalar"):
        assert part in text
    assert max(map(len, text.splitlines())) < 100
    data = found.to_dataset()
    assert dict(data.sizes)["head"] == 4
    assert data.role.values.tolist() == list(found.role)
    np.testing.assert_array_equal(data.omega, found.omega)
    assert float(data.distance.sel(estimator="ridge")) > float(data.distance[0]) > 0
    assert float(data.effective_step[0]) == found.effective_step
    several = diagnose(of(*MODES["IV"], dim=6), task=TWO_TASKS, key=KEY, prompts=400)
    assert "superposition" in str(several)
    assert several.to_dataset()["mode"].item() == "IV"
    # without a task: matrices only
    alone = diagnose(extract(FOUR, dim=5))
    assert "distance in prediction" not in str(alone)
    assert "distance" not in alone.to_dataset()
    assert "mode" not in diagnose(of(*MODES["IV"], dim=6)).to_dataset()


def test_the_sample_is_that_of_the_key():
    circuits = of([0.1, -0.1], [4.0, -4.0])
    first, again, other = (
        diagnose(circuits, task=TASK, key=key, prompts=400).comparison
        for key in (KEY, KEY, jax.random.key(8))
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dummy": 0.0}, "dummy"),
        ({"dummy": 1.0}, "dummy"),
        ({"zero_sum": -0.1}, "zero_sum"),
        ({"leak": 2}, "leak"),
        ({"parallel": float("nan")}, "parallel"),
        ({"form": "full"}, "form"),
        ({"task": TASK}, "key"),
        ({"key": KEY}, "key"),
        ({"task": "regression", "key": KEY}, "task"),
        ({"task": TASK, "key": 3}, "key"),
        ({"task": TASK, "key": KEY, "prompts": 1}, "prompts"),
        ({"task": TWO_TASKS, "key": KEY}, "task"),
        ({"task": al.InContextRegression(4, 9), "key": KEY}, "dim = 5"),
        ({"references": np.eye(5)}, "references"),
        ({"references": {"a": np.eye(4)}}, "references"),
        ({"references": {"a": np.zeros((5, 5))}}, "references"),
        ({"references": {"a": "x"}}, "references"),
    ],
)
def test_bad_options_are_refused(options, named):
    with pytest.raises(InvalidArgument, match=named):
        diagnose(of([0.1], [1.0]), **options)


def test_layers_have_to_be_extracted_first():
    with pytest.raises(InvalidArgument, match="extract"):
        diagnose(al.KernelHeads([0.1], [1.0]))
