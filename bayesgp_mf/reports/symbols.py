"""What the letters in a formula mean, in the words of the parameters that a user gave."""

from __future__ import annotations

import inspect
import re

_OF_PARAMETERS = (
    ("variance", r"v_0", "v\N{SUBSCRIPT ZERO} is the variance"),
    ("noise_variance", r"v", "v is the noise variance"),
    ("flip", r"\\kappa", "\N{GREEK SMALL LETTER KAPPA} is flip, the probability that a label is wrong"),
    ("lengthscale", r"r", "r is the distance of two cases in length scales"),
    ("lengthscale", r"\\ell", "\N{SCRIPT SMALL L} is the length scale"),
    ("period", r"p", "p is the period"),
    ("shape", r"a", "a is the shape"),
    ("weight", r"w", "w is the weight of an input"),
    ("offset", r"b", "b is the offset"),
    ("bias", r"b", "b is the bias"),
    ("degree", r"k", "k is the degree"),
    ("activation", r"c", "c is 1, and 0 with activation='sign'"),
    ("trials", r"n", "n is the number of trials"),
    ("scale", r"s", "s is the scale"),
    ("df", r"\\nu", "\N{GREEK SMALL LETTER NU} is df, the degrees of freedom"),
    ("dispersion", r"r", "r is the dispersion"),
    ("cuts", r"c", "c are the cuts"),
)
"""Parameter, the pattern of its letter, and what is said of it: a letter may mean another thing elsewhere."""
_COMMON = (
    (r"\\sum_l", "l counts the inputs"),
    (r"\\Phi", "\N{GREEK CAPITAL LETTER PHI} is the distribution function of a standard normal variable"),
    (r"\\sigma", "\N{GREEK SMALL LETTER SIGMA} is the logistic function"),
    (r"\\Gamma", "\N{GREEK CAPITAL LETTER GAMMA} is the gamma function"),
)


def symbols(thing: object, latex: str) -> list[str]:
    r"""Return what the letters in the formula of a kernel or a likelihood mean, a clause for each.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> symbols(bgp.kernels.Gaussian(), r"v_0 \exp(-r^2 / 2)")
    ['v₀ is the variance', 'r is the distance of two cases in length scales']
    """
    parameters = inspect.signature(type(thing)).parameters
    own = [text for name, pattern, text in _OF_PARAMETERS if name in parameters and _has(latex, pattern)]
    return own + [text for pattern, text in _COMMON if _has(latex, pattern)]


def _has(latex: str, pattern: str) -> bool:
    """Tell whether a formula has a letter, which is no part of a command, of a word, or of another symbol."""
    return re.search(rf"(?<![A-Za-z\\]){pattern}(?![A-Za-z])(?!_0)", latex) is not None
