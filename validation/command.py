"""The one main of every job here: options, names that are checked, one BLAS thread, failures, verdicts, exit status.

A job is a `Command` and its work: a function of the parsed options that returns the exit status.
"""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from validation.reporting.checks import Check, passed

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""
HELP = {
    "cases": "how many are fitted",
    "chain_files": "folder of the chains",
    "chains": "how many are drawn",
    "client": "address of a Dask scheduler, tcp://..., whose workers do the tasks instead",
    "cores": "chains that run at once",
    "draws": "draws of each chain",
    "output": "what to write to",
    "prior_white": "latent values white in the prior, without sites",
    "processes": "tasks at the same time",
    "reference": "the record to compare with",
    "sampler": "whose NUTS",
    "seed": "of the first chain",
    "table": "which data",
    "target_accept": "acceptance rate aimed at",
    "thin": "keep one draw of the parameters in so many",
    "tune": "tuning steps of each chain",
}
"""What an option is, in whichever command it stands."""
CHOICES = {"sampler": ("nutpie", "pymc"), "table": ("clusters", "flights")}
COUNTS = ("cases", "chains", "cores", "draws", "processes", "thin")
"""Options that are at least one."""
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Command:
    """A command line: ``python -m module NAME ... --option value``.

    Attributes
    ----------
    module : str
        What is run.
    about : str
        What it does, for ``--help``.
    output : Path
        The folder or file that it writes to if no other is given.
    options : mapping
        Names of `HELP`, each with its default; one that is False becomes a flag.
    names : iterable of str
        Parts of the work that can be asked for.
    noun : str
        What one of them is.
    """

    module: str
    about: str
    output: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    names: Iterable[str] = ()
    noun: str = "part"

    def run(self, work: Callable[[Namespace], int], arguments: Sequence[str] | None = None) -> int:
        """Parse the arguments, do the work with one BLAS thread, and return the exit status."""
        options = self.parse(arguments)
        # the matrices are small: more threads would wait for each other, and be timed as they do
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            return work(options)

    def parse(self, arguments: Sequence[str] | None = None) -> Namespace:
        """Return the options; ``names`` has each name once, and is empty if none was given."""
        parser, names = ArgumentParser(prog=f"python -m {self.module}", description=self.about), list(self.names)
        if names:
            which = f"which to do, the usual ones if none is named: {', '.join(names)}"
            parser.add_argument("names", nargs="*", metavar=self.noun.upper(), help=which)
        for name, default in {**self.options, "output": self.output}.items():
            flag, text = f"--{name.replace('_', '-')}", HELP[name]
            if default is False:
                parser.add_argument(flag, action="store_true", help=text)
            else:
                text += f" (default: {default or None})"
                parser.add_argument(flag, type=type(default), default=default, choices=CHOICES.get(name), help=text)
        options = parser.parse_args(arguments)
        options.names = list(dict.fromkeys(getattr(options, "names", ())))
        if unknown := [name for name in options.names if name not in names]:
            parser.error(f"there is no {self.noun} {', '.join(unknown)}; choose from {', '.join(names)}")
        for name in COUNTS:
            if getattr(options, name, 1) < 1:
                parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
        return options


def made_from(kind: Callable[..., Made], options: Namespace, **more: Any) -> Made:
    """Return an object of a dataclass, of those options that are its fields, and more."""
    known = {option.name for option in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in vars(options).items() if name in known}, **more)


def each(names: Iterable[str], noun: str, work: Callable[[str], object]) -> tuple[list[str], int]:
    """Do the work of each name, and return the names of those that failed, and the exit status.

    One that fails takes no other along; Ctrl-C ends it.
    """
    failed: list[str] = []
    for name in names:
        try:
            work(name)
        except KeyboardInterrupt:
            complain(f"Stopped in {noun} {name}. What was done before is written.")
            return failed, INTERRUPTED
        except Exception:  # the others are still worth doing
            complain(f"The {noun} {name} failed:\n{traceback.format_exc()}")
            failed.append(name)
    if failed:
        complain(f"Failed, see above: {', '.join(failed)}")
    return failed, int(bool(failed))


def conclude(checks: Sequence[Check], lead: Sequence[str], paths: Sequence[Path]) -> int:
    """Print the verdicts, what was found and what was written, and return the exit status."""
    say(*(check.line for check in checks), *lead, *written(*paths))
    return 0 if passed(checks) else 1


def written(*paths: Path) -> list[str]:
    """Return a line for each file that was written."""
    return [f"Wrote {path}" for path in paths]


def say(*lines: str) -> None:
    """Print lines at once, for whoever waits."""
    print("\n".join(lines), flush=True)


def complain(*lines: str) -> None:
    """Print lines to where errors go."""
    print("\n".join(lines), file=sys.stderr, flush=True)
