"""What kernels, likelihoods and arguments are called elsewhere, and what to write here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ParamSpec, Self, TypeVar

OF_CLASSES = "likelihoods.MultinomialProbit() or likelihoods.Softmax()"
ELSEWHERE = {
    **dict.fromkeys(
        ("ExpQuad", "SquaredExponential", "RBFKernel"),
        "kernels.RBF(lengthscale, variance), whose first argument is not that of PyMC or GPflow",
    ),
    **dict.fromkeys(
        ("Matern", "MaternKernel"),
        "kernels.Matern32(lengthscale) with nu=1.5, Matern52 with nu=2.5, Matern12 with nu=0.5",
    ),
    "Exponential": "kernels.Matern12(lengthscale)",
    "RatQuad": "kernels.RationalQuadratic(lengthscale, variance, shape)",
    **dict.fromkeys(
        ("WhiteKernel", "WhiteNoise"),
        "kernels.White(variance); noise of measurements is likelihoods.Gaussian(noise_variance)",
    ),
    **dict.fromkeys(
        ("Constant", "ConstantKernel"),
        "kernels.Bias(variance) where it is added; where it multiplies, variance= of a kernel, or 2.0 * kernel",
    ),
    "DotProduct": "kernels.Linear(weight) + kernels.Bias(sigma_0**2)",
    **dict.fromkeys(("ExpSineSquared", "PeriodicKernel"), "kernels.Periodic(lengthscale, period=...)"),
    **dict.fromkeys(
        ("haversine", "Haversine", "GreatCircle", "Circular"),
        "kernels.OnSphere(kernel, ['longitude', 'latitude']), with metric='haversine' along great circles",
    ),
    "Coregion": "kernels.Categorical(columns=...) * kernel",
    "Bernoulli": "likelihoods.Probit() or likelihoods.Logit(), which differ in the tails",
    **dict.fromkeys(("Categorical", "Multinomial", "Multiclass"), f"{OF_CLASSES}; of groups kernels.Categorical()"),
    "Normal": "likelihoods.Gaussian(noise_variance)",
    **dict.fromkeys(("NegBinomial", "NegBin"), "likelihoods.NegativeBinomial(dispersion)"),
    "Gaussian": "kernels.Gaussian(lengthscale), a covariance, or likelihoods.Gaussian(noise_variance), of measurements",
    **dict.fromkeys(("GaussianProcessClassifier", "GPC"), "bgp.GPClassifier"),
    **dict.fromkeys(("GaussianProcessRegressor", "GPR"), "bgp.GPRegressor"),
    **dict.fromkeys(
        ("OneVsRest", "classifier"),
        "sklearn.multiclass.OneVsRestClassifier(bgp.sklearn.GPClassifier(...)), one class against the rest; one model "
        "of several classes is likelihood=bgp.MultinomialProbit()",
    ),
}
"""Names of other packages, and of earlier versions, and what to write for each."""

ARGUMENTS = {
    **dict.fromkeys(("ls", "length_scale", "lengthscales", "length_scales"), "The length scale is lengthscale=..."),
    **dict.fromkeys(("noise_level", "constant_value", "sigma2", "outputscale"), "It is variance=..."),
    "alpha": "It is dispersion=... of likelihoods.NegativeBinomial, shape=... of kernels.RationalQuadratic, and in "
    "scikit-learn's regression noise_variance=... of likelihoods.Gaussian",
    "periodicity": "It is period=...",
    "sigma_0": "Its square is the variance of a kernels.Bias(variance) beside it",
    "nu": "It is df=... of StudentT; kernels.Matern12, Matern32 and Matern52 have nu=0.5, 1.5 and 2.5",
    **dict.fromkeys(("input_dim", "active_dims"), "Columns are columns=['age', 'bmi'], or all if left out"),
    "starts": "It is an option of a strategy: hyper=hyper.Evidence(starts=...)",
    "evidence_of": "It is an option of a strategy: hyper=hyper.Evidence(method=...)",
    "multi_class": "Several classes are one model, likelihood=MultinomialProbit() or Softmax(); one class against the "
    "rest is sklearn.multiclass.OneVsRestClassifier(GPClassifier())",
    **dict.fromkeys(("client", "processes", "refine"), "It goes with a table in parts: sharded.fit(X, y, kernel, ...)"),
    "metric": "Distances on the globe are a kernel around it: kernels.OnSphere(kernel, metric='chordal')",
    "trials": "Trials are of the likelihood: likelihoods.Binomial(trials)",
    "sample_weight": "Weights of cases are weights=...",
    "class_weight": "It is of GPClassifier; fit takes those of cases, such as weights=np.where(y == 1, 5.0, 1.0)",
    **dict.fromkeys(("seed", "random_state"), "It is random_seed=..."),
    "offset": "It is of bgp.fit and bgp.predict, and estimators have none: fit(X, y, likelihood='poisson', offset=...)",
    "n_jobs": "A fit has no jobs; cross_val_score(..., n_jobs=2) and GridSearchCV have",
    "n_restarts_optimizer": "It is hyper=hyper.Evidence(starts=n_restarts_optimizer + 1)",
    "optimizer": "optimizer=None is hyper=None, which keeps the kernel; else hyper='evidence'",
    "exposure": "An exposure is given by its logarithm: offset=np.log(exposure) of bgp.fit and bgp.predict",
    "verbose": "Bars of progress are progress=False or True",
    "sigma": "The variance of the noise is noise_variance=sigma**2; with outliers, StudentT(scale, df)",
    "samples": "The number of draws is draws=...; of predict it is that of the fit",
}
"""Arguments that there were before, are called otherwise or are elsewhere, and what is in their place."""

P = ParamSpec("P")
T = TypeVar("T")


def absent(module: str, name: str, known: Iterable[str]) -> Exception:
    """Return the error of a module's ``__getattr__`` for a name that it does not have.

    Of an import that fails by an AttributeError Python says nothing but that, so that it gets an ImportError where
    there is something to say.
    """
    known = list(known)
    if name in ELSEWHERE:
        asking: Any = inspect.currentframe()
        by_import = asking.f_back.f_back.f_globals.get("__name__") == "importlib._bootstrap"
        kind = ImportError if by_import else AttributeError
        return kind(f"module {module!r} has no attribute {name!r}; here it is {ELSEWHERE[name]}.")
    near = get_close_matches(name, known, 3)
    return AttributeError(f"module {module!r} has no attribute {name!r}; it has {', '.join(near or known)}.")


@functools.cache
def _arguments(function: Any) -> frozenset[str] | None:
    """Return the arguments of a function by name, or None if it takes any."""
    found = inspect.signature(function).parameters
    return None if any(each.kind is each.VAR_KEYWORD for each in found.values()) else frozenset(found)


def check_arguments(
    called: str, function: Any, given: Mapping[str, Any], advice: Mapping[str, str] = ARGUMENTS
) -> None:
    """Raise a TypeError for an argument that a function does not have, and say what to write if that is known."""
    known = _arguments(function)
    if unknown := [name for name in given if known is not None and name not in known]:
        near = get_close_matches(unknown[0], known or (), 1)
        what_to_do = f" {advice[unknown[0]]}." if unknown[0] in advice else "".join(f" Is it {each}?" for each in near)
        raise TypeError(f"{called}() has no argument {unknown[0]!r}.{what_to_do}")


class NamingAbsent:
    """A class whose TypeError for an argument that it does not have says what to write, if that is known."""

    __slots__ = ()

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Make one, if it has such arguments."""
        if cls.__init__ is object.__init__:  # which leaves it to its own ``__new__`` to refuse all of them
            return super().__new__(cls, *args, **options)
        check_arguments(cls.__name__, cls.__init__, options)
        return super().__new__(cls)


def naming_absent(advice: Mapping[str, str] = ARGUMENTS) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: for an argument that a function does not have the TypeError says what to do, if known."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            made = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            check_arguments(made, function, options, advice)
            return function(*args, **options)

        return call

    return decorated
