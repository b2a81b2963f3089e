"""What the page shows: numbers that agree with the risks themselves, figures that can be drawn."""

import numpy as np
import pytest

import attnlab as al
from attnlab import explore, plotting
from attnlab.plotting import Heat, Line, Paths


def numbers(view):
    return {quantity: float(value) for quantity, value, _ in view.numbers}


@pytest.fixture(scope="module")
def pointwise():
    task = al.SingleLocation(100, 10, noise_std=0.2)
    student = al.PointwiseAttention("erf", 0.1)
    view = explore.overlaps_view(task, student, kappa=0.5, nu=-0.2, starts=3, steps=200, seed=1)
    return task, student, view


def test_the_map_and_the_point_are_exact_risks(pointwise):
    task, student, view = pointwise
    risk = al.population_risk(task, student)
    found = numbers(view)
    assert found["risk R(κ, ν)"] == pytest.approx(float(risk(al.Overlaps(0.5, -0.2))), rel=1e-5)
    assert found["risk of the teacher"] == pytest.approx(float(risk.teacher), rel=1e-5)
    assert found["told the location"] == pytest.approx(0.04)
    (heat,) = (mark for mark in view.figure.panels[0].marks if isinstance(mark, Heat))
    at = al.Overlaps(heat.x[7], heat.y[40])
    np.testing.assert_allclose(heat.z[40, 7], float(risk(at)), rtol=1e-12)
    assert heat.x[7] != heat.y[40]


def test_descents_descend(pointwise):
    _, _, view = pointwise
    lines = [mark for mark in view.figure.panels[1].marks if isinstance(mark, Line)]
    assert len(lines) == 3
    for line in lines:
        assert (np.diff(line.y) <= 1e-12).all()  # the step size is that of the descent lemma
        assert line.y[-1] < line.y[0] - 0.05
    (paths,) = (mark for mark in view.figure.panels[0].marks if isinstance(mark, Paths))
    assert len(paths.paths) == 3


def test_without_descents_there_is_one_panel(pointwise):
    task, student, _ = pointwise
    view = explore.overlaps_view(task, student, starts=0)
    assert len(view.figure.panels) == 1
    assert numbers(view)["risk R(κ, ν)"] == numbers(view)["risk of the teacher"]


def test_softmax_attention_says_where_it_looks():
    task, student = al.SingleLocation(50, 10), al.SoftmaxAttention(0.8)
    view = explore.overlaps_view(task, student, kappa=0.9, nu=1.0, starts=0)
    law = al.population_risk(task, student).attention(al.Overlaps(0.9, 1.0))
    assert numbers(view)["mass on the informative token"] == pytest.approx(
        float(law.mass), rel=1e-5
    )


def test_the_heads_agree_with_their_risk_everywhere(tmp_path):
    task = al.InContextRegression(3, 20)
    view = explore.heads_view(task, omega=0.1, mu=4.0)
    found = numbers(view)
    risk = al.population_risk(task, al.KernelHeads([0.1, -0.1], [4.0, -4.0]))
    assert found["risk R(ω, μ)"] == pytest.approx(float(risk.value), rel=1e-5)
    heat, valley, _ = view.figure.panels[0].marks
    corner = al.KernelHeads([heat.x[-1], -heat.x[-1]], [heat.y[3], -heat.y[3]])
    exact = al.population_risk(task, corner).value
    np.testing.assert_allclose(heat.z[3, -1], exact, rtol=1e-10)
    # the valley is where the map is least
    for column in (20, 40):
        lowest = heat.y[np.argmin(heat.z[:, column])]
        assert abs(lowest - valley.y[column]) <= heat.y[1] - heat.y[0]
    assert found["least risk at this ω"] <= found["risk R(ω, μ)"]
    assert found["Bayes risk"] < found["one debiased gradient step"] < found["prediction 0"]
    assert len(plotting.save_figure(view.figure, tmp_path / "view")) == 3


@pytest.mark.parametrize(
    "wrong", [{"kappa": 1.5}, {"nu": "a"}, {"starts": -1}, {"steps": 0}, {"seed": 0.5}]
)
def test_points_that_are_none(pointwise, wrong):
    task, student, _ = pointwise
    with pytest.raises(al.InvalidArgument, match=next(iter(wrong))):
        explore.overlaps_view(task, student, **wrong)


@pytest.mark.parametrize("wrong", [{"omega": 1e-5}, {"omega": 0.5}, {"mu": -1}])
def test_heads_that_are_none(wrong):
    with pytest.raises(al.InvalidArgument, match=next(iter(wrong))):
        explore.heads_view(al.InContextRegression(3, 20), **wrong)


def test_tasks_without_a_view_are_refused_at_once():
    for task in (None, al.InContextRegression(3, 20, covariance=np.diag([1.0, 2.0, 3.0]))):
        with pytest.raises(al.InvalidArgument, match="isotropic"):
            explore.heads_view(task)
    with pytest.raises(al.InvalidArgument, match="length"):
        explore.heads_view(al.InContextRegression(3, 1))
    with pytest.raises(al.InvalidArgument, match="fewer than 4"):
        explore.overlaps_view(al.SingleLocation(2, 10), al.PointwiseAttention("erf", 0.1))
    with pytest.raises(al.InvalidArgument, match="length"):
        explore.overlaps_view(al.SingleLocation(20, 1), al.SoftmaxAttention(0.5))
