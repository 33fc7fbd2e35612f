"""Groups of cases: a random effect for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.kernels.base import Homogeneous
from bayesgp_mf.kernels.values import Columns, as_columns, chosen_pair, positions
from bayesgp_mf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class Categorical(Homogeneous):
    """Covariance ``variance`` within a group and zero between groups: independent offsets of groups.

    This is the random intercept of a mixed model. ``Categorical(columns="clinic") * Linear(columns="dose")`` is a
    random slope, and any kernel in place of `Linear` a function for each group. A group without training cases is
    predicted from the prior. The rank of its Gram matrix is the number of groups.

    Parameters
    ----------
    variance : float
        Prior variance of each group's offset, in squared latent units.
    columns : str, int or sequence of them, optional
        The inputs that name the group of a case, by name in a data frame or by position: numbers or, for `fit`, text or
        a pandas Categorical. Cases are in the same group if all these inputs are equal; by default all inputs.
    levels : sequence of (sequence of str or None), optional
        For each of the columns the texts with codes 0, 1, ... in the inputs, or None for numbers. `fit` finds them, and
        a file keeps them.

    Raises
    ------
    ValueError
        If ``variance`` is not finite and positive, ``columns`` are not columns, or ``levels`` do not match them.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Categorical
    >>> Categorical(2.0).gram(np.array([[0.0], [1.0], [0.0]]))
    array([[2., 0., 2.],
           [0., 2., 0.],
           [2., 0., 2.]])
    """

    variance: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    levels: Sequence[Sequence[str] | None] | None = field(default=None, kw_only=True)
    setting_names: ClassVar[tuple[str, ...]] = ("columns", "levels")
    scale_name: ClassVar[str | None] = "variance"
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "groups"
    flat: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", _as_levels(self.levels, self.columns))

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts of its columns, which are given by position."""
        columns = range(max(levels, default=-1) + 1) if self.columns is None else as_columns(self.columns) or ()
        own = [levels.get(column) if isinstance(column, int) else None for column in columns]
        return self._made_with({"levels": own if any(each is not None for each in own) else None})

    def levels_of_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the texts of its columns by position, of those that hold text."""
        levels: tuple[tuple[str, ...] | None, ...] = () if self.levels is None else tuple(self.levels)  # type: ignore[arg-type]
        columns = range(len(levels)) if self.columns is None else as_columns(self.columns) or ()
        pairs = zip(columns, levels, strict=False)  # without levels there are none
        return {column: own for column, own in pairs if own is not None and isinstance(column, int)}

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return its columns, all of which must be equal."""
        columns = as_columns(self.columns)
        return [tuple(range(width)) if columns is None else positions(columns, None)]

    def __repr__(self) -> str:
        return super().__repr__() if self.levels is None else repr(self._made_with({"levels": None}))

    def _equal(self, A: Array, B: Array) -> NDArray[np.bool_]:
        """Tell which cases ``(a, b)`` are of one group."""
        A, B = chosen_pair(self.columns, A, B)
        equal = np.equal.outer(A[:, 0], B[:, 0])
        for a, b in zip(A.T[1:], B.T[1:], strict=True):
            equal &= np.equal.outer(a, b)
        return np.asarray(equal)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return np.asarray(np.where(self._equal(A, B), self.params["variance"], 0.0))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the sum of ``cross_bar`` within groups."""
        return {"variance": np.asarray(np.sum(cross_bar, where=self._equal(A, B)))}


def _as_levels(levels: object, columns: Columns) -> tuple[tuple[str, ...] | None, ...] | None:
    """Return the texts of each column as tuples, or None if all hold numbers, or raise a ValueError."""
    if levels is None:
        return None
    expected = "levels must have for each of the columns a sequence of different texts, or None where it holds numbers"
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise ValueError(f"{expected}; got {levels!r:.80}. Leave them out: fit finds them.")
    for own in levels:
        is_text = isinstance(own, Sequence) and not isinstance(own, str) and all(isinstance(each, str) for each in own)
        if own is not None and not (is_text and len(set(own)) == len(own)):
            raise ValueError(f"{expected}; got {own!r:.80}. Leave them out: fit finds them.")
    if isinstance(columns, tuple) and len(levels) != len(columns):
        raise ValueError(
            f"{expected}; got {len(levels)} of them for the columns {list(columns)}. Leave them out: fit finds them."
        )
    return tuple(None if own is None else tuple(own) for own in levels)
