"""Linear probes: how well logistic regression reads the label from an embedding.

A probe is an l2-penalised logistic regression (scikit-learn) on standardised features. Sentences
are divided into folds, stratified by label; a probe is trained on part of the sentences outside of
a fold and judged on all of the fold, so every sentence is judged once by a probe that has not seen
it. With `unseen="words"` the folds divide the adjectives, so the probe has not seen the word either.

Errors: sentences with the same adjective are right or wrong together, so they are not independent.
With `a_w` the accuracy over the `n_w` of `n` sentences of word `w`, and `ā` that over all,

    SE² = W/(W - 1) Σ_w (n_w/n)² (a_w - ā)²     (W words; the linearised, cluster-robust error),

and the spread of the folds, `std/√folds`, gives a second one. The larger is taken; the band is
Student's t with `folds - 1` degrees of freedom times it, cut to [0, 1]. The folds share training
sentences, so no error of cross-validation is exact (Bengio and Grandvalet, 2004).

`docs/theory/linear-probing`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._core.errors import InvalidArgument, check_choice, check_integer, check_real
from .._core.progress import current_progress
from .installed import require

if TYPE_CHECKING:
    import xarray

CONFIDENCE = 0.95


def probe(
    embeddings: xarray.Dataset,
    *,
    sizes: Sequence[int] | None = None,
    folds: int = 5,
    unseen: Literal["sentences", "words"] = "sentences",
    penalty: float = 1e-2,
    judged_on: xarray.Dataset | None = None,
    seed: int,
) -> xarray.Dataset:
    """Accuracy of a linear probe for each layer, place and number of training sentences.

    **Arguments:** `embeddings` as from `embed`; `sizes`, numbers of training sentences (None: all
    outside of a fold); `folds` of the cross-validation; `unseen`, what the judged sentences do not
    share with those of training; `penalty`, the weight of `|w|²/2` against the mean loss; `judged_on`,
    embeddings of other versions of the same sentences, in the same order, on which the probes are
    judged instead; `seed` of folds and training sets.

    Returns `accuracy`, `error` (standard error), `low` and `high` (a 95 % band), on
    `(layer, place, size)`. Progress is reported. Raises `InvalidArgument`.
    """
    import xarray as xr
    from scipy import stats

    require("scikit-learn")
    from threadpoolctl import threadpool_limits

    folds = check_integer("folds", folds, minimum=3, maximum=50)
    check_choice("unseen", unseen, ("sentences", "words"))
    penalty = check_real("penalty", penalty, low=0, low_open=True)
    values, labels, words = _arrays("embeddings", embeddings)
    other = (values, labels, words) if judged_on is None else _arrays("judged_on", judged_on)
    if other[0].shape != values.shape:
        shapes = f"an array of shape {other[0].shape}", f"of shape {values.shape}"
        raise InvalidArgument("judged_on", *shapes)
    judged_values, truth, judged_words = other
    splits = _splits(labels, words if unseen == "words" else None, folds, seed)
    smallest = min(len(train) for train, _ in splits)
    if smallest < 2:
        allowed = "fewer, so that both labels occur outside of each fold"
        raise InvalidArgument("folds", folds, allowed)
    if sizes is not None and (np.ndim(sizes) != 1 or not len(sizes)):
        raise InvalidArgument("sizes", sizes, "a list of at least one integer")
    sizes = [smallest] if sizes is None else [
        check_integer("sizes", size, minimum=10, maximum=smallest) for size in sizes
    ]  # fmt: skip
    layers, places = embeddings.layer.values, embeddings.place.values
    right = np.zeros((len(layers), len(places), len(sizes), len(labels)), bool)
    progress = current_progress()
    progress.start("probes", len(layers) * len(places))
    # the matrices are small: several threads in one product wait for each other
    limits = threadpool_limits(1)
    try:
        for i in range(len(layers)):
            for j, place in enumerate(places):
                features = values[i, :, j].astype(np.float64)
                seen = judged_values[i, :, j].astype(np.float64)
                for train, judged in splits:
                    for k, size in enumerate(sizes):
                        model = fit(features[train[:size]], labels[train[:size]], penalty)
                        right[i, j, k, judged] = model.predict(seen[judged]) == truth[judged]
                progress.advance(1, f"layer {layers[i]}, {place}")
    finally:
        limits.restore_original_limits()
        progress.stop()
    accuracy = right.mean(-1)
    error = np.maximum(_by_words(right, judged_words), _by_folds(right, splits))
    wide = stats.t.ppf((1 + CONFIDENCE) / 2, folds - 1) * error
    dims = ("layer", "place", "size")
    return xr.Dataset(
        {
            "accuracy": (dims, accuracy),
            "error": (dims, error),
            "low": (dims, np.clip(accuracy - wide, 0, 1)),
            "high": (dims, np.clip(accuracy + wide, 0, 1)),
        },
        coords={"layer": layers, "place": places, "size": list(sizes)},
        attrs={"folds": folds, "unseen": unseen, "penalty": penalty},
    )


def fit(features: np.ndarray, labels: np.ndarray, penalty: float) -> Any:
    """A logistic regression on standardised features; `.predict` and `.decision_function` take the
    features as they are. Raises `InvalidArgument` when only one label occurs."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(np.unique(labels)) < 2:
        raise InvalidArgument("labels", labels, "of both signs")
    # scikit-learn's C weighs the summed loss
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / (penalty * len(labels)), max_iter=1000, tol=1e-4)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return model.fit(features, labels)
        except ConvergenceWarning:
            allowed = "larger: with this one the regression does not converge"
            raise InvalidArgument("penalty", penalty, allowed) from None


def _arrays(name: str, given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings `(layer, sentence, place, feature)`, labels and words. Raises `InvalidArgument`."""
    dims = ("layer", "sentence", "place", "feature")
    try:
        values = given.embedding.transpose(*dims).values
        labels, words = given.label.values, given.word.values.astype(str)
    except (AttributeError, ValueError):
        raise InvalidArgument(name, given, "a dataset as embed gives it") from None
    if 0 in values.shape or not np.isfinite(values).all():
        found = f"an array of shape {values.shape}"
        raise InvalidArgument(name, found, "finite, with at least one entry")
    if not np.isin(labels, (1, -1)).all():
        raise InvalidArgument(f"{name}.label", labels, "each 1 or -1")
    return values, labels, words


def _splits(
    labels: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """`(train, judged)` of each fold; the labels alternate in `train`, so that every even number of
    its first entries holds as many of each."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    seed = check_integer("seed", seed, minimum=0, maximum=2**32 - 1)
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    most = min(np.sum(labels == 1), np.sum(labels == -1))
    if groups is not None:
        most = min(most, len(np.unique(groups)))
    if folds > most:
        what = "sentences of each label" if groups is None else "different words"
        raise InvalidArgument("folds", folds, f"at most {most}, since there are {most} {what}")
    divide = kind(n_splits=folds, shuffle=True, random_state=seed)
    generator = np.random.default_rng(seed)
    splits = []
    for train, judged in divide.split(np.zeros((len(labels), 1)), labels, groups):
        both = [generator.permutation(train[labels[train] == sign]) for sign in (1, -1)]
        count = min(map(len, both))
        splits.append((np.stack([part[:count] for part in both], axis=1).ravel(), judged))
    return splits


def _by_words(right: np.ndarray, words: np.ndarray) -> np.ndarray:
    names, index = np.unique(words, return_inverse=True)
    away = right - right.mean(-1, keepdims=True)
    sums = np.stack([away[..., index == w].sum(-1) for w in range(len(names))], axis=-1)
    correction = len(names) / max(len(names) - 1, 1)
    return np.sqrt(correction * np.sum(sums**2, axis=-1)) / right.shape[-1]


def _by_folds(right: np.ndarray, splits: Any) -> np.ndarray:
    each = np.stack([right[..., judged].mean(-1) for _, judged in splits], axis=-1)
    return each.std(-1, ddof=1) / np.sqrt(len(splits))
