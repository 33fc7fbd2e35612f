"""Gaussian-process regression with scikit-learn's face."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import check_scale
from bayesgp_mf.inputs.labels import as_real_targets
from bayesgp_mf.inputs.limits import as_limits, with_limits, with_other_limit
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.names import naming_absent
from bayesgp_mf.sklearn.estimator import NOISE, GPEstimator, where_streamed
from bayesgp_mf.survival import concordance_index
from bayesgp_mf.types import Array

LARGEST_TARGET = 1e150
"""In absolute value, of targets that are normalised: their squares are numbers."""


@dataclass(eq=False, repr=False)
class GPRegressor(RegressorMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Gaussian-process regression for scikit-learn: real targets, also with outliers, and counts.

    It calls `bayesgp_mf.fit`; the result is in ``idata_``.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. By default that of `hyper.default_model`, with its priors: inputs need no scaling, and columns
        of text are groups.
    likelihood : Likelihood or str, optional
        ``likelihoods.Gaussian`` by default, whose noise is tuned; or `StudentT`, `Poisson`, `NegativeBinomial`.
    normalize_y : bool
        Subtract the mean of the targets and divide by their standard deviation. Predictions are in the units of the
        targets; ``idata_``, ``log_evidence_`` and ``kernel_`` are not. Give False for counts. The default, None,
        normalises if neither kernel nor likelihood is given.
    method : str or Solver, optional
        As for `fit`; "tap" by default, which is exact with Gaussian noise.
    hyper, priors, bounds, fixed, inducing, monotone, control : optional
        As for `fit`, except that a search has one start by default, as in scikit-learn. ``hyper=None`` keeps the
        kernel.
    budget : int or None
        Largest number of basis inputs of the stream that `partial_fit` updates.
    draws : int
        Draws of ``idata_`` for each of its four chains.
    random_state : int, numpy.random.RandomState or None
        Seed of random starts and of draws.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Number of the inputs, and their names if they have names.
    posterior_ : Process or Stream
        The posterior process of the (normalised) targets.
    kernel_ : Kernel
        The kernel with the parameters that were chosen.
    log_evidence_ : float
        In nats. For an average see ``posterior_``.
    idata_ : InferenceData or DataTree
        The fit for ArviZ.
    loo_ : ELPDData
        Its leave-one-out estimate.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2.0, 2.0, 40)[:, None]
    >>> y = 10.0 + np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(40)
    >>> model = bgp.sklearn.GPRegressor(random_state=1).fit(X, y)
    >>> mean, sd = model.predict([[0.0], [1.0]], return_std=True)
    >>> mean.round(1)
    array([10. , 10.9])
    """

    normalize_y: bool | None = field(default=None, kw_only=True)

    @naming_absent()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to cases with targets.

        Parameters
        ----------
        X : (n, d) array_like
            Inputs, finite: an array or a data frame, whose columns of text go to `Categorical` kernels.
        y : (n,) array_like
            Targets; of `likelihoods.Censored` as `bayesgp_mf.fit` takes them.
        sample_weight : (n,) array_like, optional
            How often each case counts, as a power of its likelihood (`fit`, ``weights``); one of weight 0 is left out.

        Raises
        ------
        ValueError
            If an argument or a parameter is invalid.
        """
        y, likelihood = with_limits(y, self._likelihood())
        X, y, weights = self._cases(X, y, sample_weight, y_numeric=True)
        y = y.astype(np.float64)
        self._set_units(y, weights)
        self._keep(self._solved(X, *self._in_units(y, likelihood), weights))
        return self

    @where_streamed
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more cases, which are then forgotten: a `streams.Stream`, of at most ``budget`` basis inputs.

        After `fit` it goes on from there, under the kernel that was chosen. By itself it keeps the kernel that it
        starts with for the first 2000 cases, and then chooses it by ``hyper``; targets are normalised by those of the
        first call.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        """
        known = vars(self).get("_fitted")
        y, likelihood = with_limits(y, self._likelihood(), whole=False)
        X, y, weights = self._cases(X, y, sample_weight, y_numeric=True, reset=known is None)
        y = y.astype(np.float64)
        if known is None:
            self._set_units(y, weights)
        targets = as_limits(*self._in_units(y, likelihood))
        self._keep(self._streamed(known, X, targets, weights, self._likelihood()))
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return the mean of the targets of new cases, and on request how far they may be from it.

        Parameters
        ----------
        X : (m, d) array_like
            Inputs.
        return_std : bool
            Also return the standard deviation ``(m,)`` of each target, noise and all.
        return_cov : bool
            Also return the covariances ``(m, m)`` of the targets, whose noise must be Gaussian.

        Returns
        -------
        (m,) array, or a pair

        Raises
        ------
        UndefinedQuantityError
            If a target has no mean, or no variance, under the likelihood: a `StudentT` with ``df`` of at most 1, or 2.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are two answers: ask for one of them.")
        fitted, X = self._learned("predict"), self._new(X)
        mean, variance = fitted.moments(X)
        mean = self._as_given(_defined("mean", mean))
        if return_cov:
            return mean, fitted.covariance(X) * self._unit**2
        return (mean, np.sqrt(_defined("variance", variance)) * self._unit) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², or of targets that may be limits the concordance index, as scikit-survival does.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; a concordance index has no weights.
        """
        if not self._likelihood().takes_limits:
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight: a concordance index has no weights. Leave them out.")
        return concordance_index(y, self.posterior_.latent(X)[0])

    def _set_units(self, y: Any, weights: Any) -> None:
        """Keep mean and standard deviation of the targets, or 0 and 1."""
        normal = self.kernel is None and self.likelihood is None if self.normalize_y is None else self.normalize_y
        self._centre, self._unit = 0.0, 1.0
        if normal:
            check_scale("y", y, LARGEST_TARGET)
            largest = float(np.max(np.abs(y), initial=0.0)) or 1.0  # its square may be no number, and zero
            relative = y / largest
            centre = float(np.average(relative, weights=weights))
            spread = float(np.sqrt(np.average((relative - centre) ** 2, weights=weights)))
            self._centre, self._unit = centre * largest, spread * largest if spread > 0 else 1.0
            self._check_units(y)

    def _in_units(self, y: Array, likelihood: Any) -> tuple[Array, Any]:
        """Return targets in the units that are kept, and a likelihood that knows their limits in these."""
        if likelihood.takes_limits and likelihood.other_limit is not None:
            other = (np.asarray(likelihood.other_limit) - self._centre) / self._unit
            likelihood = with_other_limit(likelihood, other)
        return (y - self._centre) / self._unit, likelihood

    def _check_units(self, y: Any) -> None:
        """Raise a ValueError if a likelihood takes the targets, but not the normalised ones: counts are no longer."""
        likelihood = self._likelihood()
        likelihood.check_targets("y", y)
        try:
            likelihood.check_targets("y", (y - self._centre) / self._unit)
        except ValueError as error:
            raise ValueError(
                f"normalize_y=True subtracts the mean of the targets and divides by their spread, which "
                f"{likelihood!r} cannot take: its targets are counts or levels. Leave normalize_y out."
            ) from error

    def _as_given(self, targets: NDArray[Any]) -> NDArray[Any]:
        return self._centre + self._unit * targets

    def _check_targets(self, y: Any) -> None:
        if np.asarray(y).dtype.kind != "c":  # of which scikit-learn has its own words
            as_real_targets(y)

    def _likelihood(self) -> Any:
        likelihood: Any = self._given_likelihood or Gaussian(NOISE)
        if not likelihood.is_real:
            raise ValueError(f"GPRegressor is for real targets, and {likelihood!r} has classes. Use GPClassifier.")
        return likelihood


def _defined(what: str, values: Any) -> Any:
    """Return moments of targets, or raise an UndefinedQuantityError if there are none."""
    if not np.any(np.isfinite(values)):
        raise UndefinedQuantityError(
            f"a target has no finite {what} under this likelihood: its tails are too heavy. Use quantiles of "
            "sample_y(X, n_samples), or posterior_.latent_mean(X), about which targets lie."
        )
    return values
