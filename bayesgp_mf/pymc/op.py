r"""The inner solver as PyTensor operations: the log evidence with its gradient, and the Gaussian posterior.

One solution serves the value and the gradient: `LogEvidence` returns the derivatives as further outputs, and its
pull-back multiplies by them.

Beside the kernel, parameters of the likelihood and a prior mean may be random. The evidence of the mean-field theories
(naive, variational, TAP) is stationary in everything that was solved for, and a parameter of the likelihood enters it
only by way of :math:`\log Z_i`. So its derivative is the explicit one, at the cavities of the solution,

.. math:: \frac{\partial \log p(t)}{\partial \theta} = \sum_i \partial_\theta \log Z_i(m_i, \lambda_i).

which the likelihood states (`Likelihood.parameter_derivative`).

With the prior :math:`N(\mu, K)` of the latent values, a solver sees their deviations g from the mean, under the
likelihood shifted by it (`likelihoods.by_case`). The mean-field evidences are stationary in all that was solved for,
and the mean enters them by way of :math:`\log Z_i(\mu_i + m_i, \lambda_i)` only, so that

.. math:: \frac{\partial \log p(t)}{\partial \mu_i} = \partial_{m_i} \log Z_i = \alpha_i.

Laplace's evidence is :math:`\Psi - \tfrac12 \log\det(I + KW)` at the mode. Psi is stationary there and gives
:math:`\alpha` again, but W moves with :math:`f = \mu + g`. From :math:`dg = -KW\, df` follows
:math:`df = (I + KW)^{-1} d\mu`, and with :math:`s_i = \tfrac12 \Sigma_{ii} l'''_i`, the derivative of the other term in
f_i (`solvers.laplace`),

.. math:: \frac{\partial \log p(t)}{\partial \mu} = \alpha + (I + WK)^{-1} s = \alpha + (I - RK)\, s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, grad_undefined
from pytensor.graph.basic import Variable

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.errors import LowRankError, UndefinedQuantityError
from bayesgp_mf.hyper.objective import NO_VALUE
from bayesgp_mf.inference.assembly import LARGEST, strongest_site
from bayesgp_mf.inference.problem import Problem, check_likelihood
from bayesgp_mf.inference.solution import Control, Solution
from bayesgp_mf.inference.solver import gradient_at_cavities, traits_of
from bayesgp_mf.inputs.options import as_likelihood
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.methods import METHODS, MethodName, get_method
from bayesgp_mf.pymc.graph import FloatOp, Function
from bayesgp_mf.types import Array


def split_parameters(likelihood: Likelihood | str, given: Mapping[str, Any]) -> tuple[Likelihood, dict[str, Variable]]:
    """Put numbers into a likelihood, and return it with the parameters that are random variables or other tensors."""
    likelihood = as_likelihood(likelihood)
    check_parameters(likelihood, tuple(given))
    tensors = {name: value for name, value in given.items() if isinstance(value, Variable)}
    for name, tensor in tensors.items():
        if tensor.type.ndim:
            raise ValueError(
                f"{name} of {likelihood.display_name} must be one number for all cases, got a tensor of "
                f"{tensor.type.ndim} dimensions."
            )
    numbers = {name: value for name, value in given.items() if name not in tensors}
    return likelihood.with_parameters(**numbers) if numbers else likelihood, tensors


def check_single_latent(likelihood: Likelihood) -> None:
    """Raise a ValueError if a case has no single latent value under what is given as a likelihood."""
    check_likelihood(likelihood)
    if likelihood.has_classes:
        raise ValueError(
            f"Marginal and LogEvidence have one latent value for each case, and {likelihood.display_name} has one "
            "for each class. Use bayesgp_mf.fit(..., hyper='nuts'), which samples the hyperparameters with PyMC, or "
            "pymc.latent_model, which samples the latent values too."
        )


def check_parameters(likelihood: Likelihood, names: tuple[str, ...]) -> None:
    """Raise a ValueError if one of ``names`` is no parameter of the likelihood that may be random."""
    known = likelihood.parameters
    for name in names:
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters that could be given"
            raise ValueError(f"unknown parameter {name!r} of the likelihood {likelihood.display_name}: {has}.")


def check_differentiable(method: str, names: tuple[str, ...]) -> None:
    """Raise an UndefinedQuantityError if the derivative of a method's evidence in these parameters is not known."""
    if names and not traits_of(METHODS[method]).stationary:
        able = sorted(name for name, solver in METHODS.items() if traits_of(solver).stationary)
        raise UndefinedQuantityError(
            f"the evidence of method {method!r} has no derivative in {', '.join(names)} here: only the covariance may "
            f"be random. Give a number instead, or use one of the methods {', '.join(able)}."
        )


class Mean:
    """A mean function as a graph, and as a NumPy function of inputs and parameters, compiled when first used."""

    def __init__(self, mean_func: Any) -> None:
        if not callable(mean_func):
            raise ValueError(
                "mean_func must be one of pm.gp.mean, or a function of the inputs that returns a vector, such as "
                f"lambda X: X @ beta, got {type(mean_func).__name__}. A mean without a function is not known at new "
                "inputs."
            )
        self._mean_func = mean_func
        X = pt.dmatrix("X")
        self._function = Function([X], [self(X)])
        self.parameters = self._function.parameters

    def __call__(self, X: Any) -> Variable:
        """Return the means ``(n,)`` at inputs ``(n, d)``, as a graph."""
        value = pt.as_tensor_variable(self._mean_func(pt.as_tensor_variable(X)))
        if value.type.ndim != 1:
            raise ValueError(
                f"mean_func must return a vector, one number for each row of X, got {value.type.ndim} dimensions."
            )
        return pt.cast(value, "float64")

    def at(self, values: Mapping[str, Array]) -> Callable[[Array], Array]:
        """Return the function of inputs at values of the parameters."""
        return lambda X: self._function([X], values)[0]


def sum_of_means(one: Mean | None, other: Mean | None) -> Mean | None:
    """Return the sum of two prior means, of which None is zero."""
    if one is None or other is None:
        return other if one is None else one
    return Mean(lambda X: one(X) + other(X))


def check_mean(method: str, likelihood: Likelihood) -> None:
    """Raise an UndefinedQuantityError unless the derivative of a method's evidence in a prior mean is known."""
    shifted = by_case(likelihood, prior_mean=np.zeros(1))  # refuses a step
    traits = traits_of(METHODS[method])
    if traits.mean_gradient is None:
        able = sorted(name for name, solver in METHODS.items() if traits_of(solver).mean_gradient is not None)
        raise UndefinedQuantityError(
            f"method {method!r} takes no mean_func: its prior mean is zero. Use one of the methods {', '.join(able)}, "
            "or add pm.gp.cov.Constant(variance) or pm.gp.cov.Linear to cov_func, a Gaussian prior on the same trend."
        )
    if traits.check is not None:
        traits.check(shifted)


FAILURES = (*NO_VALUE, np.linalg.LinAlgError)
"""How the inner solver may fail at some hyperparameters; anything else is a mistake in the call."""

SMALLEST = 150
"""Cases from which on a root of low rank is faster."""
ACCURACY, LARGEST_MOVE = 1e-8, 1e-7
"""In nats: how far what a root leaves out may move a log evidence, by the sites before and after a solution."""

_log = logging.getLogger(__name__)


class Inference(FloatOp):
    """What the operations share: inputs K, t, perhaps a prior mean, random parameters of the likelihood; the solution.

    It holds no state: each solution starts from the prior, so that a density is one function of its arguments,
    whichever thread or chain asks, and in whatever order.
    """

    __props__: tuple[str, ...] = ("likelihood", "parameters", "with_mean", "method", "control")

    def __init__(
        self,
        likelihood: Likelihood,
        *,
        parameters: Sequence[str] = (),
        with_mean: bool = False,
        method: MethodName = "tap",
        control: Control = Control(),
    ) -> None:
        check_single_latent(likelihood)
        self.likelihood = likelihood
        self.parameters = tuple(parameters)
        self.with_mean = with_mean
        self.method = get_method(method).name
        self.control = control
        self._control = replace(control, throw=True, progress=False)
        check_parameters(likelihood, self.parameters)
        if with_mean:
            check_mean(self.method, likelihood)

    def __str__(self) -> str:
        return f"{type(self).__name__}{{{self.method}, {self.likelihood.display_name}}}"

    @property
    def gufunc_signature(self) -> str:
        """Core dimensions of inputs and outputs, by which PyTensor vectorises."""
        return f"{','.join(self._input_dims().values())}->{','.join(self._output_dims())}"

    def _input_dims(self) -> dict[str, str]:
        mean = {"mean": "(n)"} if self.with_mean else {}
        return {"K": "(n,n)", "t": "(n)", **mean, **dict.fromkeys(self.parameters, "()")}

    def _output_dims(self) -> list[str]:
        raise NotImplementedError

    def _check(self, tensors: list[Variable]) -> None:
        """Raise a ValueError unless these are K ``(n, n)``, t ``(n,)``, the prior mean ``(n,)`` and the parameters."""
        expected = self._input_dims()
        if len(tensors) != len(expected):
            raise ValueError(f"{self} takes {', '.join(expected)}, got {len(tensors)} inputs.")
        for (name, dims), found in zip(expected.items(), tensors, strict=True):
            if found.type.ndim != dims.count("n"):
                raise ValueError(f"{name} must have {dims.count('n')} dimensions, got {found.type.ndim}.")

    def _output_shapes(self, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [shapes[1] * dims.count("n") for dims in self._output_dims()]

    def likelihood_at(self, values: Sequence[Any]) -> Likelihood:
        """Return the likelihood with its random parameters set to numbers.

        Raises
        ------
        ArithmeticError
            If a number is outside of the parameter's domain, where a prior may well reach.
        """
        try:
            return self.likelihood.with_parameters(
                **({k: float(v) for k, v in zip(self.parameters, values, strict=True)})
            )
        except ValueError as error:
            raise ArithmeticError(str(error)) from error

    def _results(self, *inputs: Array) -> Sequence[float | Array]:
        with one_thread_if_small(inputs[1].shape[0]):
            return self._solved(*inputs)

    def _solved(self, gram: Array, t: Array, *others: Array) -> Sequence[float | Array]:
        raise NotImplementedError

    def solve(self, gram: Array, t: Array, *inputs: Any) -> tuple[Problem, Solution]:
        """Return the problem and its solution, or raise one of `FAILURES`; the inputs are those of the operation."""
        mean, values = (inputs[0], inputs[1:]) if self.with_mean else (None, inputs)
        likelihood = self.likelihood_at(values)
        if not np.isfinite(gram).all():
            raise ArithmeticError("the covariance function overflows at these hyperparameters.")
        if likelihood.forbids and not np.all(np.diag(gram) > 0.0):
            raise ArithmeticError("a latent value has no prior variance, so that a step has no side to place it on.")
        if mean is not None:
            if not np.all(np.isfinite(mean)):
                raise ArithmeticError("the mean function overflows at these hyperparameters.")
            likelihood = by_case(likelihood, prior_mean=np.asarray(mean, dtype=np.float64))
        return self._on(gram, t, likelihood)

    def _on(self, gram: Array | Matrix, t: Array, likelihood: Likelihood) -> tuple[Problem, Solution]:
        """Return the problem on a Gram matrix, and its solution."""
        problem = Problem(gram, t, likelihood)
        return problem, get_method(self.method).solve(problem, self._control)


class LogEvidence(Inference):
    r"""The log evidence log p(t | K, parameters) as a differentiable PyTensor operation.

    ``LogEvidence(...)(K, t, *parameters)`` returns ``[log Z, d log Z/dK, d log Z/d parameter ..., converged]``, and
    ``LogEvidence(..., with_mean=True)(K, t, mean, *parameters)`` the derivative in the prior mean ``(n,)`` behind that
    in K. Only log Z can be differentiated, once.

    Where the inner solver finds no solution, log Z is -inf, the derivatives are zero and ``converged`` is 0 (else it is
    1): a sampler rejects such a point and counts it as a divergence. The reason is logged, at level INFO, by the logger
    ``bayesgp_mf.pymc.op``.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f); those of its parameters that are not inputs stay as they are in here.
    parameters : sequence of str
        Names of those that are inputs: ``noise_variance`` and ``flip`` for `Probit`, ``noise_variance`` for
        ``likelihoods.Gaussian``; none for others, and none for methods other than tap, naive and variational.
    with_mean : bool
        Take a prior mean of the latent values, ``(n,)``, as a further input, with the methods tap, naive, variational
        and laplace. Otherwise it is zero.
    method : str
        Name of a method that has an evidence: a key of `methods.METHODS`.
    control : Control
        Tolerance and largest number of steps of the inner solver, and the form in which it has K: ``gram="auto"`` is a
        root of low rank from 150 cases on, if there is one.
    on_failure : {"reject", "raise"}
        What to do where it finds no solution: as above, or raise its error, to see what is wrong.

    Raises
    ------
    ValueError
        If an argument is invalid.
    UndefinedQuantityError
        If the derivative in a parameter is not known for the method.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.pymc import LogEvidence
    >>> log_z = LogEvidence(bgp.Probit(), parameters=["noise_variance"])([[2.0, 1.0], [1.0, 2.0]], [1, -1], 0.5)
    >>> round(float(log_z[0].eval()), 6), round(float(log_z[2].eval()), 6)
    (-1.689704, 0.150178)
    """

    __props__ = (*Inference.__props__, "on_failure")
    __str__ = Inference.__str__  # for a class with __props__ of its own, PyTensor would write another

    def __init__(
        self, likelihood: Likelihood, *, on_failure: Literal["reject", "raise"] = "reject", **options: Any
    ) -> None:
        super().__init__(likelihood, **options)
        check_differentiable(self.method, self.parameters)
        check_one_of("on_failure", on_failure, "reject", "raise")
        self._has_root = LowRankGram.form in traits_of(get_method(self.method)).matrices
        if self.control.gram == "low_rank" and not self._has_root:
            raise LowRankError(
                f"Control(gram='low_rank') is not possible: method {self.method!r} needs the whole matrix."
            )
        self.on_failure = on_failure

    def _output_dims(self) -> list[str]:
        return ["()", "(n,n)", *list(self._input_dims().values())[2:], "()"]

    def _on(self, gram: Array | Matrix, t: Array, likelihood: Likelihood) -> tuple[Problem, Solution]:
        """Return the problem and its solution, on a root of low rank where that leaves out too little to matter."""
        form, n = self.control.gram, t.size
        if not self._has_root or form == "dense" or (form == "auto" and n < SMALLEST):
            return super()._on(gram, t, likelihood)
        whole, on_root = DenseGram(np.asarray(gram)), None
        strongest = strongest_site(likelihood, t, whole.diagonal())
        if 0.0 < strongest < np.inf:
            on_root = whole.on_root(2.0 * ACCURACY / strongest, n // LARGEST[form])
        if on_root is not None:
            with suppress(*(FAILURES if form == "auto" else ())):  # the whole matrix says why
                problem, solution = super()._on(on_root, t, likelihood)
                if _moved(whole, on_root, solution) <= LARGEST_MOVE:
                    return problem, solution
        if form == "low_rank":
            raise LowRankError(
                f"Control(gram='low_rank') is not possible here: the root has more than n/{LARGEST[form]} = "
                f"{n // LARGEST[form]} columns before it leaves out so little that the log evidence is right to "
                f"{ACCURACY:.0e} nats. Use Control(gram='auto')."
            )
        return super()._on(gram, t, likelihood)

    def _solved(self, gram: Array, t: Array, *others: Array) -> Sequence[float | Array]:
        solver = get_method(self.method)
        traits: Any = traits_of(solver)  # which say what is needed here: `check_mean`, `check_differentiable`
        try:
            with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
                problem, solution = self.solve(gram, t, *others)
                slope: Any = solver.gram_gradient(problem, solution)
                results = [solution.evidence.value, slope if isinstance(slope, np.ndarray) else slope.dense()]
                results += [traits.mean_gradient(problem, solution)] if self.with_mean else []
                results += [gradient_at_cavities(problem, solution, name) for name in self.parameters]
                if not all(np.isfinite(result).all() for result in results):
                    raise ArithmeticError("the log evidence or its gradient overflows.")
            return [*results, 1.0]
        except (*FAILURES, LowRankError) as reason:
            if self.on_failure == "raise":
                raise
            _log.info("no solution, so the log evidence is -inf: %s", reason)
            return [-np.inf, *[np.zeros(np.shape(value)) for value in (gram, *others)], 0.0]

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivatives in the inputs, given those in log Z."""
        if any(not isinstance(cotangent.type, DisconnectedType) for cotangent in cotangents[1:]):
            raise NotImplementedError(
                "only the log evidence itself, the first output of LogEvidence, can be differentiated, and only once: "
                "its second derivatives are not there. Use a method without Hessians (NUTS, L-BFGS, BFGS)."
            )
        slope = cotangents[0]
        targets = grad_undefined(self, 1, inputs[1], "the targets are data")
        return [slope * outputs[1], targets, *[slope * output for output in outputs[2:-1]]]


def _moved(whole: DenseGram, on_root: LowRankGram, solution: Solution) -> float:
    """Return a bound of how far what a root leaves out moves the log evidence, in nats (`matrices.low_rank`)."""
    alpha, strongest = solution.alpha, float(np.max(np.abs(solution.sites.site_precision)))
    return 0.5 * max(strongest * on_root.left_out, float(alpha @ (whole @ alpha - on_root @ alpha)))


class LatentPosterior(Inference):
    """The Gaussian posterior of the latent values as a PyTensor operation, which has no derivative.

    ``LatentPosterior(...)(K, t, *parameters)`` returns ``[alpha, R]``: the posterior at inputs x has the mean k(x)'
    alpha and the covariance k(x, x') - k(x)' R k(x'). With ``with_mean=True`` the prior mean ``(n,)`` stands behind t,
    and that at x has to be added. Where there is no solution it raises what the solver raised.

    Parameters
    ----------
    likelihood, parameters, with_mean, method, control
        As for `LogEvidence`.
    """

    def _output_dims(self) -> list[str]:
        return ["(n)", "(n,n)"]

    def _solved(self, gram: Array, t: Array, *others: Array) -> Sequence[float | Array]:
        _, solution = self.solve(gram, t, *others)
        return solution.alpha, solution.correction.dense()

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Raise a NotImplementedError."""
        raise NotImplementedError(
            "the Gaussian posterior cannot be differentiated in its hyperparameters. Sample these first, and only then "
            "call conditional(...) and pm.sample_posterior_predictive."
        )
