"""Covering arrays: few cells in which every pair, or every triple, of values of options stands at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

from covertable import make, sorters

Cell = dict[str, str]
Options = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Refusal:
    """Values that do not go together, and words of the message that says so.

    ``found_by_solving`` says that it is a matter of the data, which only a solution sees.
    """

    options: tuple[str, ...]
    applies: Callable[[Mapping[str, str]], bool]
    words: str
    found_by_solving: bool = False

    def refuses(self, cell: Mapping[str, str]) -> bool:
        """Tell whether it applies to a cell, or to some options of one; not if they leave it open."""
        return all(name in cell for name in self.options) and self.applies(cell)


def array(options: Options, strength: int, refusals: Sequence[Refusal] = (), salt: object = "") -> list[Cell]:
    """Return cells with every combination of ``strength`` values that some cell without a refusal has."""
    together: dict[tuple[str, ...], list[Refusal]] = {}
    for each in refusals:
        together.setdefault(tuple(sorted(each.options)), []).append(each)
    rules = [
        {
            "operator": "fn",
            "requires": list(names),
            "evaluate": lambda row, some=some: not any(r.applies(row) for r in some),
        }
        for names, some in together.items()
    ]
    given = {name: list(values) for name, values in options.items()}
    rows = make(given, strength=strength, sorter=sorters.hash, salt=str(salt), constraints=rules)
    return [dict(row) for row in rows]


def uncovered(
    cells: Sequence[Cell], options: Options, strength: int, refusals: Sequence[Refusal] = ()
) -> Iterator[Cell]:
    """Yield combinations of values that no cell has, and that a cell without a refusal could have."""
    for names in combinations(options, strength):
        seen = {tuple(cell[name] for name in names) for cell in cells}
        for values in product(*(options[name] for name in names)):
            some = dict(zip(names, values, strict=True))
            if values not in seen and completed(some, options, refusals) is not None:
                yield some


def alone(refusal: Refusal, options: Options, others: Sequence[Refusal], seed: int) -> Iterator[Cell]:
    """Yield a cell for each combination of values that a refusal is about, which the others let pass if that can be."""
    rng = Random(seed)
    for values in product(*(options[name] for name in refusal.options)):
        some = dict(zip(refusal.options, values, strict=True))
        if refusal.refuses(some):
            found = completed(some, options, others, rng) or completed(some, options, (), rng)
            assert found is not None
            yield {name: found[name] for name in options}


def completed(some: Cell, options: Options, refusals: Sequence[Refusal], rng: Random | None = None) -> Cell | None:
    """Return a cell with some values that nothing refuses, a random one if ``rng`` is given; None if there is none."""
    if any(each.refuses(some) for each in refusals):
        return None
    rest = next((name for name in options if name not in some), None)
    if rest is None:
        return some
    values = list(options[rest])
    if rng is not None:
        rng.shuffle(values)
    tried = (completed({**some, rest: value}, options, refusals, rng) for value in values)
    return next((cell for cell in tried if cell is not None), None)


@dataclass(frozen=True, eq=False)
class Table:
    """The options of one thing, what of them does not go together or is slow, and what must hold of a cell.

    ``check`` takes a cell, the seed of its data and a folder, and returns "works" or "refused".
    """

    options: Options
    refusals: tuple[Refusal, ...]
    check: Callable[[Cell, int, Path], str]
    slow: tuple[Refusal, ...] = ()

    @cached_property
    def pairs(self) -> list[Cell]:
        """Return cells with every pair of values that go together and are not slow."""
        return array(self.options, 2, (*self.refusals, *self.slow), salt=1)

    @cached_property
    def refused(self) -> list[Cell]:
        """Return cells for each refusal, which it alone applies to where that can be."""
        return [
            cell
            for number, each in enumerate(self.refusals)
            for cell in alone(each, self.options, [other for other in self.refusals if other is not each], number)
        ]

    def tried(self, number: int, cell: Cell, folder: Path) -> str:
        """Return what becomes of a cell; an error says which one it was."""
        try:
            return self.check(cell, number, folder)
        except BaseException as error:
            error.add_note(f"cell {number}: {label(cell)}")
            raise


def label(cell: Mapping[str, Any]) -> str:
    """Return a cell in words."""
    return ", ".join(f"{name}={value}" for name, value in cell.items())
