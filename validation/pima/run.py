"""The work of the report: fit, sample the same posterior, compare; with times and versions, without words."""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.datasets.dataset import Dataset
from validation.pima.compare import Comparison, Tolerances, compare
from validation.reporting.files import plain
from validation.reporting.versions import versions_of
from validation.sampling import latent
from validation.sampling.chain import default_sampler

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

PACKAGES = ("bayesgp-mf", "numpy", "scipy", "xarray", "arviz", "pymc", "pytensor", "nutpie", "matplotlib")


@dataclass(frozen=True, slots=True)
class Settings:
    """What was chosen: the sampler and its length, the seeds, the tolerances."""

    sampler: str = field(default_factory=default_sampler)
    draws: int = 2500
    tune: int = 1000
    chains: int = 4
    cores: int = 2
    seed_fit: int = 1
    seed_predict: int = 2
    seed_sampler: int = 3
    tolerances: Tolerances = field(default_factory=Tolerances)


@dataclass(frozen=True, slots=True)
class Run:
    """All that the report is made of.

    Attributes
    ----------
    dataset : Dataset
        What was fitted.
    settings : Settings
        What was chosen.
    tap, nuts : InferenceData or DataTree
        The fit and the samples, both with predictions for the test cases.
    comparison : Comparison
        Numbers and verdicts.
    notes : list of str
        What the fit warned of.
    seconds : dict
        Wall-clock time by what it was spent on: with one BLAS thread, and as many chains at once as there are cores.
    versions : dict
        Version by package; None where it is not installed.
    """

    dataset: Dataset
    settings: Settings
    tap: Container
    nuts: Container
    comparison: Comparison
    notes: list[str]
    seconds: dict[str, float]
    versions: dict[str, str | None]

    @property
    def positive_class(self) -> str:
        """The class whose probability is predicted."""
        return self.dataset.class_names[1]

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Tuned values by name, with the names of inputs in place of their numbers."""
        fit = get_group(self.tap, "fit")
        best = int(np.argmax(fit["hyper_log_evidence"].values))
        names = [_with_features(str(name), self.dataset) for name in fit["hyper"].values]
        return dict(zip(names, np.exp(fit["hyper_end"].values[best]).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return everything but draws and times as plain numbers, lists and text: the same for the same seeds."""
        fit = get_group(self.tap, "fit")
        numbers = {
            "dataset": repr(self.dataset),
            "settings": asdict(self.settings),
            "status": fit.attrs["status"],
            "iterations": int(fit["n_iterations"]),
            "residual": float(fit["residual"]),
            "mean_error": float(fit["mean_error"]),
            "rounding": float(fit["rounding"]),
            "evidence_kind": fit.attrs["evidence_kind"],
            "hyperparameters": self.hyperparameters,
            "search_log_evidence": fit["hyper_log_evidence"].values,
            "search_evaluations": fit["hyper_n_evaluations"].values,
            "notes": self.notes,
            "versions": self.versions,
        }
        result: dict[str, Any] = self.comparison.to_dict() | plain(numbers)
        return result


def run(dataset: Dataset, settings: Settings, say: Callable[[str], None]) -> Run:
    """Fit a data set by TAP, sample the same posterior by NUTS, and compare.

    Parameters
    ----------
    dataset : Dataset
        With two classes and a test set.
    settings : Settings
        Sampler, seeds, tolerances.
    say : callable
        Called with a line of text before each part of the work.
    """
    likelihood = bgp.Probit(noise_variance=1.0)
    labels = dataset.y_test == dataset.class_names[1]
    clock = _Clock()
    say(f"Fitting {dataset.X.shape[0]} cases by TAP, hyperparameters by maximum evidence ...")
    with clock("TAP: fit with search for hyperparameters"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bgp.BoundWarning)
        warnings.simplefilter("always", bgp.ConvergenceWarning)
        tap = fit(dataset, likelihood, settings)
    with clock("TAP: predictions with draws"):
        bgp.predict(tap, dataset.X_test, random_seed=settings.seed_predict)
    posterior = bgp.posterior(tap)
    gram, t = posterior.problem.gram, posterior.problem.t
    clock.seconds["TAP: one solution at fixed hyperparameters"] = _median_time(lambda: bgp.solve(gram, t, likelihood))
    total = settings.chains * (settings.draws + settings.tune)
    say(f"Sampling the same posterior: {total} iterations of NUTS ({settings.sampler}), compiled first ...")
    with clock("NUTS: compilation, tuning, draws, log likelihood"):
        nuts = latent.sample_latent(
            gram,
            t,
            likelihood,
            draws=settings.draws,
            tune=settings.tune,
            chains=settings.chains,
            cores=settings.cores,
            random_seed=settings.seed_sampler,
            sampler=settings.sampler,
        )
    if (sampling := get_group(nuts, "posterior").attrs.get("sampling_time")) is not None:
        clock.seconds["NUTS: of this, tuning and draws"] = float(sampling)
    with clock("NUTS: predictions"):
        latent.add_predictions(nuts, posterior.kernel, posterior.X, dataset.X_test, likelihood)
    say("Comparing ...")
    with clock("Comparison"):
        comparison = compare(tap, nuts, labels, settings.tolerances)
    notes = [_with_features(str(warning.message), dataset) for warning in caught]
    nuts = latent.without_times(nuts)
    return Run(dataset, settings, tap, nuts, comparison, notes, clock.seconds, versions_of(PACKAGES))


def fit(dataset: Dataset, likelihood: bgp.Probit, settings: Settings) -> Container:
    """Fit by TAP with a length scale for each input, tuned by maximum evidence."""
    kernel = bgp.kernels.Gaussian(lengthscale=np.ones(dataset.X.shape[1]), variance=1.0) + bgp.kernels.Bias(1.0)
    X = pd.DataFrame(dataset.X, columns=list(dataset.feature_names))
    return bgp.fit(
        X,
        dataset.y,
        kernel,
        likelihood,
        method="tap",
        hyper="evidence",
        random_seed=settings.seed_fit,
        progress=sys.stdout.isatty(),
    )


class _Clock:
    """Measures named parts of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started


def _median_time(work: Callable[[], object], repeats: int = 5) -> float:
    clock = _Clock()
    for k in range(repeats):
        with clock(str(k)):
            work()
    return statistics.median(clock.seconds.values())


def _with_features(text: str, dataset: Dataset) -> str:
    """Put the names of inputs in place of their numbers in brackets."""
    for i, feature in enumerate(dataset.feature_names):
        text = text.replace(f"[{i}]", f"[{feature}]")
    return text
