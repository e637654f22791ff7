"""Numbers of pods that may be given as percentages, as minAvailable, maxUnavailable and maxSurge are.

Upstream: GetScaledValueFromIntOrPercent in apimachinery/pkg/util/intstr.
"""

IntOrPercent = int | str
"""A number, or a percentage such as `25%`."""


def scaled(given: IntOrPercent, total: int, *, round_up: bool) -> int:
    """Return a number of pods of `total`; what cannot be read is none."""
    if isinstance(given, int):
        return given
    percent = given.removesuffix("%")
    if not percent.isdecimal():
        return 0
    # In whole numbers: -(-a // b) is a / b rounded up, for any size.
    return -(-int(percent) * total // 100) if round_up else int(percent) * total // 100
