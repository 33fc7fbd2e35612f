"""The line search: the first fraction of a step that rises enough, rounding, and steps that never do."""

from __future__ import annotations

import math

import pytest

from bayesgp_mf.solvers.ascent import first_that_rises

SMALLEST = 2.0**-20


def search(rise, slope=1.0, terms=0.0, smallest=SMALLEST):
    """Return the fraction that was taken, and all that were tried."""
    tried = []

    def at(fraction):
        tried.append(fraction)
        return fraction, rise(fraction)

    return first_that_rises(at, slope, terms, smallest), tried


def test_a_whole_step_that_rises_is_taken():
    assert search(lambda fraction: fraction - 0.5 * fraction**2) == (1.0, [1.0])


def test_a_step_that_is_too_long_is_halved():
    # x - 2 x^2 is -1 at the whole step and 0 at a half, which is less than Armijo's part of the slope
    assert search(lambda fraction: fraction - 2.0 * fraction**2) == (0.25, [1.0, 0.5, 0.25])


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_what_is_no_rise_is_passed_over(value):
    assert search(lambda fraction: value if fraction > 0.3 else fraction)[0] == 0.25


def test_a_fall_that_rounding_explains_is_taken():
    def fall(fraction):
        return -1e-14

    assert search(fall, slope=1e-16, terms=1.0) == (1.0, [1.0])
    assert search(fall, slope=1e-16, terms=0.01)[0] is None


def test_downhill_there_is_nothing():
    taken, tried = search(lambda fraction: -fraction)
    assert taken is None
    assert tried == [2.0**-k for k in range(21)]
