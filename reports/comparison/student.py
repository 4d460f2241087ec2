"""Student's t: how far out one value in a hundred lies, on both sides together, for any degrees of freedom."""

import math
import statistics
from functools import lru_cache

_TAIL = 0.005  # on each side
_NORMAL = statistics.NormalDist().inv_cdf(1 - _TAIL)
_AS_NORMAL = 1e7  # degrees of freedom from which it is the normal distribution's, to seven digits
_EXACT = 1e-12


@lru_cache(maxsize=4096)
def quantile(freedom: float) -> float:
    """The t that a fraction _TAIL lies above, for 1 degree of freedom or more.

    Newton's method from the normal distribution's, which is below: the tail is convex, so no step goes too far.
    """
    v = max(freedom, 1.0)
    if v >= _AS_NORMAL:
        return _NORMAL
    found = _NORMAL
    scale = math.exp(math.lgamma((v + 1) / 2) - math.lgamma(v / 2)) / math.sqrt(v * math.pi)
    for _ in range(100):
        density = scale * math.exp(-(v + 1) / 2 * math.log1p(found * found / v))
        further = (_above(found, v) - _TAIL) / density
        found += further
        if abs(further) <= _EXACT * found:
            break
    return found


def _above(t: float, v: float) -> float:
    """Which part lies above t: half the incomplete beta function I(v/2, 1/2) at v / (v + t^2) (NIST's DLMF, 8.17)."""
    a, b, x = v / 2, 0.5, v / (v + t * t)
    power = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - a * math.log1p(t * t / v) - b * math.log1p(v / (t * t))
    )
    if x < (a + 1) / (a + b + 2):
        return power * _fraction(a, b, x) / a / 2
    return (1 - power * _fraction(b, a, 1 - x) / b) / 2


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), from the front by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + term * d) or tiny)
            c = (1 + term / c) or tiny
            found *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return found
