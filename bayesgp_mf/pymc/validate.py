"""A fit against the truth: the same model sampled with nothing integrated out, and both held against each other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import check_flags, check_integers
from bayesgp_mf.container.checks import checksum
from bayesgp_mf.container.draws import as_stored
from bayesgp_mf.container.groups import Container, copied, get_group, group_names, make_container, set_group
from bayesgp_mf.container.layout import DOUBT, SAMPLE_DIMS, common_attrs
from bayesgp_mf.container.read import fit_group, from_container, has_random_kernels
from bayesgp_mf.container.stored import describe_priors
from bayesgp_mf.diagnostics.agreement import Agreement, agreement, draws_of
from bayesgp_mf.diagnostics.importance import FEWEST_IN_CHAIN, fewest_effective
from bayesgp_mf.diagnostics.orthant import log_orthant_probability
from bayesgp_mf.errors import NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.fitting import Seed, predict
from bayesgp_mf.hyper import Prior, Target
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import cholesky
from bayesgp_mf.matrices.memory import check_draws, check_memory
from bayesgp_mf.processes.process import Process
from bayesgp_mf.pymc.joint import Joint, LogJoint, StepSampling
from bayesgp_mf.pymc.nuts import SamplerName, Sampling, inside
from bayesgp_mf.types import Array
from bayesgp_mf.workflow.log import Log, done_of
from bayesgp_mf.workflow.model import Generative, generative_of

LARGEST_R_HAT, FEWEST_EFFECTIVE = 1.01, 400.0
"""A reference whose chains differ by more, or that has fewer effective draws of some latent value, is not trusted [1]_.

.. [1] Vehtari, A., Gelman, A., Simpson, D., Carpenter, B., & Bürkner, P.-C. (2021). Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16, 667-718.
"""
MOST_DIVERGING = 0.001
"""The share of trajectories that diverged, beyond which draws from nearby may be missing."""
FEWER_DRAWS = "Ask for fewer: validate(..., draws=...)."


def validate(
    idata: Container,
    *,
    X_new: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    target_accept: float = 0.8,
    path: Any = None,
    processes: int = 1,
    random_seed: Seed = None,
    progress: bool = True,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    priors: Mapping[str, Prior] | None = None,
) -> Validation:
    """Sample the model of a fit with PyMC, with nothing approximated, and hold the fit against that.

    Latent values are sampled by NUTS, or by `pymc.OrthantStep` under a step likelihood. If the fit averaged over
    hyperparameters, these are sampled too, with the priors of the fit. If it did not, they stay where the fit has them,
    also where it searched for them: then it is the posterior there that is looked at, and not what a point leaves out.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` or `predict` returned, or the same loaded from a file. It is not changed.
    X_new : (m, d) array_like, optional
        New inputs, whose probabilities of labels, levels or classes are compared; of counts and measurements the latent
        values there. Without them those of the predictions in ``idata``, if any.
    offset, trials : (m,) array_like, optional
        Of the new cases, as for `predict`.
    draws, tune, chains : int
        Draws of each chain that are kept, those before them, and chains.
    target_accept : float
        Acceptance rate that NUTS aims at. Nearer to 1 divergences are fewer.
    path : str or Path, optional
        A file, to which each chain is written when it is done. A second call with the same arguments goes on there,
        with more chains too; none that is there gets longer.
    processes : int
        How many chains at a time, each in its own process. The draws do not depend on it.
    random_seed : int, numpy.random.Generator or None
        Source of all randomness. Each chain has a source of its own.
    progress : bool
        Show a progress bar if it takes longer than a second.
    kernel, likelihood, method, priors
        Those of the fit, if the container does not hold them.

    Returns
    -------
    Validation
        With ``verdict``, ``agreement`` and ``reference``, a container for `report` and ArviZ. It prints the verdict.

    Raises
    ------
    ValueError
        If an argument is invalid, or ``path`` has chains of another call.
    UndefinedQuantityError
        If this cannot be sampled: labels that may be flipped or classes, both without noise, which leave no slope to
        follow; hyperparameters under a step; or a table in parts.
    NotPositiveDefiniteError
        If the likelihood is a step, and the Gram matrix is singular.

    Warns
    -----
    UserWarning
        If Ctrl-C ended it early: chains that were done are returned.

    Notes
    -----
    Kernel and likelihood are those of this package; the approximation is what is checked. At fixed hyperparameters the
    log evidence is found by bridge sampling [1]_, under a step by minimax tilting. Over random ones there is none to
    compare: of an average no single number is stored. There the prior of the latent values has noise of 1e-8 of its
    variance, by which its covariance can be factorised. A fit on inducing inputs is held against all cases.

    References
    ----------
    .. [1] Meng, X.-L., & Wong, W. H. (1996). Simulating ratios of normalizing constants via a simple identity.
       Statistica Sinica 6, 831-860.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 12)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Matern32(1.0, 4.0), method="laplace", random_seed=1)
    >>> found = bgp.validate(idata, draws=600, tune=300, chains=2, random_seed=1)
    >>> found.trusted, found.agreement.verdict
    (True, 'differ')
    """
    check_integers(1, draws=draws, tune=tune, chains=chains, processes=processes)
    check_flags(progress=progress)
    if not (isinstance(target_accept, float) and 0.0 < target_accept < 1.0):
        raise ValueError(f"target_accept must be a rate between 0 and 1, such as 0.9, got {target_accept!r}.")
    if draws < FEWEST_IN_CHAIN:
        raise ValueError(f"draws must be at least {FEWEST_IN_CHAIN} in a chain, got {draws!r}.")
    given: dict[str, Any] = {"kernel": kernel, "likelihood": likelihood, "method": method}
    model = generative_of(idata, kernel, likelihood, priors)
    process, fit = from_container(idata, **given), fit_group(idata)
    draws_of("idata", idata)  # which raises what the comparison would, before anything is sampled
    if X_new is not None:
        of_new: dict[str, Any] = {"offset": offset, "trials": trials}
        idata = predict(copied(idata), X_new, draws=False, **of_new, **given)
        if has_random_kernels(fit) and "p" not in get_group(idata, "predictions"):  # draws show its errors
            idata = predict(idata, X_new, random_seed=len(model.X), **of_new, **given)
    elif offset is not None or trials is not None:
        raise ValueError("offset and trials are of new cases, and there is no X_new. Give their inputs.")
    joint = _joint(fit, process, model)
    check_draws(int(draws) * int(chains), joint.shift.size, "training", FEWER_DRAWS)
    sampler: StepSampling | Sampling = StepSampling(joint, int(draws), int(tune))
    if not model.likelihood.forbids:
        # nutpie takes fewer points, and numba seconds to compile, which pays where a point takes long
        which: SamplerName = "nutpie" if joint.p and all(map(find_spec, ("nutpie", "numba"))) else "pymc"
        sampler = Sampling(joint, inside(joint), int(draws), int(tune), float(target_accept), which, LogJoint)
    stated = {} if path is None else _stated(joint, model, sampler)
    log = Log.of(path, stated, "validate", "chains", random_seed, partial(_is_chain, int(draws), joint.start.size))
    how: dict[str, Any] = {"processes": int(processes), "progress": progress}
    done = done_of(_chain, (sampler, log.entropy), int(chains), log, title="sampling", **how)
    with one_thread_if_small(len(model.X)):
        reference = _reference(idata, model, joint, done, np.random.default_rng([log.entropy, len(done), 0]))
    r_hat, effective = _convergence(get_group(reference, "posterior"))
    diverging = float(get_group(reference, "sample_stats")["diverging"].mean())
    note = "Hyperparameters were sampled too." if joint.p else "Hyperparameters are those of the fit."
    found = Validation(reference, agreement(idata, reference), r_hat, effective, diverging, note)
    doubt = "" if found.trusted else found.verdict
    set_group(reference, "posterior", get_group(reference, "posterior").assign_attrs({DOUBT: doubt}))
    return found


@dataclass(frozen=True, eq=False)
class Validation:
    """A fit held against samples of its own model.

    Attributes
    ----------
    reference : InferenceData or DataTree
        The samples: the groups ``posterior`` (f, and hyperparameters if they were sampled), ``posterior_predictive``,
        ``log_likelihood``, ``sample_stats``, ``observed_data``, ``constant_data``; ``predictions`` with the probability
        p of new cases, averaged over their latent values given those of the others, or with their latent values f where
        there is no p; ``fit`` with the log evidence at fixed hyperparameters.
    agreement : Agreement
        Of the fit and the reference.
    r_hat : float
        The largest rank-normalised split r-hat of a latent value or a hyperparameter; NaN of one chain.
    effective : float
        The fewest effective draws of one of them.
    diverging : float
        The share of trajectories that diverged.
    note : str
        What became of the hyperparameters.
    """

    reference: Container = field(repr=False)
    agreement: Agreement
    r_hat: float
    effective: float
    diverging: float
    note: str = ""

    @property
    def trusted(self) -> bool:
        """Whether chains are as one and long enough, so that a fit can be measured by them."""
        return not self._failed

    @property
    def _draws(self) -> tuple[int, int]:
        """Chains, and draws of all."""
        sizes = get_group(self.reference, "posterior").sizes
        return sizes["chain"], sizes["chain"] * sizes["draw"]

    @property
    def _failed(self) -> dict[str, str]:
        """Each limit that does not hold, and what to take for it."""
        (chains, draws), more = self._draws, "more draws or tune"
        found = dict[str, str]()
        if chains == 1:
            found["one chain has no r-hat"] = "two or more chains"
        elif not self.r_hat <= LARGEST_R_HAT:
            found[f"r-hat {self.r_hat:.4g} is above {LARGEST_R_HAT:g}"] = more
        if not self.effective >= FEWEST_EFFECTIVE:
            found[f"{self.effective:.0f} effective of {draws} draws are fewer than {FEWEST_EFFECTIVE:g}"] = more
        if self.diverging > MOST_DIVERGING:
            share = f"{100.0 * self.diverging:.2g} % of trajectories diverged, more than {100.0 * MOST_DIVERGING:g} %"
            found[share] = "a target_accept nearer to 1"
        return found

    @property
    def verdict(self) -> str:
        """Whether fit and reference agree, or why that cannot be told, in a sentence or two."""
        if failed := self._failed:
            advice = ", and ".join(dict.fromkeys(failed.values()))
            return f"undecided: the reference is not to be trusted, {', and '.join(failed)}. Take {advice}. {self.note}"
        found = (
            f"r-hat {self.r_hat:.3f}, {self.effective:.0f} effective of {self._draws[1]} draws, "
            f"{100.0 * self.diverging:.2g} % of trajectories diverged"
        )
        return f"{self.agreement} The reference: {found}. {self.note}"

    def __repr__(self) -> str:
        return self.verdict


def _convergence(posterior: xr.Dataset) -> tuple[float, float]:
    """Return the largest r-hat and the fewest effective draws of all that was drawn."""
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of entries that stay as they are
        effective = fewest_effective(posterior)
        r_hat = az.rhat(posterior) if posterior.sizes["chain"] > 1 else None
    return np.nan if r_hat is None else max(float(r_hat[name].max()) for name in r_hat), effective


def _joint(fit: xr.Dataset, process: Process, model: Generative) -> Joint:
    """Return the density to sample, or raise an error that names what cannot be."""
    part = process.parts[int(np.argmax(process.log_evidences))]
    likelihood = part.problem.likelihood
    if likelihood.is_flat and not (likelihood.forbids and likelihood.is_binary):
        raise UndefinedQuantityError(
            f"{likelihood!r} has steps and no slope that a sampler could follow, and no sign that it could keep. Give "
            f"it noise itself: {type(likelihood.of_one_case).__name__}(noise_variance=1.0), with or without flips."
        )
    if likelihood.forbids and process.averaged:
        raise UndefinedQuantityError(
            "hyperparameters under a step are not sampled: given latent values without noise they hardly move. "
            "Validate a fit at one setting, such as hyper='evidence', or give the likelihood noise."
        )
    check_memory(part.problem.n, 1, classes=part.problem.n_classes)
    if not process.averaged:
        joint = Joint.of(part, None)
        if likelihood.forbids:
            if joint.start.size < part.problem.n:  # of the root of the Gram matrix
                raise NotPositiveDefiniteError(
                    "the Gram matrix is singular to rounding, and steps are sampled by its inverse. Add "
                    "kernels.White()."
                )
            cholesky(part.kernel.gram(part.X))  # which raises where it is not positive definite
        return joint
    given = part.X, part.problem.t, likelihood, part.kernel, part.method, Control()
    about = Target(*given, model.priors, model.bounds, model.fixed)
    start = fit["hyper_start"].values.reshape(-1, about.start.size)[0] if "hyper_start" in fit else about.start
    return Joint.of(part, replace(about, origin=about.model_at(start)))


def _stated(joint: Joint, model: Generative, sampler: StepSampling | Sampling) -> dict[str, Any]:
    """Return what a file says of the call that its chains are of."""
    of_fit = joint.X, joint.t, joint.at(joint.start)[0].root, joint.precision, joint.shift
    return {
        "fit": checksum(np.concatenate([array.ravel() for array in of_fit])),
        **describe_priors(model.priors, model.bounds, model.fixed),
        **{name: getattr(sampler, name, None) for name in ("draws", "tune", "target_accept", "nuts_sampler")},
    }


def _is_chain(draws: int, size: int, k: Any, found: Any) -> bool:
    """Return whether that may come of a chain."""
    x, diverging, n_steps = (np.asarray(each, dtype=np.float64) for each in found)
    alike = x.shape == (draws, size) and diverging.shape == n_steps.shape == (draws,)
    return type(k) is int and k >= 0 and alike and bool(np.all(np.isfinite(x)))


def _chain(task: tuple[StepSampling | Sampling, int], k: int) -> list[Any]:
    """Run a chain, and return its draws, which diverged, and the steps of each, as a file can have them."""
    sampler, entropy = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single chains, of which the verdict says more
        found = sampler.run(int(np.random.default_rng([entropy, k]).integers(2**31)), lambda _: None)
    return [each[0].tolist() for each in (found.draws, found.diverging, found.n_steps)]


def _reference(
    idata: Container, model: Generative, joint: Joint, chains: list[Any], rng: np.random.Generator
) -> Container:
    """Return the container of what was drawn."""
    x, diverging, n_steps = (np.array(each) for each in zip(*chains, strict=True))
    new = get_group(idata, "predictions_constant_data") if "predictions" in group_names(idata) else None
    rows, weights = list[dict[str, Any]](), None
    for at in x.reshape(-1, x.shape[2]):
        point, u, f = joint.at(at)
        likelihood = point.model.likelihood
        rows.append({"f": f, "y": likelihood.sample(f, rng), "log_likelihood": likelihood.log_prob(joint.t, f).value})
        rows[-1] |= point.model.params if joint.p else {}
        if new is not None:
            weights = joint.new(point, new["X"].values) if joint.p or weights is None else weights
            rows[-1] |= _at_new(likelihood, new, u, *weights, rng)
    drawn = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    drawn = {name: values.reshape(*x.shape[:2], *values.shape[1:]) for name, values in drawn.items()}
    layout = replace(model.layout, sizes=x.shape[:2])
    random = {
        name: layout.parameter(name, drawn[name], SAMPLE_DIMS) for name in (joint.model.params if joint.p else ())
    }
    stats = {"diverging": diverging, "n_steps": n_steps}
    groups = {
        "posterior": xr.Dataset({**random, "f": layout.variable("f", drawn["f"], SAMPLE_DIMS)}),
        "posterior_predictive": xr.Dataset({"y": layout.targets(as_stored(model.likelihood, drawn["y"]), SAMPLE_DIMS)}),
        "sample_stats": xr.Dataset({name: layout.along(SAMPLE_DIMS, each) for name, each in stats.items()}),
        **{name: get_group(idata, name) for name in ("observed_data", "constant_data")},
    }
    if not model.likelihood.forbids:  # it takes two values, of which nothing can be learnt about leaving cases out
        groups["log_likelihood"] = xr.Dataset({"y": layout.variable("y", drawn["log_likelihood"], SAMPLE_DIMS)})
    if not joint.p:
        if model.likelihood.forbids:  # a step, of which the evidence is the probability of the signs
            signs = log_orthant_probability(joint.model.kernel.gram(joint.X), joint.t)
            value, error = signs.value, signs.standard_error
        else:
            value, error = joint.log_evidence(x, rng)
        groups["fit"] = xr.Dataset({"log_evidence": value, "log_evidence_se": error})
    if new is not None:
        at_new = replace(layout, n=new.sizes["obs_id"], labels=new["obs_id"].values)
        name, key = ("p", "p") if "p" in drawn else ("f", "f_new")
        groups["predictions"] = xr.Dataset({name: at_new.variable(name, drawn[key], SAMPLE_DIMS)})
        groups["predictions_constant_data"] = new
    return make_container({name: group.assign_attrs(common_attrs()) for name, group in groups.items()})


def _at_new(
    likelihood: Likelihood, new: xr.Dataset, u: Array, weights: list[Array], variance: Array, rng: np.random.Generator
) -> dict[str, Array]:
    """Return for new cases the probability of each label or level, over latent values given u; else one such value."""
    of_new = likelihood.unshifted.of_new_cases(**{str(name): new[name].values for name in new.data_vars if name != "X"})
    ends = np.cumsum([each.shape[0] for each in weights])[:-1]
    mean = np.array([part @ each for part, each in zip(np.split(u, ends), weights, strict=True)])  # (C, m)
    if likelihood.has_classes:
        return {"p": of_new.predict_proba(mean.T, variance.T[..., None] * np.eye(len(mean)))}
    if likelihood.is_binary:
        return {"p": of_new.predict_proba(mean[0], variance[0])}
    levels = of_new.level_probabilities(mean[0], variance[0])
    if levels is not None:
        return {"p": levels}
    return {"f_new": mean[0] + np.sqrt(variance[0]) * rng.standard_normal(variance.shape[1])}
