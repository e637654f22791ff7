"""The beta distribution: how likely is it that a share between 0 and 1, of which mean and deviation are known, stays
below a threshold?

The distribution is fitted by its first two moments. Its distribution function is the regularized incomplete beta
function, here by Lentz's evaluation of the continued fraction (Abramowitz and Stegun, 26.5.8), for many nodes at once.
"""

from math import lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_TERMS = 20_000
PRECISION = 1e-15
TINY = 1e-300
FEW = 8
"""Up to so many values are worked out one by one."""

_LOG_GAMMA = np.vectorize(lgamma, otypes=[np.float64])


class Fitted(NamedTuple):
    """Distributions, float64 (nodes,): their shapes, and which of them there are."""

    alpha: Floats
    beta: Floats
    is_there: Mask


def largest_variance(mean: Floats) -> Floats:
    """Return the variance that a distribution of this mean stays below, float64 (nodes,)."""
    return np.where((mean > 0) & (mean < 1), mean * (1 - mean), 0.0)


def fitted(mean: Floats, deviation: Floats) -> Fitted:
    """Return the distributions of these means and deviations; there is none where both do not go together."""
    variance = deviation * deviation + mean * mean - mean * mean
    spread = mean * (1 - mean)
    is_there = (mean >= 0) & (mean <= 1) & (variance > 0) & (variance < spread)
    size = np.maximum(spread / np.where(is_there, variance, 1.0) - 1, np.finfo(np.float64).tiny)
    return Fitted(np.where(is_there, mean * size, 1.0), np.where(is_there, (1 - mean) * size, 1.0), is_there)


def probability_below(threshold: Floats, distributions: Fitted) -> Floats:
    """Return how likely a value of at most the threshold is, in their shape; 0 where there is no distribution.

    Several thresholds may go with each distribution: float64 (thresholds, …) with distributions of the shape (…).
    """
    alpha, beta, _ = distributions
    inside = distributions.is_there & (threshold > 0) & (threshold < 1)
    x = np.where(inside, threshold, 0.5)
    # The fraction converges fast below the mean; above it the function of the other end is taken.
    is_upper = x > (alpha + 1) / (alpha + beta + 2)
    a, b, x = np.where(is_upper, beta, alpha), np.where(is_upper, alpha, beta), np.where(is_upper, 1 - x, x)
    log_front = _LOG_GAMMA(a + b) - _LOG_GAMMA(a) - _LOG_GAMMA(b) + a * np.log(x) + b * np.log1p(-x)
    lower = np.exp(log_front) * _fraction(a, b, x) / a
    found = np.where(is_upper, 1 - lower, lower).clip(0, 1)
    found = np.where(threshold >= 1, 1.0, np.where(threshold <= 0, 0.0, found))
    return np.where(distributions.is_there, found, 0.0)


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the continued fraction until it changes no more."""
    if x.size <= FEW:
        each = zip(a.ravel().tolist(), b.ravel().tolist(), x.ravel().tolist(), strict=True)
        return np.array([_fraction_of_one(*one) for one in each]).reshape(x.shape)
    c = np.ones_like(x)
    d = 1 / _not_0(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for term in range(1, MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        d = 1 / _not_0(1 + even * d)
        c = _not_0(1 + even / c)
        value = value * d * c
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        d = 1 / _not_0(1 + odd * d)
        c = _not_0(1 + odd / c)
        change = d * c
        value = value * change
        if (np.abs(change - 1) < PRECISION).all():
            break
    return value


def _fraction_of_one(a: float, b: float, x: float) -> float:
    """Do the same for one: a step is many times cheaper than one for an array."""
    c, d = 1.0, 1 / _one_not_0(1 - (a + b) * x / (a + 1))
    value = d
    for term in range(1, MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        d = 1 / _one_not_0(1 + even * d)
        c = _one_not_0(1 + even / c)
        value = value * d * c
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        d = 1 / _one_not_0(1 + odd * d)
        c = _one_not_0(1 + odd / c)
        change = d * c
        value *= change
        if abs(change - 1) < PRECISION:
            break
    return value


def _one_not_0(number: float) -> float:
    return TINY if abs(number) < TINY else number


def _not_0(numbers: Floats) -> Floats:
    return np.where(np.abs(numbers) < TINY, TINY, numbers)
