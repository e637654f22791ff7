"""Quantities as the API server writes them: `1000m` is `1`, `0.5Gi` is `512Mi`.

Called for every quantity in a body. A canonical form has a suffix of the kind that was given.
"""

import re
from functools import lru_cache

from berth.api import quantity
from berth.api.quantity import Quantity, QuantityError, parse

_EXPONENT = re.compile(r"\d[eE][+-]?\d")


@lru_cache(maxsize=65536, typed=True)
def canonical(given: Quantity) -> str:
    """The quantity in its canonical form; raises `QuantityError`."""
    text = str(given).strip()
    if not text:
        raise QuantityError("a quantity may not be empty")
    is_exponential = _EXPONENT.search(text) is not None
    return quantity.canonical(parse(text), is_binary=text.endswith("i"), is_exponential=is_exponential)
