"""What a solver returns and what its user may choose; no algorithm lives here."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from bayesgp_mf.arguments import check_flags, check_one_of
from bayesgp_mf.errors import Status
from bayesgp_mf.matrices.matrix import Correction, Sites
from bayesgp_mf.notebook import as_html
from bayesgp_mf.types import Array

EvidenceKind = Literal["ep", "lower_bound", "laplace", "naive", "online", "exact", "none"]


@dataclass(frozen=True, slots=True)
class Control:
    """Options of the solver: tolerance, number of steps, and what to do if they do not suffice.

    Parameters
    ----------
    tolerance : float
        The equations count as solved when one more full step would change no site parameter by more than this,
        relative to the parameter or to its prior scale, whichever is larger. The error of the evidence is of the order
        of the square.
    max_iterations : int
        Steps after which the iteration stops unsolved.
    throw : bool
        Raise `ConvergenceError` if the equations were not solved (the default). With False the status
        on the result says so.
    progress : bool
        Show a progress bar if the iteration takes longer than a second.
    scheme : {"fast", "paper"}
        How the mean-field methods iterate: "paper" is the published iteration (2000, section 4), kept as a baseline to
        compare with. It needs hundreds of steps, each of which costs less; raise ``max_iterations``.
    evidence_tolerance : float
        In nats. If positive, a mean-field method may stop as soon as its log evidence is known to this, judged by its
        last steps: enough during a search over hyperparameters. With 0, the default, it never stops sooner. TAP does
        not either if its steps leave out columns of a low-rank root, since it then cannot judge.
    gram : {"auto", "dense", "low_rank"}
        How `fit`, and a density in a PyMC model, keep the Gram matrix. "auto" takes the sparse precision of many areas,
        or a low-rank root if that is faster and leaves out too little to matter (`inference.assembly.assemble`).
        "low_rank" insists on one, and raises an error if there is none.

    Raises
    ------
    ValueError
        If ``tolerance`` is not in (0, 1), ``evidence_tolerance`` is negative, ``max_iterations`` is not a positive
        integer, ``throw`` or ``progress`` not True or False, or there is no such scheme or form of the Gram matrix.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> quick = bgp.Control(tolerance=1e-3, max_iterations=50)
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), control=quick, draws=10, random_seed=1)
    >>> idata["fit"].attrs["status"]
    'CONVERGED'
    """

    tolerance: float = 1e-8
    max_iterations: int = 500
    throw: bool = True
    progress: bool = False
    scheme: Literal["fast", "paper"] = "fast"
    evidence_tolerance: float = 0.0
    gram: Literal["auto", "dense", "low_rank"] = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, numbers.Real) or not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be a number between 0 and 1, got {self.tolerance!r}.")
        if not isinstance(self.evidence_tolerance, numbers.Real) or not 0 <= self.evidence_tolerance < np.inf:
            raise ValueError(
                f"evidence_tolerance must be a number of nats, 0 or more, got {self.evidence_tolerance!r}."
            )
        whole = isinstance(self.max_iterations, numbers.Integral) and not isinstance(self.max_iterations, bool)
        if not whole or self.max_iterations < 1:  # of any size: it is rarely reached
            raise ValueError(f"max_iterations must be a positive integer, got {self.max_iterations!r}.")
        check_flags(throw=self.throw, progress=self.progress)
        check_one_of("scheme", self.scheme, "fast", "paper")
        check_one_of("gram", self.gram, "auto", "dense", "low_rank")

    def check_scheme(self, method: str) -> None:
        """Raise a ValueError unless the scheme is the one that every method has."""
        if self.scheme != "fast":
            raise ValueError(
                f"scheme={self.scheme!r} iterates mean-field equations, which method {method!r} does not solve. Use "
                "method='tap', 'naive' or 'variational', or leave it out."
            )


@dataclass(frozen=True, slots=True)
class Evidence:
    """A log evidence with its kind; evidences of different kinds cannot be compared directly.

    Attributes
    ----------
    value : float
        log p(t), in nats.
    kind : {"ep", "lower_bound", "laplace", "naive", "online", "exact", "none"}
        The approximation it comes from; "none" for a method without one, whose value is an error.
    bound : {"lower", None}
        Whether the value is a guaranteed bound on the true log evidence.
    standard_error : float
        Monte-Carlo standard error in nats; 0 for deterministic methods.
    correction : float or None
        What the second-order correction adds to TAP's value, in nats (`solvers.second_order`); None if it was not
        computed, or does not exist.
    remaining : float or None
        The size of what is left out after that, in nats.
    """

    value: float
    kind: EvidenceKind
    bound: Literal["lower"] | None = None
    standard_error: float = 0.0
    correction: float | None = None
    remaining: float | None = None

    @property
    def corrected(self) -> float:
        """The value with its correction, where there is one."""
        return self.value if self.correction is None else self.value + self.correction

    def __str__(self) -> str:
        if self.correction is None or self.remaining is None:
            places = _places(self.standard_error)
            error = f" ± {self.standard_error:.{places}f}" if self.standard_error else ""
            return f"log evidence {self.value:.{places}f}{error}"
        places = _places(self.remaining)
        return (
            f"log evidence {self.value:.{places}f}, corrected {self.corrected:.{places}f} ± {self.remaining:.{places}f}"
        )


class Cavity(NamedTuple):
    """Gaussian cavity of each case: what the other cases say about its latent value.

    Attributes
    ----------
    mean, variance : (n,) array
        In latent units and their square; the noise of the likelihood is not included.
    """

    mean: Array
    variance: Array


@dataclass(frozen=True, slots=True)
class Info:
    """How the iteration went.

    Attributes
    ----------
    status : Status
        Its value is a sentence.
    n_iterations : int
        Full steps that were evaluated.
    residual : float
        Largest change that one more full step would make, in the units of `Control.tolerance`.
    rank : int or None
        Rank of the Gram matrix if the method used a root of low rank, or the number of inducing cases; None with the
        dense matrix.
    independent : float or None
        With inducing cases, the mean part of the prior variances that they do not explain, which counts as independent
        noise. None otherwise.
    mean_error : float or None
        Largest error of a posterior mean, judged by the equations at the returned solution, in posterior standard
        deviations (`solvers.accuracy`). None if it was not computed.
    rounding : float or None
        Largest change of the log evidence, or of the log density of a case given the others, by rounding in the Gram
        matrix, in nats. None if it was not computed.
    probability_shift : float or None
        Largest change of a probability at training inputs by the second-order correction: about TAP's largest error
        (`processes.probed`). None if it was not measured.
    inducing_error : float or None
        How far the log evidence may be off that of the model on the inducing inputs as they were given, in nats, where
        some nearly repeat each other or are determined by others (`matrices.inducing_points`). None where none are.
    """

    status: Status
    n_iterations: int
    residual: float
    rank: int | None = None
    independent: float | None = None
    mean_error: float | None = None
    rounding: float | None = None
    probability_shift: float | None = None
    inducing_error: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOut:
    """What the other cases predict for each case.

    Attributes
    ----------
    mean, variance : (n,) array
        Of the latent value, in latent units and their square.
    log_density : (n,) array
        Log predictive density of the case's own target, in nats.
    """

    mean: Array
    variance: Array
    log_density: Array

    def error_count(self, t: Array) -> int:
        """Return how many labels ``t (n,)``, -1/+1, the others get wrong: those with t_i m_i < 0 (2000, eq. 32)."""
        return int(np.count_nonzero(t * self.mean < 0))


@dataclass(frozen=True, slots=True, eq=False)
class ClassLeaveOneOut(LeaveOneOut):
    """What the other cases predict for each case, where there are several classes.

    Attributes
    ----------
    mean, variance : (n, C) array
        Of the latent values of the classes, in latent units and their square.
    log_density : (n,) array
        Log predictive density of the case's own class, in nats.
    probability : (n, C) array
        Of each class; rows sum to one.
    """

    probability: Array

    def error_count(self, t: Array) -> int:
        """Return for how many codes ``t (n,)``, 0 to C - 1, another class is more probable."""
        own = self.probability[np.arange(t.size), t.astype(np.intp)]
        return int(np.count_nonzero(own < np.max(self.probability, axis=1)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution:
    """An approximate posterior at the training cases; it knows nothing about inputs or kernels.

    Attributes
    ----------
    method : str
        Name of the method that made it.
    alpha : (n,) array
        Signed weights: the posterior mean at x is k(x)' alpha (2000, eqs. 17 and 31, where t_i alpha_i). Of several
        classes ``(n, C)``, a column for each.
    correction : Correction
        R, with the posterior covariance k(x,x') - k(x)' R k(x') (2000, eq. 27).
    evidence : Evidence
        Log evidence in nats; an error to read for the support-vector machine, as is the correction.
    cavity : Cavity or None
        Cavity means and variances; None for a method that has no cavities.
    info : Info
        Status, iterations, residual.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> gram = bgp.kernels.Gaussian(1.0, 4.0).gram(toy.X)
    >>> solution = bgp.solve(gram, 2 * toy.y - 1, bgp.Probit())
    >>> print(solution.evidence)
    log evidence -21.00
    >>> solution.info.status
    <Status.CONVERGED: 'The equations hold to the requested tolerance.'>
    """

    method: str
    alpha: Array
    correction: Correction
    evidence: Evidence
    cavity: Cavity | None
    info: Info

    def __repr__(self) -> str:
        return "\n  ".join([f"Solution by {self.method!r}", *(f"{name}: {value}" for name, value in self._rows())])

    def _repr_html_(self) -> str:
        return as_html(f"Solution by {self.method}", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """Return what matters of it: its size, its evidence, and how the iteration ended."""
        n, *classes = self.alpha.shape
        info = self.info
        size = f"{n} cases" + "".join(f", {number} classes" for number in classes)
        if info.rank:
            size += f", rank {info.rank}"
        evidence = str(self.evidence) if self.has_variance else "none: a single function, without variances"
        ended = f"{info.status.name.lower()} after {info.n_iterations} steps, residual {info.residual:.1e}"
        return [("solved for", size), ("evidence", evidence), ("iteration", ended)]

    def check_start(self, n: int, *classes: int) -> None:
        """Raise a ValueError if this is no solution of ``n`` cases, from which those can be solved."""
        if self.alpha.shape != (n, *classes):
            given, wanted = (" and ".join(_count(shape)) for shape in (self.alpha.shape, (n, *classes)))
            raise ValueError(f"start has {given}, but the problem has {wanted}.")

    @property
    def sites(self) -> Sites:
        """The correction as sites; a ValueError if it has none."""
        sites = self.correction.sites
        if sites is None:
            raise ValueError(f"this needs a solution with sites, but this one was made by method {self.method!r}.")
        return sites

    def as_start(self) -> Solution:
        """Return what it takes to solve from here once more: without a Gram matrix and factors, if it has sites."""
        sites = self.correction.sites
        return self if sites is None else replace(self, correction=_Precisions(sites.site_precision))

    @property
    def has_variance(self) -> bool:
        """Whether this is a distribution, with variances and an evidence, rather than a single function."""
        return self.evidence.kind != "none"


class _Precisions(Sites):
    """Sites of which nothing is known but their precisions ``(n,)``: of a solution to start from."""

    @property
    def log_det(self) -> float:
        """An error, as is whatever else follows from the Gram matrix."""
        raise NotImplementedError("this solution is one to start from.")

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Raise the same error."""
        raise NotImplementedError("this solution is one to start from.")


def check_control(control: object) -> None:
    """Raise a ValueError if ``control`` is none."""
    if not isinstance(control, Control):
        raise ValueError(
            f"control must be a Control, such as Control(tolerance=1e-6), got {control!r}. Leave it out for the "
            "defaults."
        )


def check_start(start: object) -> None:
    """Raise a ValueError if ``start`` is neither a solution nor None."""
    if start is not None and not isinstance(start, Solution):
        raise ValueError(f"start must be a Solution, as solve returns it, or None, got {start!r}.")


def _places(error: float) -> int:
    """Return how many decimals show an error to its first digit, but two at least and six at most."""
    return int(np.clip(-np.floor(np.log10(error)), 2, 6)) if error > 0 else 2


def _count(shape: tuple[int, ...]) -> list[str]:
    return [f"{size} {what}" for size, what in zip(shape, ("cases", "classes"), strict=False)]
