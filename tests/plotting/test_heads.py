"""The figure of a diagnosis of heads, and figures as pages of their own."""

import numpy as np
import pytest

from attnlab import plotting
from attnlab.circuits import Circuits, diagnose_heads
from attnlab.plotting.prepare import plotted_numbers


@pytest.fixture(scope="module")
def layers():
    rng = np.random.default_rng(0)
    return [Circuits(*rng.normal(size=(2, 3, 4, 4)), dim=3) for _ in range(2)]


def test_one_layer_in_detail(layers):
    found = diagnose_heads(layers[0])
    figure = plotting.head_figure(found, title="A layer")
    assert figure.title == "A layer"
    assert "1 layer." in figure.alt
    panels = {panel.title: panel for panel in figure.panels}
    curves = panels["Spectrum of OV"].marks[0].paths
    np.testing.assert_allclose(curves[1][1], np.linalg.svd(layers[0].ov[1])[1])
    ov, kq, _ = panels["Sign of the eigenvalues"].marks
    assert (ov.label, kq.label) == ("OV", "KQ")
    np.testing.assert_allclose(kq.values, [s.sign for s in found.layers[0].kq])
    np.testing.assert_array_equal(panels["KQ of two heads"].marks[0].z, found.layers[0].kq_cosine)
    assert all(panel.x.label and panel.y.label for panel in figure.panels)
    plotted_numbers(figure)


def test_layers_as_maps(layers):
    found = diagnose_heads(layers)
    figure = plotting.head_figure(found)
    panels = {panel.title: panel.marks[0] for panel in figure.panels}
    signs = panels["OV: copying or suppressing"]
    assert signs.limits == (-1, 1)
    np.testing.assert_allclose(signs.z[1], [s.sign for s in found.layers[1].ov])
    balance = panels["KQ: symmetric or antisymmetric"].z
    kq = layers[0].kq[2]
    expected = np.sum(kq * kq.T) / np.sum(kq**2)  # |S|² - |A|² = tr M²
    assert balance[0, 2] == pytest.approx(expected)
    cosine = found.layers[0].ov_cosine
    assert panels["OV: most opposite other head"].z[0, 0] == min(cosine[0, 1:])


def test_a_layer_without_anything_can_be_drawn():
    nothing = Circuits(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), dim=1)
    for found in (diagnose_heads(nothing), diagnose_heads([nothing, nothing])):
        plotted_numbers(plotting.head_figure(found))


def test_a_page_needs_no_network(layers, tmp_path):
    figure = plotting.head_figure(diagnose_heads(layers[0]), title="A < B")
    path = plotting.save_html(figure, tmp_path / "new" / "page.html", text="1 < 2")
    page = path.read_text(encoding="utf-8")
    assert "<h1>A &lt; B</h1>" in page
    assert "<pre>1 &lt; 2</pre>" in page
    assert 'id="figure-6"' in page
    assert "src=" not in page.replace(plotting.plotly_renderer.plotly_script(), "")
