r"""The exact model: the same Gaussian process with its latent values as variables, to sample as a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Variable

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.frames import as_pandas, row_labels
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.inputs.options import as_likelihood
from bayesgp_mf.inputs.tables import as_inputs, check_same_cases
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.pymc.covariance import as_cov_func
from bayesgp_mf.pymc.graph import interpreted
from bayesgp_mf.pymc.marginal import JITTER
from bayesgp_mf.pymc.op import Mean, split_parameters
from bayesgp_mf.types import Array


def latent_model(
    X: Any,
    y: Any,
    cov_func: Any,
    likelihood: Likelihood | str = Probit(),
    *,
    mean_func: Any = None,
    jitter: float = JITTER,
    **parameters: Any,
) -> pm.Model:
    """Return the PyMC model of labels under a Gaussian process, with nothing integrated out or approximated.

    `Marginal` approximates its posterior. Sampling it is slow, because latent values and hyperparameters are strongly
    correlated.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs.
    y : (n,) array_like
        Targets of the likelihood: labels of two distinct values, labels of several classes, counts or real numbers.
    cov_func : pymc.gp.cov.BaseCovariance or Kernel
        Prior covariance, as for `Marginal`.
    likelihood : Likelihood or str
        `Probit` with noise, `Logit`, or one of ``likelihoods`` with a name: ``Gaussian``, ``StudentT``, ``Poisson``,
        ``NegativeBinomial``, ``Binomial``, ``ZeroInflated``, ``Hurdle``, ``Truncated``, ``Gamma``, ``Beta``,
        ``Softmax``, ``MultinomialProbit``.
    mean_func : pymc.gp.mean.Mean or callable, optional
        Prior mean, as for `Marginal`; zero by default. Not with several classes, where a common mean cancels.
    jitter : float
        Noise in the prior, added to the diagonal of the covariance of the latent values, because PyMC factorises it.
    **parameters : float or random variable
        Values that replace the parameters of the likelihood.

    Returns
    -------
    pymc.Model
        The model in context, which must have the random variables of ``cov_func``, or a new one. It has ``f`` ``(n,)``,
        the latent values, made from white ones, and ``y`` ``(n,)``, labels observed as 0/1. With several classes ``f``
        ``(n, C)`` has a dimension ``class``, and ``y`` the numbers of the classes, from 0.

    Raises
    ------
    ValueError
        If an argument is invalid, or there is a ``mean_func`` for several classes.
    UndefinedQuantityError
        If the likelihood is a step, or one that is not known in terms of PyTensor.

    See Also
    --------
    latent_conditional : The latent values at new inputs.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesgp_mf.pymc import latent_model
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.InverseGamma("lengthscale", 3.0, 3.0)
    ...     _ = latent_model(X, X[:, 0] > 0, pm.gp.cov.ExpQuad(1, ls=lengthscale))
    >>> [variable.name for variable in model.unobserved_RVs]
    ['lengthscale', 'f_rotated_', 'f']
    """
    cov_func = as_cov_func(cov_func)
    check_same_cases(X, y)
    labels = row_labels("X", as_pandas("X", X))
    X = as_inputs("X", X, copy=True)
    y, likelihood = with_limits(y, as_likelihood(likelihood))
    targets, class_names = encode_targets(y, X.shape[0], likelihood)
    if likelihood.has_classes and mean_func is not None:
        raise ValueError(
            "mean_func must be None with several classes, got one: what is added to the latent values of all classes "
            "cancels. Leave it out."
        )
    model = pm.Model.get_context(error_if_none=False)
    model = pm.Model() if model is None else model
    with model:
        model.add_coord("obs_id", np.arange(X.shape[0]) if labels is None else labels)
        mean = pm.gp.mean.Zero() if mean_func is None else Mean(mean_func)
        if likelihood.has_classes:
            model.add_coord("class", list(class_names))
            root = pt.linalg.cholesky(cov_func(X) + jitter * pt.eye(X.shape[0]))
            white = pm.Normal("f_rotated_", shape=(X.shape[0], len(class_names)))
            f = pm.Deterministic("f", root @ white, dims=("obs_id", "class"))
            likelihood = likelihood.with_classes(class_names)
        else:
            f = pm.gp.Latent(mean_func=mean, cov_func=cov_func).prior("f", X, jitter=jitter, dims="obs_id")
        observe("y", f, targets, likelihood, dims="obs_id", **parameters)
    _processes[model] = _Process(X, cov_func, mean)
    return model


class _Process(NamedTuple):
    X: Array
    cov_func: Any
    mean_func: Any


_processes: WeakKeyDictionary[pm.Model, _Process] = WeakKeyDictionary()


def latent_conditional(name: str, X_new: Any, *, jitter: float = JITTER, **kwargs: Any) -> Variable:
    """Add the latent values at new inputs to a model of `latent_model`, which is in context, and return their variable.

    Call it after sampling, for ``pm.sample_posterior_predictive(idata, var_names=[name])``.

    Parameters
    ----------
    name : str
        Of the variable.
    X_new : (m, d) array_like or pm.Data
        Inputs.
    jitter : float
        Added to the diagonals of covariances that are factorised: that which `latent_model` had.
    **kwargs
        For ``pm.MvNormal``, such as ``dims``; with several classes for ``pm.Deterministic``.

    Returns
    -------
    TensorVariable
        (m,), or (m, C) with several classes, Gaussian: the prior at X_new given the latent values ``f`` of the training
        cases.

    Raises
    ------
    ValueError
        If the model in context is none that `latent_model` made.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesgp_mf.pymc import latent_conditional, latent_model
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> model = latent_model(X, X[:, 0] > 0, pm.gp.cov.ExpQuad(1, ls=1.0))
    >>> with model:
    ...     f_new = latent_conditional("f_new", [[-1.0], [1.0]])
    >>> f_new.name, f_new.ndim
    ('f_new', 1)
    """
    model = pm.modelcontext(None)
    if model not in _processes:
        raise ValueError(
            "the model in context has no latent process that could be continued: call latent_conditional in a model "
            "of latent_model, in the process that made it."
        )
    X, cov_func, mean_func = _processes[model]
    X_new = X_new if isinstance(X_new, Variable) else as_inputs("X_new", X_new)
    f = model["f"]
    root = pt.linalg.cholesky(cov_func(X) + jitter * pt.eye(X.shape[0]))
    white, cross = (
        pt.linalg.solve_triangular(root, value, lower=True, b_ndim=value.type.ndim)
        for value in ((f.T - mean_func(X)).T, cov_func(X, X_new))
    )
    mean = (mean_func(X_new) + (cross.T @ white).T).T  # of each class, where there are several
    covariance = cov_func(X_new) - cross.T @ cross
    covariance = 0.5 * (covariance + covariance.T) + jitter * pt.eye(covariance.shape[0])
    if f.type.ndim == 1:
        mean, covariance = interpreted([mean, covariance], known=[f])
        return pm.MvNormal(name, mu=mean, cov=covariance, **kwargs)
    mean, root = interpreted([mean, pt.linalg.cholesky(covariance)], known=[f])
    return pm.Deterministic(name, mean + root @ pm.Normal(f"{name}_rotated_", shape=mean.shape), **kwargs)


def observe(
    name: str, f: Variable, t: Any, likelihood: Likelihood, *, dims: str | None = None, **parameters: Any
) -> Variable:
    """Add targets given latent values to the model in context, and return their variable.

    Parameters
    ----------
    name : str
        Of the variable.
    f : (n,) tensor
        Latent values; ``(n, C)`` with several classes.
    t : (n,) array
        Labels -1/+1, observed as 0/1, numbers of classes, counts or real numbers.
    likelihood : Likelihood
        `Probit` with noise, `Logit`, or one of ``likelihoods`` with a name.
    dims : str, optional
        Name of the dimension of the cases.
    **parameters : float or random variable
        Values that replace the parameters of the likelihood.

    Raises
    ------
    UndefinedQuantityError
        If the likelihood is a step, or one that is not known in terms of PyTensor.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesgp_mf as bgp
    >>> with pm.Model() as model:
    ...     f = pm.Normal("f", shape=3)
    ...     y = bgp.pymc.observe("y", f, [1, -1, 1], bgp.Probit(1.0))
    >>> float(model.compile_logp()({"f": [0.0, 0.0, 0.0]}).round(3))
    -4.836
    """
    fixed, tensors = split_parameters(likelihood, parameters)
    log_prob(fixed, pt.zeros(f.shape[0]), f, tensors)  # what it refuses, it refuses now
    binary, several = fixed.is_binary, fixed.has_classes

    def logp(value: Variable, f: Variable, *values: Variable) -> Variable:
        return log_prob(fixed, value, f, dict(zip(tensors, values, strict=True)))

    def random(f: Any, *values: Any, rng: np.random.Generator, size: Any = None) -> Any:
        # PyMC gives them as many axes as f has
        at = fixed.with_parameters(**{name: np.asarray(v).item() for name, v in zip(tensors, values, strict=True)})
        if size is not None:
            f = np.broadcast_to(f, (*size, f.shape[-1]) if several else size)
        drawn = at.sample(f, rng)
        return (drawn > 0).astype(np.int64) if binary else drawn.astype(np.int64) if several else drawn

    return pm.CustomDist(
        name,
        f,
        *tensors.values(),
        logp=logp,
        random=random,
        dtype="int64" if binary or several else "float64",
        observed=(np.asarray(t) > 0).astype(np.int64) if binary else np.asarray(t, np.int64) if several else t,
        dims=dims,
        **({"signature": f"(c){',()' * len(tensors)}->()"} if several else {}),
    )


def _double(function: Callable[..., Variable]) -> Any:
    """Return the function of tensors in double precision: PyTensor would take a number such as 1.5 for a single."""
    return staticmethod(lambda *values: function(*(pt.cast(value, "float64") for value in values)))


class _Functions:
    """The functions in terms of which a likelihood writes its log density, as operations of PyTensor."""

    exp, log, log1p, sqrt = _double(pt.exp), _double(pt.log), _double(pt.log1p), _double(pt.sqrt)
    logaddexp, softplus, gammaln = _double(pt.logaddexp), _double(pt.softplus), _double(pt.gammaln)
    expm1, log1mexp, where = _double(pt.expm1), _double(pt.log1mexp), staticmethod(pt.switch)
    constant = staticmethod(disconnected_grad)

    @staticmethod
    def of_class(f: Variable, t: Variable) -> Variable:
        """Return the latent value of class t of each case ``(n,)``, for ``f (n, C)``."""
        return f[pt.arange(f.shape[0]), pt.cast(t, "int64")]

    @staticmethod
    def log_sum_exp(x: Variable) -> Variable:
        """Return log of the sum of exponentials along the last axis."""
        return pt.logsumexp(x, axis=-1)

    @staticmethod
    def log_ndtr(z: Variable) -> Variable:
        """Return log of the normal distribution function, whose derivative is finite however large z is.

        Each side has an argument that stays on it: the other side's overflow would be NaN in a derivative as it stands,
        before PyTensor rewrites it.
        """
        z = pt.cast(z, "float64")
        lower, upper = pt.minimum(z, -1.0), pt.maximum(z, -1.0)
        tail = pt.log(0.5 * pt.erfcx(-lower * np.sqrt(0.5))) - 0.5 * lower**2
        return pt.switch(pt.lt(z, -1.0), tail, pt.log1p(-0.5 * pt.erfc(upper * np.sqrt(0.5))))


def log_prob(likelihood: Likelihood, y: Any, f: Variable, parameters: dict[str, Variable]) -> Variable:
    """Return log p(y | f) of each case as a graph, for labels 0/1, numbers of classes, counts or real targets y."""
    t = 2.0 * y - 1.0 if likelihood.is_binary else y
    graph: Variable | None = likelihood.log_prob_graph(_Functions, t, f, **parameters)
    if graph is None:
        raise UndefinedQuantityError(
            f"{type(likelihood).__name__} is not known in terms of PyTensor. Use another likelihood of this package, "
            "give yours a method log_prob_graph, or write the model with pm.gp.Latent and a distribution of PyMC."
        )
    return graph
