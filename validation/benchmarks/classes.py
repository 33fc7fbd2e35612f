"""Several classes: the multinomial probit beside softmax, one against the rest and scikit-learn, on four tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from validation.benchmarks.class_competitors import (
    COMPETITORS,
    DEFAULT,
    FIXED,
    INDUCING,
    LAPLACE,
    LARGE,
    LOGISTIC,
    ON,
    PLATT,
    PROBIT,
    REST,
    Reached,
    compete,
)
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import SKLEARN
from validation.multinomial.tables import TABLES
from validation.reporting.checks import Check, at_least, at_most

LIMIT = 300
"""Seconds of the processor that a competitor has for all parts of a table, imports and predictions included."""
GB = 1e9
HEADER = ("", "Time, s", "Predict, s", "Peak, GB", "Log score", "Errors", "Failure")
REMARK = (
    f"Each row is a fresh process with one thread and at most {LIMIT} s of the processor. Time: of the processor, for "
    "training on all parts of the table, without imports and predictions. Peak: largest resident memory, libraries and "
    "data in it. The log score is the mean log probability of the held-out labels in nats, the errors the share of "
    "them that are not the most probable class. GP: one Gaussian kernel, shared by all classes, with one length scale; "
    "both of its parameters tuned by the evidence from one start, the median distance of two cases; the default model "
    "has what fit takes where no kernel is given. Logistic "
    "regression is scikit-learn's as it is. Inputs are standardised on the cases to learn from. On components: of all "
    "principal components of the inputs, the first half, quarter and eighth, those are taken whose evidence is highest "
    "before the search, at a variance of 100, or, of logistic regression, whose cross-validated log score is."
)
OF = {
    "wine": "Scikit-learn's wines: 178 cases, 3 classes, 13 inputs, in five parts each of which is held out once.",
    "forensic glass": "214 cases, 6 classes, 9 inputs, in the ten parts of Venables and Ripley.",
    "overlapping": "Made by scikit-learn's make_classification in the manner of Vehicle: 300 cases to learn from, 1000 "
    "held out, 3 classes, 18 inputs of which 6 are noise.",
    "digits": "Scikit-learn's digits: 500 to learn from, 1297 held out, 10 classes, 64 inputs: the ink of a pixel, "
    "between 0 and 1, standardised for logistic regression alone.",
}
OF_FIXED = (
    "The multinomial probit by TAP at the kernel from which the cases were drawn: two inputs, 1000 held-out cases. A "
    "fit with its leave-one-out and a single draw."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Let all compete on each table, fit large ones at fixed hyperparameters, and hold all against what was asked."""
    found: dict[str, dict[str, Reached]] = {}
    if SKLEARN.installed:
        for table, parts in TABLES.items():
            n_classes = next(parts()).n_classes
            found[table] = run(table, taking(n_classes), advance)
            yield listing(f"Several classes: {table}", found[table].values(), (OF[table], REMARK, *left_out(n_classes)))
    else:  # it has the tables, too
        yield Listing("Several classes", HEADER, (), (), SKLEARN.absence)
    fixed = {}
    for name in FIXED:
        fixed[name] = compete(name, name, LIMIT)
        advance(name)
    yield listing("Several classes at fixed hyperparameters", fixed.values(), (OF_FIXED,))
    yield Goals("What was asked of several classes", [*goals(found), *goals_at_fixed(fixed)])


def taking(n_classes: int) -> list[str]:
    """Return those competitors who take so many classes."""
    return [name for name, each in COMPETITORS.items() if each.most_classes is None or n_classes <= each.most_classes]


def left_out(n_classes: int) -> tuple[str, ...]:
    """Return a remark that names those who do not."""
    names = [name for name in COMPETITORS if name not in taking(n_classes)]
    return (f"Left out with {n_classes} classes, for its time: {', '.join(names)}.",) if names else ()


def run(table: str, names: Iterable[str], advance: Callable[[str], None]) -> dict[str, Reached]:
    """Run competitors on a table one after the other, each in a process of its own."""
    reached = {}
    for name in names:
        reached[name] = compete(name, table, LIMIT)
        advance(f"{table}: {name}")
    return reached


def listing(title: str, reached: Iterable[Reached], remarks: tuple[str, ...]) -> Listing:
    """Return what each competitor reached, or what happened to it."""
    reached = list(reached)
    numbers = [{"name": r.name, "failure": r.failure, "parts": [part._asdict() for part in r.parts]} for r in reached]
    return Listing(title, HEADER, tuple(_row(each) for each in reached), numbers, remarks)


def _row(reached: Reached) -> tuple[str, ...]:
    if reached.failure or not reached.parts:  # a score of some parts is none of the table
        return (reached.name, *("-" for _ in HEADER[2:]), reached.failure)
    return (
        reached.name,
        f"{reached.seconds:.2f}",
        f"{sum(part.predict for part in reached.parts):.2f}",
        f"{reached.bytes / GB:.2f}",
        f"{reached.score:.4f}",
        f"{reached.errors:.3f}",
        "",
    )


def goals(found: Mapping[str, Mapping[str, Reached]]) -> list[Check]:
    """Return what was asked of tuning, with what was found on each table."""
    on_components = ON.format(PROBIT)
    digits = whole(found, "digits", on_components)
    return [
        at_most(f"digits: {on_components}: time", None if digits is None else digits.seconds, 60.0, "s"),
        *(
            at_least(
                f"digits: {on_components}: log score above {peer}",
                ahead(found, "digits", peer, on_components),
                0.0,
                "nats",
            )
            for peer in (LOGISTIC, ON.format(LOGISTIC), REST, ON.format(REST))
        ),
        *(
            at_least(f"{table}: {DEFAULT}: log score above {PLATT}", ahead(found, table, PLATT, DEFAULT), 0.0, "nats")
            for table in TABLES
        ),
        at_least(f"wine: log score above {LOGISTIC}", ahead(found, "wine", LOGISTIC), -0.01, "nats"),
        at_least(f"forensic glass: log score above {REST}", ahead(found, "forensic glass", REST), 0.0, "nats"),
        at_least(f"forensic glass: log score above {LAPLACE}", ahead(found, "forensic glass", LAPLACE), 0.0, "nats"),
    ]


def whole(found: Mapping[str, Mapping[str, Reached]], table: str, name: str) -> Reached | None:
    """Return what a competitor reached on a table; None where it did not come to the end."""
    reached = found.get(table, {}).get(name)
    return None if reached is None or reached.failure else reached


def ahead(found: Mapping[str, Mapping[str, Reached]], table: str, peer: str, name: str = PROBIT) -> float | None:
    """Return by how much a competitor's log score is above a peer's, where both came to the end."""
    mine, theirs = whole(found, table, name), whole(found, table, peer)
    return None if mine is None or theirs is None else mine.score - theirs.score


def goals_at_fixed(fixed: Mapping[str, Reached]) -> list[Check]:
    """Return what was asked of large tables."""
    asked = []
    for name, seconds, size in ((LARGE, 40.0, 1.2), (INDUCING, 120.0, 2.0)):
        reached = whole({"fixed": fixed}, "fixed", name)
        asked += [
            at_most(f"{name}: time", None if reached is None else reached.seconds, seconds, "s"),
            at_most(f"{name}: peak memory", None if reached is None else reached.bytes / GB, size, "GB"),
        ]
    return asked
