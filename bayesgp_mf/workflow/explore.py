r"""Many models of the same cases: all combinations of what is given, or sums and products that grow.

A search over expressions starts with the best base kernel. In each round it tries the best expression so far with a
base kernel added, with a base kernel multiplied into one of its terms, and with one of its factors replaced [1]_, and
goes on with what scores best. Scores by evidence are

.. math:: \log Z - \tfrac{1}{2}\, p \log (1 + m),

with the corrected log evidence at the best values of p hyperparameters. These are learned from latent values, of which
n cases determine :math:`m = \sum_i \operatorname{Var}(f_i) / v_i`, with the site variances v: that many, and not n,
count in the penalty [2]_.

References
----------
.. [1] Duvenaud, D., Lloyd, J. R., Grosse, R., Tenenbaum, J. B., & Ghahramani, Z. (2013). Structure discovery in
   nonparametric regression through compositional kernel search. ICML. https://arxiv.org/abs/1302.4922
.. [2] Delattre, M., Lavielle, M., & Poursat, M.-A. (2014). A note on BIC in mixed-effects models. Electronic Journal
   of Statistics 8, 456-475.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import reduce
from inspect import signature
from itertools import product
from operator import add, mul
from os.path import isfile
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import as_mapping, check_flags, check_integers
from bayesgp_mf.container.checks import checksum
from bayesgp_mf.container.files import digest_of, load, save
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.quality import quality_of_fit
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.container.stored import describe_kernel, describe_likelihood, evidence_of_fit, refused_as
from bayesgp_mf.diagnostics.compare import check_one_kind, compare
from bayesgp_mf.errors import NO_SOLUTION, DamagedFileError, warn
from bayesgp_mf.files import as_path
from bayesgp_mf.fitting import Seed, fit
from bayesgp_mf.hyper import HyperName, Strategy, get_strategy
from bayesgp_mf.hyper.target import all_names, check_known
from bayesgp_mf.inputs.frames import as_pandas, row_labels
from bayesgp_mf.inputs.options import as_kernel, as_likelihood, as_names
from bayesgp_mf.inputs.tables import feature_names
from bayesgp_mf.kernels import Bias, Kernel, leaves
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.parallel import backend
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.workflow.combine import combine
from bayesgp_mf.workflow.log import Log, writing

Expression: TypeAlias = tuple[tuple[str, ...], ...]
"""A sum of products of base kernels, by their names."""
Score: TypeAlias = Literal["evidence", "loo"]


@dataclass(frozen=True, eq=False)
class Exploration:
    """Models of the same cases, fitted.

    Attributes
    ----------
    fits : dict of str to container
        By name of the model.
    table : pandas.DataFrame
        What `compare` says of each, the highest elpd first, with ``parameters``, how many were tuned; ``score``, by
        which one is ``found``; ``verdict``, on the approximation; ``seconds``; and ``warning``, the first of the fit.
    failed : dict of str to str
        Why some models have no fit.
    found : str
        The name of the model with the highest score, which need not have the highest elpd.
    by : {"evidence", "loo"}
        What the score is: the corrected log evidence less a penalty for each hyperparameter, or the elpd. It is the
        elpd, whatever was asked for, where evidences are of several kinds or models are averages.
    remaining : int
        How many models were to come when ``most``, or Ctrl-C, ended it; 0 where it came to its own end.
    """

    fits: dict[str, Container]
    table: pd.DataFrame
    failed: dict[str, str]
    found: str
    by: Score
    remaining: int = 0

    def combine(self, weights: str | ArrayLike = "stacking", *, random_seed: Seed = None) -> Container:
        """Return one posterior of all models (`bayesgp_mf.combine`)."""
        return combine(self.fits, weights, random_seed=random_seed)

    def __repr__(self) -> str:
        shown = self.table[["log_evidence", "elpd", "se", "weight", "parameters", "score", "verdict", "seconds"]]
        what = {"evidence": "log evidence less a penalty for each parameter", "loo": "leave-one-out elpd"}[self.by]
        found = f"\nFound: {self.found}, by the highest score, the {what}."
        lacking = f"\nNo fit of {', '.join(self.failed)}." if self.failed else ""
        ended = f"\nCut off, by most or Ctrl-C. Models to come: {self.remaining}." if self.remaining else ""
        return f"{shown.to_string(float_format='{:.2f}'.format)}{found}{lacking}{ended}"


def explore(
    X: Any,
    y: Any,
    kernels: Mapping[str, Any],
    likelihoods: Mapping[str, Likelihood] | None = None,
    *,
    grow: bool = False,
    score: Score = "evidence",
    most: int = 100,
    hyper: HyperName | Strategy | None = "evidence",
    path: Any = None,
    processes: int = 1,
    client: Any = None,
    random_seed: Seed = None,
    progress: bool = True,
    **options: Any,
) -> Exploration:
    """Fit many models to the same cases, and compare them.

    Parameters
    ----------
    X, y
        Data, as `fit` takes them.
    kernels : mapping of str to Kernel
        Kernels by name; with ``grow`` the base kernels, of which sums and products are made.
    likelihoods : mapping of str to Likelihood, optional
        `Probit` by default. Each is fitted with each kernel.
    grow : bool
        Search over sums and products, with one likelihood, until none of the next is better.
    score : {"evidence", "loo"}
        By what ``grow`` goes on, and which model is ``found``: the corrected log evidence less a penalty of half of
        log(1 + m) for each hyperparameter, where the cases determine m latent values, the sum of posterior variances
        over those of the sites; or the leave-one-out elpd.
    most : int
        Fits, at most.
    hyper
        As for `fit`.
    path : str or Path, optional
        A folder to which each fit is written when it is done. A second call with the same arguments goes on there, and
        makes those anew whose files are gone.
    processes, client
        How many fits at a time, each in its own process; or a Dask cluster (`hyper.Evidence`).
    random_seed : int, numpy.random.Generator or None
        Source of all randomness. Each fit has a source of its own, whoever computes it.
    progress : bool
        Show a progress bar if it takes longer than a second.
    **options
        Of `fit`: ``method``, ``priors``, ``offset``, ``weights``, ``inducing``, ``draws`` (250 in each chain if you do
        not say, since they are most of a file) and others. ``priors`` may be a function of kernel and likelihood, as
        ``lambda kernel, likelihood: bgp.priors.suggest(X, kernel, likelihood)``, since each model has parameters of its
        own.

    Returns
    -------
    Exploration
        With ``fits``, ``table`` and ``found``; ``combine()`` makes one posterior of them.

    Raises
    ------
    ValueError
        If an argument is invalid, there are more combinations than ``most``, or no model has a fit.

    Warns
    -----
    UserWarning
        If Ctrl-C ended it early, or some model has no fit.

    Notes
    -----
    The best of many models seems better than it is: its score is in part luck. Stacking, or new cases, say more.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.uniform(-2.0, 2.0, (60, 2))
    >>> y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=60) > 0
    >>> kernels = {"both": bgp.kernels.Gaussian([1.0, 1.0], 4.0), "line": bgp.kernels.Linear() + bgp.kernels.Bias()}
    >>> found = bgp.explore(X, y, kernels, draws=50, random_seed=1)
    >>> found.found, list(found.table.index)
    ('both', ['both', 'line'])
    """
    check_integers(1, most=most, processes=processes)
    check_flags(grow=grow, progress=progress)
    if score not in ("evidence", "loo"):
        raise ValueError(f"score must be 'evidence' or 'loo', got {score!r}.")
    base = {name: as_kernel(kernel) for name, kernel in _named("kernels", kernels).items()}
    each = _named("likelihoods", {"probit": Probit()} if likelihoods is None else likelihoods)
    each = {name: as_likelihood(likelihood) for name, likelihood in each.items()}
    check_one_kind({name: likelihood.is_discrete for name, likelihood in each.items()})
    if grow and len(each) > 1:
        raise ValueError("grow=True goes with one likelihood. Explore the likelihoods with the kernel that it finds.")
    if given := {"kernel", "likelihood"} & options.keys():
        raise ValueError(f"{min(given)} is one of those in {min(given)}s, each with a name. Leave it out.")
    by_name = {"bounds", "fixed"} | (set() if callable(options.get("priors")) else {"priors"})
    if grow and (given := by_name & options.keys()):
        raise ValueError(
            f"{min(given)} go by names of parameters, which change. Leave them out; priors may be a function."
        )
    for argument, (name, kernel), likelihood in product(sorted(by_name & options.keys()), base.items(), each.values()):
        of_all = (as_names if argument == "fixed" else as_mapping)(argument, options[argument])
        check_known(f"{argument} of {name!r}", of_all, all_names(kernel, likelihood))
    if not grow and (count := len(base) * len(each)) > most:
        raise ValueError(f"{len(base)} kernels with {len(each)} likelihoods are {count} models, more than most={most}.")
    if grow and score == "evidence" and hyper is not None and get_strategy(hyper).averages:
        raise ValueError("an average over hyperparameters has no evidence, by which grow=True goes. Give score='loo'.")
    if callable(priors := options.get("priors")):
        try:
            signature(priors).bind("kernel", "likelihood")
        except TypeError as error:
            raise ValueError(f"priors must be a mapping, or a function of kernel and likelihood: {error}.") from error
    work = _Work(X, y, base, each, hyper, options)
    if path is not None and isfile(path := as_path("path", path)):  # no error at a name that is too long, said below
        raise ValueError(f"path must be the name of a folder for the fits, and {path} is a file.")
    stated, file = ({}, None) if path is None else (work.stated(), path / "fits.jsonl")
    work.log = Log.of(file, stated, "explore", "models", random_seed, _is_fact)
    where = {"processes": int(processes), "client": client, "progress": progress, "most": int(most)}
    try:
        if grow:
            _grow(work, score, **where)
        else:
            work.fit([(((name,),), other) for name in base for other in each], **where)
    except KeyboardInterrupt:
        if not work.fits:
            raise
        warn(f"Ctrl-C: {len(work.fits)} models are fitted, and what follows is of these.")
    return work.finished(score)


DRAWS = 250
"""Of each chain, unless a call says so."""
Job: TypeAlias = tuple[Expression, str]
"""An expression, and the name of a likelihood."""


@dataclass(eq=False)
class _Work:
    """What is to be fitted, and what has been."""

    X: Any
    y: Any
    base: dict[str, Kernel]
    likelihoods: dict[str, Likelihood]
    hyper: Any
    options: dict[str, Any]
    log: Log = field(default_factory=lambda: Log("models", 0))
    jobs: dict[str, Job] = field(default_factory=dict)
    fits: dict[str, Container] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def stated(self) -> dict[str, Any]:
        """Return what a file says of the call."""
        table, classes = as_pandas("X", self.X), getattr(getattr(self.y, "dtype", None), "categories", None)
        labels = row_labels("X", table)
        options: dict[str, Any] = {name: _in_words(value) for name, value in self.options.items()}
        if callable(priors := self.options.get("priors")):
            models = product(self.base.values(), self.likelihoods.values())
            options["priors"] = [repr(priors(*model)) for model in models]
        return {
            "data": [checksum(np.asarray(each)) for each in (self.X, self.y)],
            **({} if classes is None else {"classes": [str(each) for each in classes]}),
            "names of X": [feature_names("X", table), None if labels is None else checksum(labels)],
            "kernels": {name: describe_kernel(kernel) for name, kernel in self.base.items()},
            "values": {name: {key: value.tolist() for key, value in k.params.items()} for name, k in self.base.items()},
            "likelihoods": {name: describe_likelihood(each) for name, each in self.likelihoods.items()},
            "hyper": repr(self.hyper),
            "options": options,
        }

    def name(self, job: Job) -> str:
        """Return the name of a model."""
        text = " + ".join(" * ".join(term) for term in job[0])
        return f"{text}, {job[1]}" if len(self.likelihoods) > 1 else text

    def fit(self, jobs: list[Job], *, processes: int, client: Any, progress: bool, most: int) -> None:
        """Fit models that were not fitted yet, so long as there may be more."""
        new = dict[str, Job]()
        with progress_bar("fitting models", total=len(jobs), enabled=progress) as advance:
            for job in jobs:
                name = self.name(job)
                if self.jobs.setdefault(name, job) != job:
                    raise ValueError(
                        f"two models would have the name {name!r}. Give kernels and likelihoods other names."
                    )
                if name in self.facts or len(self.facts) + len(new) >= most:
                    continue
                if self._from_file(name):
                    advance(f"{len(self.facts)} models")
                else:
                    new[name] = job
            with closing(backend(processes, client).map(_fitted, list(new.values()), self.apart())) as found:
                for name, (idata, facts) in zip(new, found, strict=True):
                    self._keep(name, idata, facts)
                    advance(f"{len(self.facts)} models")

    def apart(self) -> _Work:
        """Return what a fit must know, without the fits of others."""
        return replace(self, log=Log("models", self.log.entropy), jobs={}, fits={}, facts={})

    def _file(self, name: str) -> Path | None:
        return self.log.path and self.log.path.with_name(f"{hashlib.sha1(name.encode()).hexdigest()[:16]}.nc")

    def _from_file(self, name: str) -> bool:
        file = self._file(name)
        if file is None or name not in self.log.done:
            return False
        if "error" not in self.log.done[name]:
            if not file.exists():
                return False
            with refused_as(f"{file} cannot be read: {{}}. Remove it, and its fit is made anew."):
                self.fits[name] = load(file)
            if self.log.done[name].get("digest") != digest_of(file):
                raise DamagedFileError(f"{file} is not the fit of {name!r} that was written there. Remove the file.")
        self.facts[name] = self.log.done[name]
        return True

    def _keep(self, name: str, idata: Container | None, facts: dict[str, Any]) -> None:
        self.facts[name] = facts
        if idata is not None:
            self.fits[name] = idata
            if (file := self._file(name)) is not None:
                with writing(file):
                    facts["digest"] = digest_of(save(idata, file))
        self.log.add(name, facts)

    def score(self, name: str, score: Score) -> float:
        """Return by what a model is judged; -inf where there is no fit."""
        if name not in self.fits:
            return -np.inf
        group = fit_group(self.fits[name])
        if score == "loo":
            return float(group["loo_i"].sum())
        if "node_weight" in group or "log_evidence" not in group:
            raise ValueError("an average over hyperparameters has no evidence. Give score='loo'.")
        sites, informative = group.get("site_variance"), float(group.sizes["obs_id"])
        if sites is not None and sites.ndim == 1:
            informative = float((group["latent_sd"] ** 2 / sites).sum())
        return float(evidence_of_fit(group).corrected - 0.5 * group.sizes.get("hyper", 0) * np.log1p(informative))

    def finished(self, score: Score) -> Exploration:
        """Return the models side by side."""
        failed = {name: facts["error"] for name, facts in self.facts.items() if "error" in facts}
        if not self.fits:
            causes = {cause: ", ".join(name for name in failed if failed[name] == cause) for cause in failed.values()}
            each = "\n".join(f"{names}: {cause}" for cause, names in causes.items())
            raise ValueError(f"none of the models has a fit.\n{each}")
        if failed:
            warn(f"{len(failed)} of {len(self.facts)} models have no fit: see failed.")
        known = {name: self.facts[name] for name in self.fits}
        first, *others = self.fits
        fits = self.fits if others else {first: self.fits[first], f"{first} again": self.fits[first]}  # it takes two
        jobs = {name: self.jobs.get(name, self.jobs[first]) for name in fits}
        programs = {
            "kernel": {name: built(self.base, job[0])[0] for name, job in jobs.items()},
            "likelihood": {name: self.likelihoods[job[1]] for name, job in jobs.items()},
            "method": self.options.get("method"),
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Difference in performance potentially")  # ArviZ 1: see Notes
            table = compare(fits, **programs).table
        table = table[table.index.isin(list(self.fits))].copy()
        if not others:
            table["rank"], table["weight"] = 0, 1.0
        groups = {name: fit_group(self.fits[name]) for name in table.index}
        table["parameters"] = [group.sizes.get("hyper", 0) for group in groups.values()]
        table["verdict"] = [quality_of_fit(group, group.sizes["obs_id"]).verdict for group in groups.values()]
        for column in ("seconds", "warning"):
            table[column] = [known[name][column] for name in table.index]
        # evidences of one kind can be held against each other; else leave-one-out decides
        one_kind = table.get("evidence_kind", pd.Series(["ep"])).nunique() == 1
        averaged = any("node_weight" in group for group in groups.values())
        by: Score = score if one_kind and not averaged else "loo"
        table["score"] = table["elpd"] if by == "loo" else [self.score(name, by) for name in table.index]
        remaining = len(self.jobs.keys() - self.facts.keys())
        return Exploration(self.fits, table, failed, str(table["score"].idxmax()), by, remaining)


def _fitted(work: _Work, job: Job) -> tuple[Container | None, dict[str, Any]]:
    """Fit one model, and return it with the seconds it took, the first warning, or the error that it ended in."""
    name, (expression, likelihood) = work.name(job), job
    kernel, fixed = built(work.base, expression)
    options = {"draws": DRAWS, **work.options, "hyper": work.hyper, "progress": False}
    if work.hyper is not None:
        options["fixed"] = [*as_names("fixed", options.get("fixed", ())), *fixed]
    if callable(priors := options.get("priors")):
        given = as_mapping("priors, which is a function,", priors(kernel, work.likelihoods[likelihood]))
        options["priors"] = {key: prior for key, prior in given.items() if key not in fixed}
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    begin = time.perf_counter()
    facts: dict[str, Any] = {"warning": ""}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rng = np.random.default_rng([work.log.entropy, seed])
            idata = fit(work.X, work.y, kernel, work.likelihoods[likelihood], random_seed=rng, **options)
        except NO_SOLUTION as error:
            idata, facts["error"] = None, f"{type(error).__name__}: {error}"
    if caught:
        facts["warning"] = str(caught[0].message)
    return idata, facts | {"seconds": time.perf_counter() - begin}


def _is_fact(name: Any, found: Any) -> bool:
    """Return whether that may be known of a model."""
    return isinstance(name, str) and isinstance(found, dict) and {"warning", "seconds"} <= found.keys()


def built(base: Mapping[str, Kernel], expression: Expression) -> tuple[Kernel, list[str]]:
    """Return the kernel of an expression, and parameters that say nothing there: all scales of a product but one."""
    kernel = reduce(add, (reduce(mul, (base[name] for name in term)) for term in expression))
    later = [place > 0 for term in expression for place, name in enumerate(term) for _ in leaves(base[name])]
    single = [len(leaves(base[name])) == 1 for term in expression for name in term for _ in leaves(base[name])]
    names, redundant = iter(kernel.params), list[str]()
    for leaf, is_later, alone in zip(leaves(kernel), later, single, strict=True):
        own = dict(zip(leaf.params, names, strict=False))
        scale = getattr(leaf, "scale_name", None)
        if is_later and alone and scale is not None:
            redundant.append(own[scale])
    return kernel, redundant


def _grow(work: _Work, score: Score, **where: Any) -> None:
    """Fit expressions until none of the next is better, or there are as many fits as there may be."""
    (likelihood,) = work.likelihoods
    best: Expression = ()
    jobs: list[Job] = [(((name,),), likelihood) for name in work.base]
    while jobs:
        work.fit(jobs, **where)
        expressions = {work.name(job): job[0] for job in jobs}
        name = max(expressions, key=lambda name: work.score(name, score))
        if best and work.score(name, score) <= work.score(work.name((best, likelihood)), score):
            return
        best = expressions[name]
        following = dict.fromkeys(_simplest(each, work.base) for each in _next(best, list(work.base)))
        jobs = [(each, likelihood) for each in following]


def _next(best: Expression, base: list[str]) -> Iterator[Expression]:
    """Return expressions one step from another, each once whatever the order of its terms and factors."""
    for name in base:
        yield tuple(sorted((*best, (name,))))
        for k, term in enumerate(best):
            others = best[:k] + best[k + 1 :]
            yield tuple(sorted((*others, tuple(sorted((*term, name))))))
            for j in range(len(term)):
                replaced = tuple(sorted((*term[:j], name, *term[j + 1 :])))
                if replaced != term:
                    yield tuple(sorted((*others, replaced)))


def _simplest(expression: Expression, base: Mapping[str, Kernel]) -> Expression:
    """Return an expression without what does no more than a scale: a constant as a factor, and some terms once more."""
    scaled = all(getattr(leaf, "scale_name", None) for kernel in base.values() for leaf in leaves(kernel))
    constant = {name for name, kernel in base.items() if scaled and isinstance(kernel, Bias)}
    scale_alone = {name for name, kernel in base.items() if [*kernel.params] == [getattr(kernel, "scale_name", None)]}
    terms = [tuple(name for name in term if name not in constant) or term[:1] for term in expression]
    return tuple(term for k, term in enumerate(terms) if term not in terms[:k] or not scale_alone.issuperset(term))


def _named(argument: str, given: Any) -> dict[str, Any]:
    """Return what is given by name, or raise a ValueError."""
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        one = "{'smooth': kernels.Gaussian()}" if argument == "kernels" else "{'probit': Probit()}"
        raise ValueError(f"{argument} must be a mapping of names, such as {one}, got {given!r}.")
    return dict(given)


def _in_words(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype != object and array.ndim:
        return checksum(array)
    return repr(sorted(value) if isinstance(value, Set) else value)  # another process has a set in another order
