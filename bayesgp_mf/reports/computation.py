"""What was fitted to what, and how: the model in words and as formulas, the data at a glance, and how it was computed.

Its hyperparameters, and how good the approximation is, too.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from bayesgp_mf.container.groups import Container, get_group, group_or_empty
from bayesgp_mf.container.layout import DOUBT, MODELS
from bayesgp_mf.container.quality import Quality
from bayesgp_mf.diagnostics.agreement import Compared, agreement
from bayesgp_mf.diagnostics.fitted import Fitted
from bayesgp_mf.diagnostics.hyperparameters import Hyperparameters
from bayesgp_mf.diagnostics.hyperparameters import hyperparameters as values_of
from bayesgp_mf.kernels import leaves
from bayesgp_mf.plots import plot_agreement, plot_hyperparameters, plot_search
from bayesgp_mf.plots.cases import arguments_of
from bayesgp_mf.processes.process import Ensemble
from bayesgp_mf.reports.page import Block, Figures, Formula, Section, Table, number, or_words
from bayesgp_mf.types import Array

MOST_INPUTS = 100
"""Inputs that are listed one by one."""
MOST_CLASSES = 30
"""Classes that are listed."""
LONGEST = 300
"""Letters of a kernel or a likelihood as code."""


def model(about: Fitted) -> Section:
    """Return the section on the model."""
    return Section("The model", or_words(lambda: _model(about)))


def _model(about: Fitted) -> list[Block]:
    if isinstance(about.process, Ensemble):
        return [_models(about.process)]
    part = about.process.parts[0]
    likelihood = part.problem.likelihood.of_one_case
    by_case = part.problem.likelihood.stored_by_case
    function = "a latent function for each class" if likelihood.has_classes else "a latent function"
    whole = (
        "A Gaussian process is a prior of functions: the kernel says how alike the values of the function are at two "
        f"cases. Here it is the prior of {function}, f. A target is {_in_words(about)}, and the likelihood says how "
        "likely it is given f."
    )
    averaged = " Its hyperparameters are of one setting among those averaged over."
    blocks: list[Block] = [
        whole,
        Formula(r"t_i \,|\, f \;\sim\; p(t_i \,|\, f(x_i)), \qquad f \;\sim\; \mathrm{GP}(0,\, k)"),
        f"Likelihood: {_short(likelihood)}. {_first_sentence(likelihood)}",
        *formulas(likelihood, _target(about)),
        f"Kernel: {_named(_short(part.kernel), about.names)}.{averaged if len(about.process.parts) > 1 else ''}",
    ]
    below = leaves(part.kernel)
    kinds = [type(leaf) for leaf in below]
    for leaf in (below[kinds.index(kind)] for kind in dict.fromkeys(kinds)):
        blocks.append(f"{type(leaf).__name__}: {_first_sentence(leaf)}")
        blocks += formulas(leaf)
    if by_case:
        blocks.append(f"Each case has its own {' and '.join(by_case)}.")
    return blocks


def _models(ensemble: Ensemble) -> Table:
    """Return the models of an average, with their weights."""
    rows = []
    for k, name in enumerate(ensemble.names):
        of_model = [part for part, member in zip(ensemble.parts, ensemble.member, strict=True) if member == k]
        first, weight = of_model[0], f"{ensemble.weights[ensemble.member == k].sum():.3f}"
        settings = "" if len(of_model) == 1 else f" and {len(of_model) - 1} more settings of its parameters"
        likelihood = first.problem.likelihood.of_one_case
        rows.append((name, weight, _short(first.kernel) + settings, _short(likelihood), first.method.name))
    return Table("An average of models.", ("Model", "Weight", "Kernel", "Likelihood", "Method"), rows)


def _short(thing: object) -> str:
    """Return the code that makes something, with numbers of four digits, and cut where it is long."""
    text = re.sub(r"\d+\.\d{4,}(?:e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", repr(thing))
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} \N{HORIZONTAL ELLIPSIS}"


def _first_sentence(thing: object) -> str:
    """Return how the documentation of a class begins, without formulas and citations."""
    text = " ".join((inspect.getdoc(type(thing)) or "").split("\n\n")[0].split())
    text = re.sub(r"\s*\((?:[^()]|\([^()]*\))*(?:19|20)\d\d(?:[^()]|\([^()]*\))*\)", "", text)
    return re.sub(r",?\s*:math:`[^`]*`", "", text).replace("`", "")


def _named(text: str, names: Sequence[str]) -> str:
    """Return the code of a kernel with the columns that it looks at by name."""
    numbers = re.compile(r"columns=\[([0-9, ]+)\]")
    return numbers.sub(lambda found: f"columns={[names[int(j)] for j in found[1].split(',')]}", text)


def _in_words(about: Fitted) -> str:
    """Return what a target is."""
    if about.classes:
        return f"one of {len(about.classes)} {'ordered levels' if about.likelihood.is_real else 'classes'}"
    return "a count of successes" if about.is_share else "a count" if about.is_rate else "a number"


def _target(about: Fitted) -> str:
    """Return what t is in the formula of a likelihood."""
    if not about.likelihood.is_binary:
        return "t is the target"
    rest, name = about.classes
    return f"t is 1 for {name} and \N{MINUS SIGN}1 for {rest}"


def formulas(thing: object, *known: str) -> list[Block]:
    """Return the formula in the documentation of a class, with what its letters mean.

    It is that of the first sentence, or the first one displayed.
    """
    text = inspect.getdoc(type(thing)) or ""
    found = re.findall(r":math:`([^`]*)`", text.split("\n\n")[0])
    found = found or [" ".join(each.split()) for each in re.findall(r"\.\. math::(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL)]
    if not found:
        return []
    legend = [*known, *symbols(thing, found[0])]
    return [Formula(found[0]), *([f"Here {'; '.join(legend)}."] if legend else [])]


def data(about: Fitted) -> Section:
    """Return the section on the cases."""
    return Section("The data", or_words(lambda: _targets(about), lambda: _inputs(about)))


def _targets(about: Fitted) -> Block:
    y = about.y
    if y is None:
        return f"{about.n} cases in parts, which are elsewhere: here are the inducing inputs alone."
    if about.classes:
        counts = np.bincount(y.astype(np.int64), minlength=len(about.classes))
        order = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
        left = len(about.classes) - order.size
        more = f" {left} more are not listed." if left else ""
        rows = [(about.classes[c], f"{counts[c]}", f"{counts[c] / len(y):.1%}") for c in order]
        return Table(f"Cases of each class: {len(y)} in all.{more}", ("Class", "Cases", "Share"), rows)
    numbers = np.quantile(y, [0.0, 0.25, 0.5, 0.75, 1.0])
    row = ("target", *(number(value) for value in numbers), number(np.mean(y)))
    head = ("", "Smallest", "25 %", "Median", "75 %", "Largest", "Mean")
    return Table(f"Targets of {len(y)} cases.", head, [row])


def before(about: Fitted) -> Section:
    """Return the section on what the model says before it has seen data, where `prior_predictive` has drawn that."""
    return Section("Before the data", or_words(lambda: _before(about)))


def _before(about: Fitted) -> Block:
    drawn = get_group(about.idata, "prior_predictive")["y"].values.reshape(-1, about.n)
    y = np.asarray(about.y)
    if about.classes:
        each = {f"Share of {name}": (drawn == k, y == k) for k, name in enumerate(about.classes[:MOST_CLASSES])}
        values = {name: (np.mean(of_draws, axis=1), np.mean(here)) for name, (of_draws, here) in each.items()}
    else:
        summaries: dict[str, Any] = {
            "Mean": np.mean,
            "Standard deviation": np.std,
            "Smallest": np.min,
            "Largest": np.max,
        }
        values = {name: (summary(drawn, axis=1), summary(y)) for name, summary in summaries.items()}
    rows = [
        (name, *(number(value) for value in np.quantile(prior, [0.05, 0.5, 0.95])), number(seen))
        for name, (prior, seen) in values.items()
    ]
    legend = (
        f"Targets of {len(drawn)} data sets drawn from the model and its priors, and those that came. What came should "
        "be possible; a prior that leaves everything possible says little."
    )
    return Table(legend, ("", "5 % of data sets below", "Median", "95 % below", "These data"), rows)


def _inputs(about: Fitted) -> Block:
    X, names = about.X, about.names
    rows: list[tuple[str, ...]] = []
    for j, name in enumerate(names[:MOST_INPUTS]):
        if j not in about.stated:
            rows.append((name, "not in the model", *("\N{EN DASH}",) * 4))
        elif j in about.levels:
            groups = len(np.unique(X[:, j]))
            rows.append((name, f"{groups} groups", *("\N{EN DASH}",) * 4))
        else:
            numbers = (*np.quantile(X[:, j], [0.0, 0.5, 1.0]), _standard_deviation(X[:, j]))
            different = len(np.unique(X[:, j]))
            rows.append((name, *(number(value) for value in numbers), f"{different}"))
    left = len(names) - len(rows)
    more = f" {left} more are not listed." if left else ""
    inducing = "inducing_input" in about.fit and about.y is None
    legend = f"{'Inducing inputs' if inducing else 'Inputs'}: {len(names)}, in the units they were given in.{more}"
    return Table(legend, ("Input", "Smallest", "Median", "Largest", "Standard deviation", "Different values"), rows)


def _standard_deviation(values: Array) -> float:
    """Return it also where squares of the numbers are beyond the largest number."""
    largest = float(np.max(np.abs(values)))
    return largest * float(np.std(values / largest)) if largest > 0 else 0.0


def glance(about: Fitted) -> Table:
    """Return what the page is about, in a few rows."""
    fit = about.fit
    rows = [
        ("Cases", f"{about.n}"),
        ("Inputs", f"{len(about.names)}"),
        ("Target", _in_words(about)),
        ("Method", str(fit.attrs["method"])),
        ("Hyperparameters", _chosen(about)),
    ]
    if "inducing_input" in fit:
        rows.append(("Inducing cases", f"{len(fit['inducing_input'])}"))
    if "log_evidence" in fit and fit["log_evidence"].ndim == 0:
        rows.append(("Log evidence", f"{float(fit['log_evidence']):.2f} nats"))
    return Table("At a glance.", ("", "This fit"), rows)


def _chosen(about: Fitted) -> str:
    """Return how a fit has its hyperparameters."""
    hyper = str(about.fit.attrs.get("hyper", "none"))
    given = "those of the combined models" if MODELS in about.fit.attrs else "as they were given"
    return given if hyper == "none" else f"hyper={hyper!r}"


_WORDS: dict[str, Any] = tomllib.loads(files("bayesgp_mf.reports").joinpath("words.toml").read_text(encoding="utf-8"))
"""Of verdicts, of hyperparameters, and of letters in formulas."""


def symbols(thing: object, latex: str) -> list[str]:
    r"""Return what the letters in the formula of a kernel or a likelihood mean, a clause for each.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> symbols(bgp.kernels.Gaussian(), r"v_0 \exp(-r^2 / 2)")
    ['v₀ is the variance', 'r is the distance of two cases in length scales']
    """
    parameters = inspect.signature(type(thing)).parameters
    letters = _WORDS["formulas"]["letters"]
    return [text for name, pattern, text in letters if name in {"", *parameters} and _has(latex, pattern)]


def _has(latex: str, pattern: str) -> bool:
    """Tell whether a formula has a letter, which is no part of a command, of a word, or of another symbol."""
    return re.search(rf"(?<![A-Za-z\\]){pattern}(?![A-Za-z])(?!_0)", latex) is not None


MOST = 200
"""Hyperparameters that are listed."""


def hyperparameters(about: Fitted) -> Section:
    """Return the section on the hyperparameters."""
    found = cache(lambda: values_of(about.idata))
    blocks = or_words(
        lambda: [*_meanings(found().names), _table(found())],
        lambda: Figures([(plot_hyperparameters(about.idata), _caption(found()))]),
    )
    return Section("Hyperparameters", blocks)


def _caption(found: Hyperparameters) -> str:
    """Return what the figure shows: a fit that chose its hyperparameters does not say how sure they are."""
    text = "Hyperparameters as they were chosen" if found.kind == "chosen" else "Hyperparameters with how sure they are"
    return text + (", and what the prior said." if np.isfinite(found.prior).any() else ".")


def _meanings(names: Sequence[str]) -> list[Block]:
    """Return a sentence for each kind of hyperparameter that is there."""
    plain = [re.sub(r"\[.*\]$|(?<=^gap)\d+$", "", name, flags=re.DOTALL) for name in names]
    meanings = _WORDS["hyperparameters"]
    longest = sorted(meanings, key=len, reverse=True)
    found = {next((key for key in longest if each == key or each.endswith("_" + key)), None) for each in plain}
    return [f"{key}: {meaning}." for key, meaning in meanings.items() if key in found]


def _table(found: Hyperparameters) -> Table:
    if found.kind == "chosen":
        values, head, caption = found.values[:1], ["Value"], "Values of the hyperparameters."
    else:
        values, head = found.quantiles[[2, 0, 4]], ["Median", "5 %", "95 %"]
        caption = f"Hyperparameters, averaged over {len(found.values)} {found.kind}."
    if len(found.names) > MOST:
        caption += f" {len(found.names) - MOST} more are not listed."
    rows = [
        (name, *(number(value) for value in values[:, k]), _how(found, k), _prior(found, k))
        for k, name in enumerate(found.names[:MOST])
    ]
    return Table(caption, ("Hyperparameter", *head, "How", "Prior, 5 to 95 %"), rows)


def _how(found: Hyperparameters, k: int) -> str:
    if not found.tuned[k]:
        return "as given"
    if found.bound[k]:
        return f"tuned, at its {'upper' if found.bound[k] > 0 else 'lower'} bound: the data do not determine it"
    return "tuned" if found.kind == "chosen" else "averaged"


def _prior(found: Hyperparameters, k: int) -> str:
    if not np.isfinite(found.prior[2, k]):
        return "none"
    return f"{number(found.prior[0, k])} to {number(found.prior[4, k])}"


def quality(found: Quality) -> Section:
    """Return the section with the numbers behind the verdict."""
    text = (
        f"The verdict {found.verdict!r} means: {_WORDS['verdicts'][found.verdict]}. These are estimates, and no bounds."
    )
    table = Table("The numbers behind the verdict.", ("Number", "Value", ""), list(found.rows()))
    return Section("How good the approximation is", [text, table])


def computed(about: Fitted) -> Section:
    """Return the section on how the fit was computed."""
    attrs, fit = about.fit.attrs, about.fit
    rows = [
        ("Method", str(attrs["method"])),
        ("Status", str(attrs["status_message"])),
        ("Hyperparameters", _chosen(about)),
    ]
    numbers = {
        "n_iterations": "Iterations",
        "residual": "Residual of the equations",
        "hyper_departure": "Departure of the nodes from a normal density (0 is exact)",
        "hyper_pareto_k": "k-hat of the nodes (below 0.7 is good)",
    }
    for name, text in numbers.items():
        if name in fit:
            largest = float(fit[name].max())
            several = ", the most of all solutions" if fit[name].size > 1 else ""
            rows.append((text, f"{largest:.3g}{several}"))
    rows += [(f"Version of {name}", str(version)) for name, version in json.loads(attrs["versions"]).items()]
    blocks: list[Block] = [Table("How this fit was computed.", ("", "Value"), rows)]
    if str(attrs.get("hyper", "none")) != "none":
        blocks += or_words(lambda: Figures([(plot_search(about.idata), "The search for hyperparameters.")]))
    return Section("How it was computed", blocks)


def reference(about: Fitted, other: Container) -> Section:
    """Return the section that holds the fit against another posterior of the same model, such as NUTS."""
    try:
        found = agreement(about.idata, other)
    except ValueError as error:
        error.args = (f"reference, the second, does not go with this fit, the first: {error}",)
        raise
    each = "of both; each point is a case."
    compared: list[tuple[str, Compared | None, str, str]] = [
        ("Means", found.mean, "mean", f"Posterior means {each}"),
        ("Standard deviations", found.sd, "sd", f"Posterior standard deviations {each}"),
        ("Quantiles", found.quantiles, "", ""),
        ("Probabilities", found.probability, "probability", "Predicted probabilities of both."),
        ("Means of new cases", found.new_mean, "", ""),
        ("Standard deviations of new cases", found.new_sd, "", ""),
        ("Leave-one-out densities, in nats", found.leave_one_out if found.left_out.size else None, "", ""),
    ]
    rows, drawn = [], []
    for name, one, quantity, text in compared:
        if one is not None:
            off = np.abs(one.difference)
            rows.append((name, number(off.max()), number(off.mean()), number(one.error.max())))
        if one is not None and quantity:  # as of the two containers, from whose draws all would be computed again
            ax = plot_agreement(**arguments_of(one, quantity), quantity=quantity, names=("reference", "this fit"))
            drawn.append((ax, text))
    rows.append(
        ("Wasserstein distance", number(np.max(found.w1)), number(np.mean(found.w1)), number(found.w1_error.max()))
    )
    head = ("Difference of", "Largest", "Mean", "Largest Monte-Carlo error")
    table = Table("Absolute differences between the fit and the reference, in latent units.", head, rows)
    doubt = group_or_empty(other, "posterior").attrs.get(DOUBT)
    return Section("Against the reference", [str(doubt or found), table, Figures(drawn)])
