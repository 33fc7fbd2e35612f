r"""One class against the rest, C times: the plain way to several classes, which is not a joint model.

Each class has a binary classifier of its own, which tells it from all others. Their probabilities q_c are answers to C
questions that know nothing of each other, and do not sum to one; what is returned is

.. math:: p_c = q_c / \sum_d q_d .

No likelihood of C latent values has these as its posterior. So what is here is none, but says which likelihoods the
classifiers have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.class_names import checked_classes
from bayesgp_mf.likelihoods.logit import Logit


@dataclass(frozen=True, slots=True)
class OneVsRest:
    """Several classes by a binary classifier for each class, against the rest.

    Pass it to `fit` as the likelihood, with any method that has probabilities. The classifiers are independent, and
    their probabilities are divided by their sum. There is no joint evidence and no joint posterior: `classifier`
    returns the fit of one class, with its evidence.

    Parameters
    ----------
    likelihood : Likelihood or sequence of Likelihood
        A likelihood of two classes, such as `Logit` (default), `Probit` or `Step`, for all classifiers; or one for each
        class, in the order of the classes.
    classes : sequence, optional
        All classes, in order; each must have a case. By default those that occur, sorted, or the categories of a pandas
        Categorical.

    Raises
    ------
    ValueError
        If a likelihood is not one of two classes, or the classes are fewer than two, not distinct, or have no order.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> glass = bgp.datasets.load_forensic_glass(fold=1)
    >>> kernel = bgp.kernels.Gaussian(2.0, variance=30.0)
    >>> idata = bgp.fit(glass.X, glass.y, kernel, bgp.OneVsRest(bgp.Probit()), draws=50, random_seed=1)
    >>> bgp.predict(idata, glass.X_test, draws=False)["predictions"]["p"].shape
    (16, 6)
    """

    likelihood: Likelihood | Sequence[Likelihood] = field(default_factory=Logit)
    classes: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        several = isinstance(self.likelihood, Sequence)
        each: Any = tuple(self.likelihood) if isinstance(self.likelihood, Sequence) else (self.likelihood,)
        for one in each:
            if isinstance(one, type) or getattr(one, "targets", None) != "binary":
                raise ValueError(
                    f"likelihood must be one of two classes, such as Logit() or Probit(), got {one!r}: each classifier "
                    "tells one class from the rest. Give one for all classes, or a sequence of one for each."
                )
        object.__setattr__(self, "likelihood", each if several else self.likelihood)
        if self.classes is None:
            return
        object.__setattr__(self, "classes", checked_classes(self.classes))
        self.of_each_class(len(self.classes))

    def of_each_class(self, n_classes: int) -> tuple[Likelihood, ...]:
        """Return the likelihood of each of C classifiers, or raise a ValueError if there are not as many."""
        if not isinstance(self.likelihood, Sequence):
            return (self.likelihood,) * n_classes
        if len(self.likelihood) != n_classes:
            raise ValueError(
                f"likelihood holds {len(self.likelihood)} likelihoods, and there are {n_classes} classes. Give one for "
                "each class, or a single one for all."
            )
        return tuple(self.likelihood)


def is_of_each_class(likelihood: object) -> bool:
    """Tell whether this is none itself, but says which likelihoods classifiers of one class against the rest have.

    The method ``of_each_class(n_classes)``, as `OneVsRest` has it.
    """
    return hasattr(likelihood, "of_each_class") and not isinstance(likelihood, type)
