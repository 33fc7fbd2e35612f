"""Comparisons of two items: a table to fit, and what a fit says of the items (THEORY 15).

An item has a utility f, and wins a duel where f(a) - f(b), plus noise, is above zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import as_generator, check_integers
from bayesgp_mf.container.draws import draw_latent
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.predictions import moments_at
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.fitting import posterior
from bayesgp_mf.kernels import Categorical, Difference, Kernel, Kinds, Linear
from bayesgp_mf.types import Array

__all__ = ["Duels"]

ITEM, SECOND, HOME, KIND, CHOICE = "item", " of second", "home", "kind", "choice"
"""Columns of the table: the first item; what is behind the names of those of the second; the home side; the kind; the
choice, or the ranking, that a duel is part of."""
DUEL = "duel"
LOSS, TIE, WIN = "loss", "tie", "win"
BAND = (5.0, 95.0)
"""Per cent, of utilities."""
NOISE = 0.5
"""Noise variance of each item of a choice, so that of a duel is one."""
ALIKE = 9
"""Digits in which utilities are the same."""


class Duels:
    """Duels as a table for `fit`: who won against whom, and what is known of the items.

    Parameters
    ----------
    winner, loser : (n,) sequence of str
        Names of the items of each duel; of a tie, in any order.
    items : DataFrame, optional
        Features of the items, with their names as its index. Items that have no duel may be there too.
    tie : (n,) sequence of bool, optional
        Which duels had no winner.
    home : (n,) sequence of str, optional
        The item of each duel that had the home advantage, or the first move; None or NaN where neither had it.

    Attributes
    ----------
    X : DataFrame
        A row for each duel. The columns ``item`` and of features are of its first item, those ``... of second`` of its
        second; ``home`` is 1 where the first is at home, -1 where the second is. The winner is first in every
        other duel.
    y : (n,) array
        Whether the first one won; where there are ties an ordered pandas Categorical of loss, tie and win.
    items : DataFrame
        All items, by name.
    common : dict
        Values of further columns of a fit, which `utility` and others ask for by default: see `from_fit`.

    Raises
    ------
    ValueError
        If arguments are malformed, an item meets itself, is missing in ``items``, or there are less than two duels.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> duels = bgp.duels.Duels(["Ann", "Ann", "Bob", "Ann"], ["Bob", "Cy", "Cy", "Bob"])
    >>> idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), random_seed=1, progress=False)
    >>> table = duels.utility(idata, random_seed=1)
    >>> table["mean"].round(1).to_dict()
    {'Ann': 0.9, 'Bob': -0.1, 'Cy': -0.8}
    >>> next_duel = duels.cases(["Cy"], ["Ann"])
    >>> bgp.predict(idata, next_duel, corrected=True)["predictions"]["p"].values.round(2)
    array([0.12])
    """

    def __init__(
        self,
        winner: ArrayLike,
        loser: ArrayLike,
        *,
        items: pd.DataFrame | None = None,
        tie: ArrayLike | None = None,
        home: ArrayLike | None = None,
    ) -> None:
        won, lost = _names("winner", winner), _names("loser", loser)
        n = won.size
        drawn = np.zeros(n, dtype=bool) if tie is None else np.asarray(tie)
        for name, given in (("loser", lost), ("tie", drawn)):
            if given.shape != (n,):
                raise ValueError(f"{name} must have one entry for each of {n} winners, got shape {given.shape}.")
        if drawn.dtype != bool:
            raise ValueError(f"tie must be True or False for each duel, got entries of type {drawn.dtype}.")
        if n < 2:
            raise ValueError(f"Duels needs two or more duels, got {n}.")
        self.items = _items(items, np.unique(np.concatenate([won, lost])))
        self.common: dict[str, Any] = {}
        self.has_choices = False
        swapped = np.arange(n) % 2 == 1  # so that both outcomes occur, whoever is named first
        first, second = np.where(swapped, lost, won), np.where(swapped, won, lost)
        self.has_home = home is not None
        self.X = self.cases(first, second, home=home)
        outcome = np.where(drawn, TIE, np.where(swapped, LOSS, WIN))
        ordered = pd.Categorical(outcome, [LOSS, TIE, WIN], ordered=True)
        self.y: Any = ordered if drawn.any() else outcome == WIN

    @classmethod
    def from_scores(cls, first: ArrayLike, second: ArrayLike, score: ArrayLike, **options: Any) -> Self:
        """Return the duels of a table of results, with ``items`` and ``home`` as for `Duels`.

        Parameters
        ----------
        first, second : (n,) sequence of str
            Names of the items of each duel.
        score : (n,) array_like
            Of the first one: 1 where it won, 0 where it lost, and 0.5 for a tie.

        Raises
        ------
        ValueError
            If a score is none of these, or as `Duels`.
        """
        a, b = _names("first", first), _names("second", second)
        try:
            scores = np.asarray(score, dtype=np.float64)
        except (TypeError, ValueError):
            scores = np.full(1, np.nan)
        if not a.shape == b.shape == scores.shape or not np.isin(scores, (0.0, 0.5, 1.0)).all():
            raise ValueError(
                f"score must be 1, 0.5 or 0 for each of {a.size} duels (second has {b.size} items), got {score!r:.80}."
            )
        won = scores > 0
        return cls(np.where(won, a, b), np.where(won, b, a), tie=scores == 0.5, **options)

    @classmethod
    def from_rankings(
        cls, rankings: Iterable[Iterable[Any]], *, items: pd.DataFrame | None = None, same_noise: bool = False
    ) -> Self:
        """Return the duels of neighbours in rankings, each with its best item first.

        Duels of neighbours leave out what a ranking says beyond them: that an item has the same noise in all duels of
        one ranking. With ``same_noise`` they do not: then all is as for `from_choices`. Of a ranking of k items, k - 1
        duels are made.

        Raises
        ------
        ValueError
            If a ranking is a text and no sequence of names, or as `Duels`.
        """
        pairs = [list(itertools.pairwise(ranking)) for ranking in _sequences("ranking", rankings)]
        return cls._from_pairs(pairs, items, same_noise)

    @classmethod
    def from_choices(cls, choices: Iterable[Iterable[Any]], *, items: pd.DataFrame | None = None) -> Self:
        r"""Return the duels of choices of one among several, each a sequence of names with the chosen one first.

        The chosen item wins a duel with each other one, with the same noise of variance 1/2 in all of them: with
        `kernel` and the likelihood ``Step()`` this is the multinomial probit model of choices,
        :math:`P(c) = P(f_c + e_c > f_j + e_j` for all j :math:`)`. Two items make a duel whose noise has variance 1.

        Raises
        ------
        ValueError
            If a choice is a text and no sequence of names, or as `Duels`.

        Examples
        --------
        >>> import bayesgp_mf as bgp
        >>> wines = bgp.duels.Duels.from_choices([["Rioja", "Chianti", "Merlot"], ["Rioja", "Merlot"]])
        >>> idata = bgp.fit(wines.X, wines.y, wines.kernel(), bgp.Step(), random_seed=1, progress=False)
        >>> wines.chosen(idata, random_seed=1).round(1).to_dict()
        {'Chianti': 0.2, 'Merlot': 0.1, 'Rioja': 0.7}
        """
        named = _sequences("choice", choices)
        return cls._from_pairs([[(each[0], other) for other in each[1:]] for each in named], items, True)

    @classmethod
    def _from_pairs(cls, pairs: list[list[tuple[Any, Any]]], items: pd.DataFrame | None, same_noise: bool) -> Self:
        each = [pair for of_one in pairs for pair in of_one]
        duels = cls([a for a, _ in each], [b for _, b in each], items=items)
        duels.has_choices = same_noise
        if same_noise:
            duels.X[CHOICE] = np.repeat([f"{CHOICE} {k}" for k in range(len(pairs))], [len(of_one) for of_one in pairs])
        return duels

    @classmethod
    def from_fit(cls, idata: Container) -> Self:
        """Return the duels of a fit, which may have been loaded from a file.

        Its items are those that had a duel. Columns that both sides have in common, such as a judge, get their most
        frequent name, or their median, in ``common``.

        Raises
        ------
        ValueError
            If it is no fit with `kernel`, or its cases are elsewhere.

        Examples
        --------
        >>> import bayesgp_mf as bgp
        >>> duels = bgp.duels.Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
        >>> idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), random_seed=1, progress=False)
        >>> list(bgp.duels.Duels.from_fit(idata).items.index)
        ['Ann', 'Bob', 'Cy']
        """
        about = fitted(idata)
        if not is_of_duels(about) or about.y is None:
            raise ValueError("duels are read from a fit of them: fit(duels.X, duels.y, duels.kernel(), ...).")
        table, middle = (_decoded(about, rows) for rows in (about.X, about.middle()[None]))
        outcome = np.sign(about.y) if not about.classes else 2.0 * about.y / (len(about.classes) - 1) - 1.0
        played = np.asarray(table[KIND] == DUEL)
        table, score = table[played], 0.5 + 0.5 * outcome[played]
        of_second = [name for name in table.columns if name.endswith(SECOND)]
        of_first = [name.removesuffix(SECOND) for name in of_second]
        sides = [table[of_first], table[of_second].set_axis(of_first, axis=1)]
        items = pd.concat(sides).drop_duplicates(ITEM).set_index(ITEM).sort_index()
        home = None
        if HOME in table:
            home = np.where(table[HOME] > 0, table[ITEM], np.where(table[HOME] < 0, table[ITEM + SECOND], None))
        duels = cls.from_scores(table[ITEM], table[ITEM + SECOND], score, items=items, home=home)
        if CHOICE in table:
            duels.has_choices, duels.X[CHOICE] = True, table[CHOICE].to_numpy()
        others = [name for name in table.columns if name not in {*of_first, *of_second, HOME, KIND, CHOICE}]
        duels.common = middle[others].iloc[0].to_dict()
        return duels

    def cases(self, first: ArrayLike, second: ArrayLike, *, home: ArrayLike | None = None) -> pd.DataFrame:
        """Return duels of some items with others as inputs of `predict`.

        Its ``p`` is the probability that the first one wins; with ties, those of loss, tie and win of the first.

        Parameters
        ----------
        first, second : (m,) sequence of str
            Names. Without features they need not have been there: nothing is known of such an item.
        home : (m,) sequence of str, optional
            Which of both is at home, if one is.

        Raises
        ------
        ValueError
            If names are missing, have no features, or are equal; if ``home`` is none of both.
        """
        a, b = _names("first", first), _names("second", second)
        if a.shape != b.shape:
            raise ValueError(f"first and second must be as many items, got {a.size} and {b.size}.")
        if (a == b).any():
            raise ValueError(f"an item cannot meet itself, and {a[a == b][0]!r} does in duel {int(np.argmax(a == b))}.")
        table = pd.concat([self._side(a, ""), self._side(b, SECOND)], axis=1)
        if self.has_home:
            given = np.full(a.size, None) if home is None else np.asarray(home, dtype=object)
            if given.shape != a.shape:
                raise ValueError(f"home must have one entry for each of {a.size} duels, got shape {given.shape}.")
            neither = np.asarray(pd.isna(given))
            named = [None if absent else str(each) for each, absent in zip(given, neither, strict=True)]
            at_home = np.array(named, dtype=object)
            here, there = at_home == a, at_home == b
            if not (neither | here | there).all():
                row = int(np.argmin(neither | here | there))
                raise ValueError(
                    f"home must be one of both items, or None; in duel {row} it is {at_home[row]!r}, and they are "
                    f"{a[row]!r} and {b[row]!r}."
                )
            table[HOME] = here.astype(float) - there.astype(float)
        elif home is not None:
            raise ValueError(
                "home was not given with the duels, so that nothing is known of its advantage; leave it out."
            )
        table[KIND] = DUEL
        return table.assign(**{CHOICE: [f"new {k}" for k in range(a.size)]}) if self.has_choices else table

    def kernel(self, of_items: Kernel | None = None) -> Kernel:
        """Return the kernel of the table: differences of utilities, the advantage of the home side, noise of choices.

        Parameters
        ----------
        of_items : Kernel, optional
            The kernel of utilities, of columns of features and of ``item``, whose name is the effect of an item beyond
            its features. ``Categorical(columns="item")`` by default: items are alike in nothing.
        """
        below = Categorical(1.0, columns=ITEM) if of_items is None else of_items
        first = [ITEM, *self.items.columns]
        difference = Difference(below, first, [f"{name}{SECOND}" for name in first])
        kernel: Kernel = Kinds(difference, below, column=KIND, kinds=[DUEL, ITEM])
        if self.has_choices:  # zero where both are one item, as where its utility is asked for
            kernel += Difference(Categorical(NOISE, columns=[ITEM, CHOICE]), [ITEM], [f"{ITEM}{SECOND}"])
        return kernel + Linear(0.1, columns=HOME) if self.has_home else kernel

    def utility(
        self,
        idata: Container,
        *,
        common: Mapping[str, Any] | None = None,
        draws: int = 4000,
        random_seed: Any = None,
    ) -> pd.DataFrame:
        """Return what a fit says of the utility of each item, best first.

        Utilities are those above the mean of all items, in units of the likelihood's latent value: only differences
        are known.

        Parameters
        ----------
        idata : InferenceData or DataTree
            A fit to `X` and `y` with `kernel`.
        common : mapping of str to value, optional
            For columns that you added to `X` and both sides have in common, the values to ask for:
            ``{"judge": "Ann"}``.
        draws : int
            From the posterior, of all utilities together.
        random_seed : int, Generator or None
            Of the draws.

        Returns
        -------
        DataFrame
            A row for each item: mean, sd, 5 % and 95 % quantiles, the probability to be the best, and the mean rank.

        Raises
        ------
        ValueError
            If it is no fit with `kernel`, or columns are missing in ``common``.
        """
        rng = as_generator(random_seed)
        utilities = self._drawn(idata, draws, common=common, random_seed=rng)
        ranks = _ranks(utilities, rng)
        low, high = np.percentile(utilities, BAND, axis=0)
        columns = {
            "mean": utilities.mean(axis=0),
            "sd": utilities.std(axis=0),
            **dict(zip((f"{level:g}%" for level in BAND), (low, high), strict=True)),
            "best": (ranks == 1).mean(axis=0),
            "rank": ranks.mean(axis=0),
        }
        return pd.DataFrame(columns, index=self.items.index).sort_values("mean", ascending=False)

    def ranks(self, idata: Container, *, draws: int = 4000, random_seed: Any = None, **options: Any) -> pd.DataFrame:
        """Return the probability of each rank for each item, 1 for the best; arguments are those of `utility`."""
        rng = as_generator(random_seed)
        ranks = _ranks(self._drawn(idata, draws, random_seed=rng, **options), rng)
        places = np.arange(1, len(self.items) + 1)
        shares = np.array([(ranks == place).mean(axis=0) for place in places]).T
        return pd.DataFrame(shares, index=self.items.index, columns=pd.Index(places, name="rank"))

    def probabilities(
        self, idata: Container, items: Iterable[str] | None = None, *, common: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return the probability that each item beats each other one, with neither at home: rows beat columns.

        Parameters
        ----------
        idata : InferenceData or DataTree
            A fit to `X` and `y` with `kernel`.
        items : sequence of str, optional
            Two or more of them, in the order to have; all by default.
        common : mapping of str to value, optional
            As for `utility`.

        Raises
        ------
        ValueError
            If there are less than two items, targets are neither labels nor levels, or as `cases` and `predict` do.
        """
        names = self._names_of(items)
        if len(names) < 2:
            raise ValueError(f"probabilities are those of two or more items, got {names}.")
        first, second = zip(*itertools.permutations(names, 2), strict=True)
        process = posterior(idata)
        p = moments_at(process, process.new_inputs(self.cases(first, second).assign(**self._common(common)))).get("p")
        if p is None:
            raise ValueError("probabilities are those of duels that are won or lost, and targets of this fit are not.")
        beats = np.full((len(names), len(names)), np.nan)
        beats[~np.eye(len(names), dtype=bool)] = p if p.ndim == 1 else p[:, -1]
        return pd.DataFrame(beats, index=pd.Index(names, name=ITEM), columns=names)

    def record(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return how many duels each item (rows) won against each other one (columns), and how many they had."""
        names = self.items.index
        first, second = names.get_indexer(self.X[ITEM]), names.get_indexer(self.X[ITEM + SECOND])
        has_ties = isinstance(self.y, pd.Categorical)
        won, met = np.zeros((2, len(names), len(names)), dtype=np.intp)
        for a, b, ended in ((first, second, WIN if has_ties else True), (second, first, LOSS if has_ties else False)):
            np.add.at(won, (a, b), np.asarray(self.y == ended))
            np.add.at(met, (a, b), 1)
        return tuple(pd.DataFrame(each, index=names, columns=list(names)) for each in (won, met))

    def _common(self, common: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**self.common, **(common or {})}

    def chosen(
        self, idata: Container, items: Iterable[str] | None = None, *, draws: int = 4000, **options: Any
    ) -> pd.Series:
        """Return the probability of each item to be chosen among some, or among all, in a fit of `from_choices`.

        Parameters are those of `utility`, and ``items`` a sequence of names.

        Raises
        ------
        ValueError
            If these are no duels of choices, an item is unknown, or as `utility`.
        """
        names = self._names_of(items)
        positions = self.items.index.get_indexer(names)
        if not self.has_choices or (positions < 0).any():
            raise ValueError(
                f"chosen is of duels from_choices and of items such as {list(self.items.index[:3])}, got {names}."
            )
        rng = as_generator(options.pop("random_seed", None))
        utilities = self._drawn(idata, draws, random_seed=rng, **options)[:, positions]
        noisy = utilities + np.sqrt(NOISE) * rng.standard_normal(utilities.shape)
        shares = np.bincount(noisy.argmax(axis=1), minlength=len(names)) / draws
        return pd.Series(shares, index=pd.Index(names, name=ITEM))

    def _names_of(self, items: Iterable[str] | None) -> list[str]:
        """Return the names of some items, or of all."""
        names = list(self.items.index if items is None else items)
        if isinstance(items, str) or not names or len(set(names)) < len(names):
            raise ValueError(f"items must be a sequence of different names, got {items!r:.80}.")
        return names

    def _side(self, names: NDArray[Any], suffix: str) -> pd.DataFrame:
        """Return the names of items on one side of duels, and their features."""
        if len(self.items.columns):
            unknown = sorted(set(names) - set(self.items.index))
            if unknown:
                raise ValueError(
                    f"items must have a row for every item of a duel, and {unknown[:5]} have none. "
                    "Names are its index: items.set_index(...)."
                )
            features = self.items.loc[names].reset_index(drop=True)
            return pd.concat([pd.Series(names, name=ITEM), features], axis=1).add_suffix(suffix)
        return pd.DataFrame({f"{ITEM}{suffix}": names})

    def _drawn(
        self, idata: Container, draws: int, *, common: Mapping[str, Any] | None = None, random_seed: Any = None
    ) -> Array:
        """Draw utilities ``(draws, items)``, less the mean of all."""
        check_integers(1, draws=draws)
        names = np.asarray(self.items.index)
        table = pd.concat([self._side(names, ""), self._side(names, SECOND)], axis=1)
        own = {**({HOME: 0.0} if self.has_home else {}), KIND: ITEM, **({CHOICE: ITEM} if self.has_choices else {})}
        table = table.assign(**own, **self._common(common))
        process, rng = posterior(idata), as_generator(random_seed)
        read = [part.kernel.readers("groups", table.shape[1]) for part in process.parts]
        if not all(table.columns.get_loc(KIND) in columns for columns in read):
            raise ValueError(
                "utilities are known of a fit with the kernel of the duels: fit(duels.X, duels.y, duels.kernel(), ...)."
            )
        node = rng.choice(len(process.parts), (1, draws), p=process.weights)
        (utilities,) = draw_latent(process, process.new_inputs(table), node, rng)
        return np.asarray(utilities - utilities.mean(axis=1, keepdims=True))


def is_of_duels(about: Fitted) -> bool:
    """Tell whether a fit has the kernel and the table of duels."""
    groups = about.process.reader.readers("groups", len(about.names))
    return all(name in about.names and about.names.index(name) in groups for name in (ITEM, ITEM + SECOND, KIND))


def _decoded(about: Fitted, rows: Array) -> pd.DataFrame:
    """Return inputs ``(m, d)`` as a table, with names in place of codes."""
    texts = about.process.reader.levels_of_columns()
    columns = {
        name: np.array(texts[j], dtype=object)[rows[:, j].astype(np.intp)] if j in texts else rows[:, j]
        for j, name in enumerate(about.names)
    }
    return pd.DataFrame(columns)


def _ranks(utilities: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the rank of each item in each draw ``(draws, items)``, 1 for the highest utility; equal ones draw lots."""
    level = np.round(utilities / np.abs(utilities).max(), ALIKE)  # utilities of equal features differ by rounding
    order = np.lexsort((rng.random(level.shape), -level), axis=1)
    return np.argsort(order, axis=1) + 1


def _sequences(one: str, given: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """Return rankings or choices, or raise a ValueError where one is a text, whose letters would be items."""
    each: list[Any] = list(given)
    for k, of_one in enumerate(each):
        if isinstance(of_one, str) or not isinstance(of_one, Iterable):
            raise ValueError(
                f"each {one} must be a sequence of names, got {of_one!r}. Of a dict pass its values(), of a "
                f"data frame with a row for each {one} to_numpy()."
            )
        each[k] = list(of_one)
        twice = [name for name in each[k] if each[k].count(name) > 1]
        if twice:
            raise ValueError(f"each {one} must have an item once, and {one} {k} has {twice[0]!r} twice.")
    return each


def _names(name: str, given: Any) -> NDArray[Any]:
    names = np.asarray(given, dtype=object)
    if names.ndim != 1:
        raise ValueError(f"{name} must be a name for each duel, got an array of shape {names.shape}.")
    missing = np.asarray(pd.isna(names))
    if missing.any():
        raise ValueError(
            f"{name} must name an item in every duel, and lacks it in duel {int(np.argmax(missing))}. "
            "Name both items of a tie too, and say in tie which duels are ties."
        )
    return np.array([str(each) for each in names], dtype=object)


def _items(items: Any, names: NDArray[Any]) -> pd.DataFrame:
    """Return a row for each item by name, with its features if there are any."""
    if items is None:
        return pd.DataFrame(index=pd.Index(names, name=ITEM))
    axes = items.axes if isinstance(items, pd.DataFrame) else []
    if not axes or not all(axis.nlevels == 1 and axis.map(str).is_unique for axis in axes):
        raise ValueError(
            "items must be a data frame of pandas with a row for each item, whose index is its name. There, and among "
            "its columns, each text may be once."
        )
    table: pd.DataFrame = items.rename(index=str, columns=str).rename_axis(ITEM)
    taken = [name for name in table.columns if name in (ITEM, HOME, KIND, CHOICE) or name.endswith(SECOND)]
    if taken:
        raise ValueError(f"items has a column {taken[0]!r}, which is a name of the table of duels. Rename it.")
    return table
