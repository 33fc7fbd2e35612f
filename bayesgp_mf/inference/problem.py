"""What a solver sees: a Gram matrix, targets and a likelihood, checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from bayesgp_mf.errors import InconsistentDataError, NotPositiveDefiniteError, Status
from bayesgp_mf.likelihoods import Likelihood, Softmax
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.factors import is_positive_semidefinite
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.types import Array, Derivs

SYMMETRY_TOLERANCE = 1e-10
SAME_INPUT_TOLERANCE = 1e-12
"""Two latent values whose correlation is closer to one, or minus one, than this are one and the same."""
LARGEST_TARGET = 1e50
"""In absolute value, of real targets that users give: squares of squares are numbers still."""


def classes_of(likelihood: Likelihood, t: Array) -> int:
    """Return how many classes have a latent value each in problems of these targets; 1 where a case has one value."""
    if not likelihood.has_classes:
        return 1
    known = likelihood.n_classes
    return max(2, int(np.max(t, initial=0.0)) + 1) if known is None else known


def derivs_at_prior(likelihood: Likelihood, t: Array, prior: Array) -> Derivs:
    """Return what a likelihood says of each case before others do, for prior means zero and variances ``(n,)``."""
    return likelihood.log_partition(t, np.zeros(t.size), prior)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A validated inference problem: prior f ~ N(0, gram), likelihood of t_i given f_i.

    Parameters
    ----------
    gram : (n, n) array_like or Matrix
        Gram matrix K, symmetric and positive semi-definite, in squared latent units. One of low rank is a covariance by
        the way it is made. For several classes it is that of each of them, or, where it is dense, ``(C, n, n)`` holds
        one for each.
    t : (n,) array_like
        Labels -1/+1, real targets if ``likelihood.is_real``, or codes 0 to C - 1 if it ``has_classes``.
    likelihood : Likelihood
        p(t | f) of one case.
    covariance : bool
        Whether the Gram matrix is known to be symmetric and positive semi-definite, as those of this package's kernels
        are, so that it need not be checked.

    Attributes
    ----------
    matrix : Matrix
        The Gram matrix behind the verbs that all of its forms have (`matrices.matrix`).

    Raises
    ------
    ValueError
        If shapes differ, something is not finite, the Gram matrix is not symmetric, or the labels are
        not -1/+1 (or codes of classes); if the Gram matrix is of low rank, and the likelihood a noise-free step.
    NotPositiveDefiniteError
        If the Gram matrix has an eigenvalue below zero by more than rounding.
    InconsistentDataError
        If one input carries both labels and the likelihood gives that probability zero.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> problem = bgp.Problem(bgp.kernels.Gaussian().gram(X), [-1, 1, 1], bgp.Probit())
    >>> problem.n, problem.t
    (3, array([-1.,  1.,  1.]))
    """

    gram: Array | Matrix
    t: Array
    likelihood: Likelihood
    covariance: InitVar[bool] = False
    matrix: Matrix = field(init=False, repr=False)
    _at_prior: Derivs | None = field(init=False, repr=False, default=None)

    def __post_init__(self, covariance: bool) -> None:
        check_likelihood(self.likelihood)
        object.__setattr__(self, "t", as_targets(self.t, self.likelihood))
        matrix = as_matrix(self.gram)
        object.__setattr__(self, "matrix", matrix)
        if matrix.is_whole:
            object.__setattr__(self, "gram", matrix.dense())
        else:
            _check_low_rank(matrix, self.likelihood)
        if self.likelihood.has_classes:
            _check_codes(self.t, self.likelihood)
        if matrix.is_whole and self.likelihood.has_classes:
            _check_class_grams(matrix.dense(), self.n_classes, covariance)
        elif matrix.is_whole:
            check_gram(matrix.dense(), covariance)
        _check_targets(self.t, self.gram.shape[-1], self.likelihood)
        if self.likelihood.forbids:
            gram = self.dense_gram
            # of several classes the sum, whose correlation is one or minus one only where that of each class is
            gram = gram if gram.ndim == 2 else np.sum(gram, axis=0)
            _check_variances(gram)
            _check_contradictions(gram, self.t, self.likelihood)

    @property
    def n(self) -> int:
        """Number of cases."""
        return int(self.t.shape[0])

    @property
    def at_prior(self) -> Derivs:
        """What the likelihood says of each case before others do: log Z with two derivatives, each ``(n,)``."""
        if self._at_prior is None:  # moments may be integrals, and more than one asks
            found = derivs_at_prior(self.likelihood, self.t, self.matrix.diagonal())
            object.__setattr__(self, "_at_prior", found)
        assert self._at_prior is not None
        return self._at_prior

    @property
    def dense_gram(self) -> Array:
        """K ``(n, n)`` as an array, which is made where it is of low rank.

        Raises
        ------
        MemoryError
            If it is to be made, and would not fit into this machine's memory.
        """
        if not self.matrix.is_whole:
            check_memory(self.n)
        return self.matrix.dense()

    def in_form(self, form: str) -> Matrix:
        """Return the Gram matrix in the form that a correction has; any can be made dense."""
        return self.matrix if self.matrix.form == form else DenseGram(self.dense_gram)

    @property
    def n_classes(self) -> int:
        """Number of classes with a latent value each; 1 where a case has a single latent value."""
        return classes_of(self.likelihood, self.t)

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """Shape of the latent values: ``(n,)``, or ``(n, C)`` for several classes."""
        return (self.n,) if not self.likelihood.has_classes else (self.n, self.n_classes)

    def without(self, i: int) -> Problem:
        """Return the problem without case ``i``; at least one must be left. Classes stay, with or without a case."""
        others = np.delete(np.arange(self.n), i)
        likelihood = self.likelihood.of_cases(others)
        if likelihood.has_classes and likelihood.n_classes is None:
            likelihood = likelihood.with_classes(tuple(str(c) for c in range(self.n_classes)))
        return Problem(self.dense_gram[..., others[:, None], others], self.t[others], likelihood)


def as_matrix(gram: ArrayLike | Matrix) -> Matrix:
    """Return a Gram matrix behind the verbs that all of its forms have: as it is, or a dense one of numbers."""
    return gram if isinstance(gram, Matrix) else DenseGram(as_float_array("gram", gram))


def as_float_array(name: str, value: ArrayLike, *, copy: bool = False) -> Array:
    """Return ``value`` as a float64 array, with ``copy`` one of its own memory, or raise a ValueError that names it."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries, which would be used as if they were not. Drop or impute them.")
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", "") in ("c", "M", "m"):
        raise ValueError(f"{name} must hold real numbers, got dtype {dtype}. Convert it yourself.")
    try:
        return np.array(value, dtype=np.float64) if copy else np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold numbers, but it cannot be converted to float: {error}") from error


def as_targets(t: ArrayLike, likelihood: Likelihood) -> Array:
    """Return targets as a float64 array, or raise a ValueError, which says where labels of text go."""
    try:
        return as_float_array("t", t)
    except ValueError as error:
        check_likelihood(likelihood)
        if likelihood.is_real or np.asarray(t).dtype.kind not in "OSU":
            raise
        raise ValueError(f"{error}. bayesgp_mf.fit(X, y, ...) takes any labels and encodes them.") from error


def check_finite(
    name: str,
    value: Array,
    advice: str = "Drop or impute those cases.",
    place: Callable[[tuple[int, ...]], str] = "at index {}".format,
) -> None:
    """Raise a ValueError that counts and locates what is not finite in ``value``, and gives advice.

    ``place`` says where an entry stands, from its index.
    """
    finite = np.isfinite(value)
    if not finite.all():
        bad = ~finite
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite, but {int(bad.sum())} of its {value.size} entries are NaN or infinite "
            f"(the first {place(where)}). {advice}"
        )


def check_scale(name: str, value: Array, largest: float = LARGEST_TARGET) -> None:
    """Raise a ValueError if a number is so large that what is computed with its powers would overflow."""
    size = np.abs(value)
    if np.any(size > largest):
        where = int(np.argmax(size))
        raise ValueError(
            f"{name} must hold numbers of at most {largest:g} in absolute value, got {value[where]:g} at index "
            f"{where}. Measure in another unit: divide by the standard deviation, say."
        )


def status_in_words(status: Status, likelihood: Likelihood, method: str) -> str:
    """Return the sentence of a status, with advice that goes with the likelihood and the name of the method."""
    if likelihood.has_classes and likelihood.log_concave and not likelihood.forbids:
        return status.for_classes("laplace" if isinstance(likelihood, Softmax) and method != "laplace" else None)
    return status.advising(likelihood.ways_to_noise)


def check_likelihood(likelihood: object) -> None:
    """Raise a ValueError if ``likelihood`` is no instance of a likelihood."""
    if isinstance(likelihood, type):
        raise ValueError(f"likelihood must be an instance, got the class {likelihood.__name__}: write it with ().")
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            f"likelihood must be one such as bayesgp_mf.Probit(), got {type(likelihood).__name__}. Derive your own "
            "from bayesgp_mf.likelihoods.Likelihood."
        )


def check_gram(gram: Array, covariance: bool) -> None:
    """Raise an error if a matrix is no covariance; one that is known to be one must be finite."""
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram must be a square matrix (n, n), got shape {gram.shape}.")
    if gram.shape[0] == 0:
        raise ValueError("gram is empty: at least one training case is needed.")
    check_finite("gram", gram, "The kernel overflows at these inputs: rescale them, or change its parameters.")
    if covariance:
        return
    if gram.diagonal().min() < 0:
        where = int(np.argmin(np.diag(gram)))
        raise NotPositiveDefiniteError(
            f"the diagonal of gram holds prior variances, but entry {where} is {gram[where, where]:.3g}, below zero."
        )
    asymmetry = 0.0 if (gram == gram.T).all() else float(np.max(np.abs(gram - gram.T)))
    if asymmetry > 0.0 and asymmetry > SYMMETRY_TOLERANCE * float(np.max(np.abs(gram))):
        raise ValueError(
            f"gram must be symmetric, but gram and gram.T differ by up to {asymmetry:.3g}. "
            "If that is rounding, pass (gram + gram.T) / 2."
        )
    if not is_positive_semidefinite(gram):
        raise NotPositiveDefiniteError(
            f"gram must be positive semi-definite, but its smallest eigenvalue is "
            f"{float(np.linalg.eigvalsh(gram)[0]):.3g}. It is no covariance matrix; check the kernel that made it."
        )


def _check_class_grams(gram: Array, n_classes: int, covariance: bool) -> None:
    if gram.ndim == 2:
        check_gram(gram, covariance)
        return
    if gram.ndim != 3 or gram.shape[0] != n_classes:
        raise ValueError(
            f"gram must be (n, n) for all classes, or ({n_classes}, n, n) with a matrix for each of the {n_classes} "
            f"classes, got shape {gram.shape}. Give kernels.PerClass as many kernels as there are classes."
        )
    for of_one in gram:
        check_gram(of_one, covariance)


def _check_codes(t: Array, likelihood: Likelihood) -> None:
    check_finite("t", t)
    known = likelihood.n_classes
    whole = np.all((t == np.floor(t)) & (t >= 0))
    if not whole or (known is not None and np.any(t >= known)):
        values = np.unique(t)[:5].tolist()
        highest = "C - 1" if known is None else str(known - 1)
        raise ValueError(
            f"t must hold codes 0 to {highest} of classes for {likelihood.display_name}, got values such as "
            f"{values}. bayesgp_mf.fit(X, y, ...) takes any labels and encodes them."
        )


def _check_low_rank(gram: Matrix, likelihood: Likelihood) -> None:
    check_finite("gram", gram.numbers, "The kernel overflows at these inputs: rescale them, or change its parameters.")
    if gram.shape[0] == 0 and gram.anew() is gram:  # else what cases say that are elsewhere is known beforehand
        raise ValueError("gram is empty: at least one training case is needed.")
    if likelihood.forbids:
        raise ValueError(
            "a noise-free step likelihood asks for every digit of the Gram matrix, and one of low rank leaves some "
            f"out. Use the dense matrix, Control(gram='dense'), or allow noise: {type(likelihood).__name__}"
            "(noise_variance=1.0)."
        )


def _check_targets(t: Array, n: int, likelihood: Likelihood) -> None:
    if t.shape != (n,):
        raise ValueError(f"t must have shape ({n},) to match gram ({n}, {n}), got {t.shape}.")
    check_finite("t", t)
    if likelihood.is_binary and not (np.abs(t) == 1.0).all():
        values = np.unique(t)[:5].tolist()
        raise ValueError(
            f"t must hold labels -1 and +1 for {likelihood.display_name}, got values such as {values}. "
            "bayesgp_mf.fit(X, y, ...) takes any two labels and encodes them."
        )
    likelihood.check_targets("t", t)


def _check_variances(gram: Array) -> None:
    (certain,) = np.nonzero(np.diag(gram) == 0)
    if certain.size:
        raise ValueError(
            f"the latent value of case {int(certain[0])} has prior variance zero ({certain.size} such cases), so "
            "a noise-free step likelihood cannot place it on either side. Add kernels.Bias() or noise."
        )


def _check_contradictions(gram: Array, t: Array, likelihood: Likelihood) -> None:
    """Raise if two cases share all latent values, up to sign or a scale, with labels that cannot both be."""
    prior_sd = np.sqrt(np.diag(gram))
    correlation = gram / prior_sd[:, None] / prior_sd
    np.fill_diagonal(correlation, 0.0)
    clash = np.where(t[:, None] == t, -correlation, correlation) >= 1.0 - SAME_INPUT_TOLERANCE
    if not clash.any():
        return
    i, j = (int(k) for k in np.argwhere(clash)[0])
    if likelihood.has_classes:
        names = likelihood.classes or range(int(np.max(t, initial=0.0)) + 1)
        labels = f"classes {names[int(t[i])]!r} and {names[int(t[j])]!r}"
        what, noise = "likelihood", "MultinomialProbit(noise_variance=1.0)"
    else:
        labels = f"labels {t[i]:+.0f} and {t[j]:+.0f}"
        what, noise = "step likelihood", "Step(flip=0.05), Probit(noise_variance=1.0)"
    raise InconsistentDataError(
        f"cases {i} and {j} have the same input (prior correlation {correlation[i, j]:+.0f}) but {labels}, which has "
        f"probability zero under a noise-free {what} ({int(clash.sum()) // 2} such pairs). Allow noise: {noise}, or "
        "add kernels.White(...) to the kernel."
    )


def explain_infeasible(problem: Problem) -> str | None:
    """Return why no function of the prior satisfies the labels, or None if one does or noise allows it.

    Under a noise-free step likelihood the labels need some a with t_i (K a)_i > 0 for all i; that is a linear
    program. It is asked only when a solver has failed, since it costs far more than a solution.
    """
    if not problem.likelihood.forbids:
        return None
    constraints = _label_constraints(problem)
    rows, columns = constraints.shape
    outcome = linprog(np.zeros(columns), A_ub=-constraints, b_ub=-np.ones(rows), bounds=(None, None), method="highs")
    if outcome.status != 2:  # 2: proven infeasible
        return None
    return (
        "no function of this prior has these labels (they are not separable under the kernel, to the precision of the "
        "Gram matrix), so the evidence under a noise-free step likelihood is zero. Allow noise: "
        f"{'Step(flip=0.05), ' * (not problem.likelihood.has_classes)}{type(problem.likelihood).__name__}"
        "(noise_variance=1.0), or add kernels.White(...) to the kernel."
    )


def _label_constraints(problem: Problem) -> Array:
    """Return the rows A of the inequalities A a > 0 that labels ask of the weights of functions K a of the prior."""
    gram = problem.dense_gram / np.max(np.diagonal(problem.dense_gram, axis1=-2, axis2=-1))
    if not problem.likelihood.has_classes:
        return np.asarray(problem.t[:, None] * gram)
    n, n_classes = problem.latent_shape
    each, codes = np.broadcast_to(gram, (n_classes, n, n)), problem.t.astype(int)
    every, rows = np.arange(n), []
    for c in range(n_classes):  # f of the own class is above that of class c
        ahead = np.zeros((n, n_classes, n))
        ahead[every, codes] = each[codes, every]
        ahead[:, c] -= each[c]
        rows.append(ahead[codes != c].reshape(-1, n_classes * n))
    return np.concatenate(rows)
