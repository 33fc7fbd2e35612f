r"""The exact model: the same Gaussian process with its latent values as variables, to sample as a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs import as_inputs, as_pandas, check_same_cases, encode_targets, row_labels
from bayesgp_mf.likelihoods import AnyLikelihood, Likelihood, Probit
from bayesgp_mf.likelihoods.optional import log_prob_graph, with_parameters
from bayesgp_mf.pymc.covariance import as_cov_func
from bayesgp_mf.pymc.graph import interpreted
from bayesgp_mf.pymc.marginal import JITTER
from bayesgp_mf.pymc.mean import Mean
from bayesgp_mf.pymc.parameters import split_parameters
from bayesgp_mf.types import Array


def latent_model(
    X: Any,
    y: Any,
    cov_func: Any,
    likelihood: AnyLikelihood = Probit(),
    *,
    mean_func: Any = None,
    jitter: float = JITTER,
    **parameters: Any,
) -> pm.Model:
    """Return the PyMC model of labels under a Gaussian process, with nothing integrated out or approximated.

    Its posterior is what `Marginal` approximates; sampling it takes long, since the latent values and the
    hyperparameters are strongly correlated.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs.
    y : (n,) array_like
        Labels, any two distinct values, or the counts or real numbers that the likelihood has as targets.
    cov_func : pymc.gp.cov.BaseCovariance or Kernel
        Prior covariance, as for `Marginal`.
    likelihood : Likelihood
        `Probit` with noise, `Logit`, or one of ``likelihoods`` with a name: ``Gaussian``, ``StudentT``, ``Poisson``,
        ``NegativeBinomial``, ``Binomial``.
    mean_func : pymc.gp.mean.Mean or callable, optional
        Prior mean, as for `Marginal`; zero if left out.
    jitter : float
        Added to the diagonal of the covariance of the latent values, since PyMC factorises it: noise in the prior.
    **parameters : float or random variable
        Parameters of the likelihood that take the place of its own.

    Returns
    -------
    pymc.Model
        The model in context, in which random variables of ``cov_func`` must be, or a new one. With ``f`` ``(n,)``, the
        latent values, made from white ones, and ``y`` ``(n,)``, labels observed as 0/1.

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
    targets, _ = encode_targets(y, X.shape[0], likelihood)
    model = pm.Model.get_context(error_if_none=False)
    model = pm.Model() if model is None else model
    with model:
        model.add_coord("obs_id", np.arange(X.shape[0]) if labels is None else labels)
        mean = pm.gp.mean.Zero() if mean_func is None else Mean(mean_func)
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
        For ``pm.MvNormal``, such as ``dims``.

    Returns
    -------
    TensorVariable
        (m,), Gaussian: the prior at X_new given the latent values ``f`` of the training cases.

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
        for value in (f - mean_func(X), cov_func(X, X_new))
    )
    mean = mean_func(X_new) + cross.T @ white
    covariance = cov_func(X_new) - cross.T @ cross
    covariance = 0.5 * (covariance + covariance.T) + jitter * pt.eye(covariance.shape[0])
    mean, covariance = interpreted([mean, covariance], known=[f])
    return pm.MvNormal(name, mu=mean, cov=covariance, **kwargs)


def observe(
    name: str, f: Variable, t: Any, likelihood: Likelihood, *, dims: str | None = None, **parameters: Any
) -> Variable:
    """Add targets given latent values to the model in context, and return their variable.

    Parameters
    ----------
    name : str
        Of the variable.
    f : (n,) tensor
        Latent values.
    t : (n,) array
        Labels -1/+1, observed as 0/1, or counts or real numbers.
    likelihood : Likelihood
        `Probit` with noise, `Logit`, or one of ``likelihoods`` with a name.
    dims : str, optional
        Name of the dimension of the cases.
    **parameters : float or random variable
        Parameters of the likelihood that take the place of its own.

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
    log_prob(fixed, 0.0, f, tensors)  # what it refuses, it refuses now
    binary = fixed.targets == "binary"

    def logp(value: Variable, f: Variable, *values: Variable) -> Variable:
        return log_prob(fixed, value, f, dict(zip(tensors, values, strict=True)))

    def random(f: Any, *values: Any, rng: np.random.Generator, size: Any = None) -> Any:
        # PyMC gives them as many axes as f has
        at = with_parameters(fixed, {name: np.asarray(v).item() for name, v in zip(tensors, values, strict=True)})
        drawn = at.sample(np.broadcast_to(f, size) if size is not None else f, rng)
        return (drawn > 0).astype(np.int64) if binary else drawn

    return pm.CustomDist(
        name,
        f,
        *tensors.values(),
        logp=logp,
        random=random,
        dtype="int64" if binary else "float64",
        observed=(np.asarray(t) > 0).astype(np.int64) if binary else t,
        dims=dims,
    )


def _double(function: Callable[..., Variable]) -> Any:
    """Return the function of tensors in double precision: PyTensor would take a number such as 1.5 for a single."""
    return staticmethod(lambda *values: function(*(pt.cast(value, "float64") for value in values)))


class _Functions:
    """The functions in terms of which a likelihood writes its log density, as operations of PyTensor."""

    exp, log, log1p, sqrt = _double(pt.exp), _double(pt.log), _double(pt.log1p), _double(pt.sqrt)
    logaddexp, softplus, gammaln = _double(pt.logaddexp), _double(pt.softplus), _double(pt.gammaln)

    @staticmethod
    def log_ndtr(z: Variable) -> Variable:
        """Return log of the normal distribution function.

        PyMC's is good far into the lower tail; its sqrt(2) has single precision, which makes a relative error of 1e-8
        in the argument.
        """
        return pm.logcdf(pm.Normal.dist(), z)


def log_prob(likelihood: Likelihood, y: Any, f: Variable, parameters: dict[str, Variable]) -> Variable:
    """Return log p(y | f) elementwise as a graph, for labels 0/1, counts or real targets y."""
    t = 2.0 * y - 1.0 if likelihood.targets == "binary" else y
    graph: Variable | None = log_prob_graph(likelihood, _Functions, t, f, parameters)
    if graph is None:
        raise UndefinedQuantityError(
            f"{type(likelihood).__name__} is not known in terms of PyTensor. Use another likelihood of this package, "
            "give yours a method log_prob_graph, or write the model with pm.gp.Latent and a distribution of PyMC."
        )
    return graph
