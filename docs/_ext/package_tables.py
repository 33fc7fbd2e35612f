"""Tables that are read off the package when the documentation is built, so that they cannot drift from it.

The pages give the words, one line for each entry as ``name | text | text``; a page that leaves out an entry of
the package, or describes one that is not there, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import bayesgp_mf as bgp
from bayesgp_mf import (
    Control,
    Problem,
    Status,
    UndefinedQuantityError,
    hyper,
    kernels,
    likelihoods,
)
from bayesgp_mf.hyper import strategy_names
from bayesgp_mf.methods import METHODS, Solver
from bayesgp_mf.names import ARGUMENTS, ELSEWHERE

_MADE = [
    bgp.Probit(),
    bgp.Logit(),
    likelihoods.Gaussian(),
    bgp.StudentT(),
    bgp.Poisson(),
    bgp.NegativeBinomial(1.0),
    bgp.Binomial(1),
    bgp.Ordinal((0.0,)),
    likelihoods.Weibull(1.0),
    likelihoods.Exponential(),
    likelihoods.LogNormal(),
    likelihoods.LogLogistic(1.0),
    likelihoods.Censored(likelihoods.Gaussian()),
    likelihoods.Gamma(1.0),
    likelihoods.Beta(1.0),
    likelihoods.ZeroInflated(bgp.Poisson(), 0.5),
    likelihoods.Hurdle(bgp.Poisson(), 0.5),
    likelihoods.Truncated(bgp.Poisson()),
]
LIKELIHOODS = {type(likelihood).__name__: likelihood for likelihood in _MADE} | {"Step": bgp.Step()}
GRAM = np.array([[2.0, 1.0], [1.0, 2.0]])


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class PackageTable(SphinxDirective):
    """A table with a row for each entry of the package, in the order of the page's descriptions."""

    has_content = True
    header: ClassVar[tuple[str, ...]]

    def names(self) -> set[str]:
        """Return the names of the entries the package has."""
        raise NotImplementedError

    def row(self, name: str, words: list[str]) -> list[str]:
        """Return the cells of one entry, given what the page says of it."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Check that the page describes exactly what there is, and return the table."""
        described = {}
        for line in filter(None, (line.strip() for line in self.content)):
            name, *words = (cell.strip() for cell in line.split(" | "))
            described[name] = words
        if set(described) != self.names():
            raise ExtensionError(
                f"{self.env.docname}: {self.name} must describe {sorted(self.names())}, got {sorted(described)}"
            )
        rows = [self.row(name, words) for name, words in described.items()]
        return self.parse_text_to_nodes(markdown_table(self.header, rows))


class MethodsTable(PackageTable):
    """The registry of methods, with what each gives when it is run on two cases."""

    header = ("`method=`", "What it is", "Likelihoods", "Evidence kind", "Bound", "Cavities", "Monte-Carlo error")
    first: tuple[str, list[str]] | None = None

    def names(self) -> set[str]:
        """Return the names in the registry."""
        return set(METHODS)

    def row(self, name: str, words: list[str]) -> list[str]:
        """Run the method with each likelihood and read its row off the solutions."""
        solutions = {}
        for likelihood_name, likelihood in LIKELIHOODS.items():
            try:
                solutions[likelihood_name] = _solve(METHODS[name], likelihood)
            except UndefinedQuantityError:
                continue
        given = [f"`{likelihood_name}`" for likelihood_name in solutions]
        some = solutions["Probit"]
        return [
            f"`{name}`",
            *words,
            self.beside_the_first(name, given),
            f"`{some.evidence.kind}`",
            some.evidence.bound or "none",
            "yes" if some.cavity is not None else "no",
            "yes" if some.has_variance and some.evidence.standard_error > 0 else "no",
        ]

    def beside_the_first(self, name: str, given: list[str]) -> str:
        """List the likelihoods of a method, or say which of the first method's it lacks: the list is long."""
        first, of_first = self.first = self.first or (name, given)
        lacking = [each for each in of_first if each not in given]
        if name == first or len(lacking) > len(given) or not set(given) <= set(of_first):
            return ", ".join(given)
        return f"those of `{first}`" + (f" but {', '.join(lacking)}" if lacking else "")


class KernelsTable(PackageTable):
    """The kernels that are not made of others, with the names of their parameters."""

    header = ("Kernel", "$k(x, x')$", "Parameters", "Remark")

    def names(self) -> set[str]:
        """Return the names of the public kernel classes that can be made without arguments from others."""
        public = (getattr(kernels, name) for name in kernels.__all__)
        functionals = (kernels.Difference, kernels.Slope, kernels.Mean, kernels.Kinds)
        of_others = (kernels.Power, kernels.PerClass, kernels.Warped, kernels.OnSphere, *functionals)
        abstract = (kernels.Kernel, kernels.Sum, kernels.Product, *of_others)
        return {c.__name__ for c in public if isinstance(c, type) and c not in abstract}

    def row(self, name: str, words: list[str]) -> list[str]:
        """Put the parameters between the formula and the remark."""
        kernel = getattr(kernels, name)(*[{"area": []}] if name == "Areal" else ())  # which needs a graph
        formula, remark = words
        return [f"`{name}`", formula, ", ".join(f"`{parameter}`" for parameter in kernel.params), remark]


class StrategiesTable(PackageTable):
    """The registry of strategies for hyperparameters, with their options."""

    header = ("`hyper=`", "Class and options", "Gives", "Cost", "Use it when")

    def names(self) -> set[str]:
        """Return the names in the registry."""
        return set(strategy_names())

    def row(self, name: str, words: list[str]) -> list[str]:
        """Put the class with the names of its options after the name."""
        strategy = hyper.get_strategy(name)
        options = ", ".join(f"`{field.name}`" for field in fields(strategy))
        return [f'`"{name}"`', f"`{type(strategy).__name__}`: {options}", *words]


class StatusTable(PackageTable):
    """How an iteration can end, in the words of the package itself."""

    header = ("`Status`", "Message", "Remark")

    def names(self) -> set[str]:
        """Return the names of the members."""
        return set(Status.__members__)

    def row(self, name: str, words: list[str]) -> list[str]:
        """Put the message between the name and the remark."""
        return [f"`{name}`", Status[name].value, *words]


class NamesTable(SphinxDirective):
    """The names and arguments of other packages, and what to write for each."""

    def run(self) -> list[nodes.Node]:
        """Return the table, a row for each advice."""
        rows: dict[str, list[str]] = {}
        for name, advice in {**ELSEWHERE, **{f"{name}=": advice for name, advice in ARGUMENTS.items()}}.items():
            rows.setdefault(advice.replace("*", r"\*"), []).append(f"`{name}`")
        cells = [[", ".join(names), advice] for advice, names in rows.items()]
        return self.parse_text_to_nodes(markdown_table(("Elsewhere", "Here"), cells))


def _solve(solver: Solver, likelihood: likelihoods.Likelihood):
    targets = [likelihood.some_target, -1.0 if likelihood.is_binary else likelihood.some_target]
    return solver.solve(Problem(GRAM, np.array(targets), likelihood), Control())


def check_reference(app: Sphinx, docname: str, source: list[str]) -> None:
    """Raise if the two pages of the reference leave out a public name; each stands on a line of its own."""
    if docname != "api":
        return
    developers = (Path(app.srcdir) / "api_developers.md").read_text(encoding="utf-8")
    listed = {line.strip() for line in (source[0] + developers).splitlines()}
    subpackages = {name: module for name in bgp.__all__ if isinstance(module := getattr(bgp, name), ModuleType)}
    subpackages["hyper"] = hyper
    at_home = {
        f"{prefix}.{name}": getattr(module, name) for prefix, module in subpackages.items() for name in module.__all__
    }
    known = [value for name, value in at_home.items() if listed & {name, name.rpartition(".")[2]}]
    missing = [name for name in bgp.__all__ if name not in listed | {*subpackages} and getattr(bgp, name) not in known]
    missing += [name for name, value in at_home.items() if value not in known]
    if missing:
        raise ExtensionError(f"api.md or api_developers.md must list every public name, but they leave out {missing}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("kernels-table", KernelsTable)
    app.add_directive("strategies-table", StrategiesTable)
    app.add_directive("names-table", NamesTable)
    app.add_directive("status-table", StatusTable)
    app.connect("source-read", check_reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
