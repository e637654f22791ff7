"""The exponential as Go's library has it on amd64, to the last bit.

Peaks cuts what it makes of two exponentials to a whole number of 10^-15 W, so the last bit may decide which node is
better. C's library, which NumPy asks, has another one in one of eight cases: Go uses another approximation, and for it
the processor's fused multiply-add, which every amd64 server has had for ten years.
"""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.69314718055966295651160180568695068359375, 0.28235290563031577122588448175013436e-12
"""ln 2 in two parts, so that a multiple of it can be taken off without loss."""
TAYLOR = tuple(1 / factorial for factorial in (40320, 5040, 720, 120, 24, 6, 2, 1))
LARGEST = 709.782712893384
"""Beyond this, the exponential is infinite."""
SMALLEST = -800.0
"""From here on, it is 0."""


def exponential(x: Floats) -> Floats:
    """Return e^x, float64 of the same shape.

    The argument is reduced by multiples of ln 2, then to a sixteenth, and a Taylor polynomial is squared back. Source:
    N. Shibata, "Efficient evaluation methods of elementary functions suitable for SIMD computation", 2010.
    """
    bounded = np.clip(x, SMALLEST, LARGEST)
    twos = np.rint(bounded * LOG2_E)
    rest = fused(-twos, LN2_LOW, fused(-twos, LN2_HIGH, bounded)) / 16
    series = np.full_like(rest, TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        series = fused(series, rest, coefficient)
    less_1 = series * rest
    for _ in range(3):
        less_1 = less_1 * (less_1 + 2)  # (1 + y)² - 1
    found = np.ldexp(fused(less_1, less_1 + 2, 1.0), np.minimum(twos, 1023).astype(np.int32))
    # Go's last step knows no larger power of two, though what it is multiplied with might leave it finite.
    return np.where((x > LARGEST) | (twos > 1023), inf, found)


def fused(a: Floats, b: Floats | float, c: Floats | float) -> Floats:
    """Return a·b + c, rounded once, as the instruction does; nothing may come near to overflow.

    Source: S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums", 2008. The product and the sums
    are kept whole, as a number and what its rounding has lost. What is lost is rounded to odd, so that the last
    rounding still sees on which side of a half it is.
    """
    high, low = _product(a, b)
    upper, left = _sum(c, low)
    total, lost = _sum(high, upper)
    small, rest = _sum(left, lost)
    is_even = (small.view(np.int64) & 1) == 0
    return total + np.where((rest != 0) & is_even, np.nextafter(small, np.copysign(inf, rest)), small)


def _sum(a: Floats | float, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Floats, b: Floats | float) -> tuple[Floats, Floats]:
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(a: Any) -> Any:
    scaled = 134217729.0 * a  # 2^27 + 1
    return scaled - (scaled - a)
