"""Statements about numbers alone: that the drift may be left out of the model, and which clock a median is."""

import z3

NUMBERS = {}


def number(expected):
    def add(make):
        NUMBERS[make.__name__] = (expected, make)
        return make
    return add


def counted_too_long(allowance):
    """A client counts a ttl, less the drift and a rest, and a node's clock runs (1 + drift) times as fast at most."""
    ttl, drift, rest = z3.Reals("ttl drift rest")
    counts = ttl - (ttl * drift if allowance else 0) - rest
    return [ttl > 0, 0 < drift, drift < 1, rest >= 0, (1 + drift) * counts > ttl]


@number(z3.unsat)
def drift_allowance_is_enough():
    return counted_too_long(True)


@number(z3.sat)
def no_allowance_is_not():
    return counted_too_long(False)


@number(z3.unsat)
def what_is_kept_is_kept_for_long_enough():
    """A node that is told to keep the lock for a time and the drift of it keeps it for that time of the client's clock."""
    keep, drift, rest = z3.Reals("keep drift rest")
    return [keep > 0, 0 < drift, drift < 1, rest >= 0, keep + keep * drift + rest < (1 + drift) * keep]


@number(z3.unsat)
def a_quarantine_lasts_as_long_as_any_keep():
    """No keep is longer than max ttl; `longest` of the model is max ttl and its drift."""
    keep, drift, rest, most = z3.Reals("keep drift rest max_ttl")
    return [keep > 0, 0 < drift, drift < 1, rest >= 0, keep <= most, most + most * drift + rest < (1 + drift) * keep]


def median(known, ahead, behind):
    """The lower median of some clocks, of which so many may be ahead of all that are right, or behind, is not one of a right clock."""
    clocks, low, high = [z3.Real(f"clock{i}") for i in range(known)], z3.Real("low"), z3.Real("high")
    m, half = z3.Real("median"), (known + 1) // 2
    at_most = lambda conditions, most: z3.Sum([z3.If(c, 1, 0) for c in conditions]) <= most
    return [low <= high, at_most([c > high for c in clocks], ahead), at_most([c < low for c in clocks], behind),
            z3.Or([m == c for c in clocks]), z3.Not(at_most([c <= m for c in clocks], half - 1)),
            at_most([c < m for c in clocks], half - 1), z3.Or(m < low, m > high)]


@number(z3.unsat)
def half_may_be_ahead_and_fewer_behind():
    return [z3.Or([z3.And(median(known, known // 2, (known - 1) // 2)) for known in range(2, 8)])]


@number(z3.sat)
def of_two_clocks_one_that_is_behind_is_the_median():
    return median(2, 1, 1)


@number(z3.sat)
def a_fence_by_one_clock_follows_it():
    return median(1, 1, 0)
