"""What the crabs and Pima tables share: hyperparameters by an evidence, and scans of leave-one-out counts.

The model is that of the papers: a Gaussian kernel with a width for each input, v_0 = 1, a threshold v_1 and kernel
noise v_2 (2000, appendix B), and a step likelihood without noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, LogNormal, Target
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.kernels import Gaussian, Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.tables.selection import NAMES, Choice, Counts, Split, choose, count, errors_on_test_set, solve

STARTS = 3
PRIOR_MEAN, PRIOR_SD = -3.0, 3.0
PRIORS = {
    "lengthscale": LogNormal(PRIOR_MEAN, PRIOR_SD, power=-2.0),  # on w_l = lengthscale^-2
    "variance": LogNormal(PRIOR_MEAN, PRIOR_SD),
}
"""Of each log hyperparameter, log w_l and log v_0 (1996, section 3)."""
LAPLACE_START = np.exp(1.0)
"""Length scale where the searches with Laplace's approximation start: log w_l = -2, log v_0 = 0 (1996, section 3)."""
LEFT_OUT = 100.0
"""A length scale above this many standard deviations of its input leaves the input out."""


@dataclass(frozen=True, slots=True, eq=False)
class Hyperparameters:
    """Hyperparameters in units of the kernel's own variance, v_0 = 1.

    Attributes
    ----------
    lengthscale : (d,) array
        1/sqrt(w_l), in standard deviations of the inputs.
    noise : float
        v_2, the term on the diagonal.
    threshold : float
        v_1.
    """

    lengthscale: Array
    noise: float = 0.0
    threshold: float = 0.0

    @property
    def kernel(self) -> Kernel:
        """The kernel, with the terms that are not zero."""
        kernel: Kernel = Gaussian(self.lengthscale)
        if self.threshold:
            kernel = kernel + bgp.kernels.Bias(self.threshold)
        return kernel + bgp.kernels.White(self.noise) if self.noise else kernel


class Scanned(NamedTuple):
    """A scan over noise and threshold, and the choice from it.

    Attributes
    ----------
    chosen : Hyperparameters
        Of the least leave-one-out count.
    choice : Choice
        Counts of errors there, and all neighbours with the same leave-one-out count.
    counts : list of Counts
        All of them; their value is the noise.
    """

    chosen: Hyperparameters
    choice: Choice
    counts: list[Counts]


def describe_scales(lengthscale: Array, names: Iterable[str]) -> str:
    """Return length scales by name, without those that leave their input out."""
    kept = [f"{name} {scale:.3g}" for name, scale in zip(names, lengthscale, strict=True) if scale < LEFT_OUT]
    rest = lengthscale.size - len(kept)
    return f"length scales {', '.join(kept)}" + (f" ({rest} inputs left out)" if rest else "")


def tuned(split: Split, kernel: Kernel, likelihood: Likelihood, method: str, starts: int = STARTS) -> Kernel:
    """Return the kernel of the highest evidence of a method, from the given start and random ones around it."""
    return _highest(Target(split.X, split.t, likelihood, kernel, get_method(method)), starts)


def _highest(target: Target, starts: int) -> Kernel:
    with warnings.catch_warnings():
        # inputs that hardly matter run to the end of the search; the length scales say so themselves
        warnings.simplefilter("ignore", bgp.BoundWarning)
        # where the search turned back from a point without a solution it went on; that it did not finish is still said
        warnings.filterwarnings("ignore", "at .* points of the search", bgp.ConvergenceWarning)
        (best,) = Evidence(starts).choose(target, np.random.default_rng(0), lambda note: None).kernels
    return best


def laplace_start(split: Split) -> Gaussian:
    """Return the kernel v_0 exp(-sum_l w_l (x_l - x'_l)^2 / 2) where the 1996 paper starts (eq. 8, section 3)."""
    return Gaussian(np.full(split.X.shape[1], LAPLACE_START))


def laplace_ml(split: Split, starts: int = STARTS) -> Kernel:
    """Return the kernel of the highest Laplace evidence, logistic likelihood: maximum likelihood II."""
    return tuned(split, laplace_start(split), bgp.Logit(), "laplace", starts)


def laplace_map(split: Split) -> Kernel:
    """Return the kernel of the highest Laplace evidence times the prior of the 1996 paper.

    Each of log w_1, ..., log w_d and log v_0 is normal with mean -3 and standard deviation 3 (1996, section 3).
    """
    target = Target(split.X, split.t, bgp.Logit(), laplace_start(split), get_method("laplace"), priors=PRIORS)
    return _highest(target, starts=1)


def uniform_start(split: Split) -> Gaussian:
    """Return the Gaussian kernel with w_l = 1/d for all inputs, from where an evidence is maximised."""
    d = split.X.shape[1]
    return Gaussian(np.full(d, np.sqrt(d)))


def by_evidence(split: Split, start: Gaussian, method: str, *, threshold: bool = False) -> Hyperparameters:
    """Return the hyperparameters of the highest evidence of a method: widths, noise and, if wanted, a threshold."""
    terms: list[Kernel] = [start]
    likelihood: Likelihood = bgp.Probit(noise_variance=1.0)
    if threshold:
        terms.append(bgp.kernels.Bias(1.0))
    if method == "variational":  # the one for which noise in the likelihood would be another theory
        terms.append(bgp.kernels.White(1.0))
        likelihood = bgp.Step()
    found = tuned(split, bgp.kernels.Sum(*terms), likelihood, method).params
    scale = float(found["gaussian_variance"])
    return Hyperparameters(
        np.broadcast_to(found["gaussian_lengthscale"], split.X.shape[1]),
        float(found.get("white_variance", 1.0)) / scale,
        float(found.get("bias_variance", 0.0)) / scale,
    )


def fit(split: Split, kernel: Kernel, likelihood: Likelihood, method: str) -> tuple[Solution, int]:
    """Solve for the training set, and count the test cases on the wrong side of the posterior mean."""
    _, solution = solve(split, kernel, method, likelihood)
    return solution, errors_on_test_set(split, kernel, solution)


def fit_at(split: Split, at: Hyperparameters, method: str) -> tuple[Solution, int]:
    """Solve at given hyperparameters as in `fit`, with the noise where the method wants it."""
    if method == "laplace":  # a step has no curvature; with the noise in the likelihood the model is the same
        return fit(split, replace(at, noise=0.0).kernel, bgp.Probit(noise_variance=at.noise), method)
    return fit(split, at.kernel, bgp.Step(), method)


def scan(
    split: Split,
    lengthscale: Array,
    method: str,
    noises: Iterable[float],
    thresholds: Iterable[float] = (0.0,),
    advance: Callable[[str], None] = lambda note: None,
) -> Scanned:
    """Count errors at all noises and thresholds, and choose by `choose_threshold`."""
    rows: dict[float, list[Counts]] = {}
    for threshold in thresholds:
        rows[threshold] = [
            count(split, Hyperparameters(lengthscale, float(noise), threshold).kernel, method, float(noise))
            for noise in noises
        ]
        advance(f"{NAMES[method]}, threshold {threshold:.2g}")
    threshold, choice = choose_threshold(rows)
    chosen = Hyperparameters(lengthscale, choice.best.value, threshold)
    return Scanned(chosen, choice, [counts for row in rows.values() for counts in row])


def choose_threshold(rows: Mapping[float, Sequence[Counts]]) -> tuple[float, Choice]:
    """Choose among thresholds and noises by the rule of `selection.choose`.

    A stretch of neighbours has one threshold. Of several thresholds with the least leave-one-out count, the one with
    the longest stretch is chosen.

    Parameters
    ----------
    rows : dict
        For each threshold the counts at all noises.

    Returns
    -------
    threshold : float
        The one that is chosen.
    choice : Choice
        The counts that are chosen, and the stretches of all thresholds.
    """
    choices = {threshold: choose(row) for threshold, row in rows.items()}
    least = min(choice.best.loo for choice in choices.values())
    with_least = {threshold: choice for threshold, choice in choices.items() if choice.best.loo == least}
    chosen = max(with_least, key=lambda threshold: max(len(stretch) for stretch in with_least[threshold].stretches))
    all_stretches = tuple(stretch for choice in with_least.values() for stretch in choice.stretches)
    return chosen, Choice(with_least[chosen].best, all_stretches)
