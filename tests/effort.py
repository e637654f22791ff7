"""How far property tests look: `make test` less far than `make test-all`, which sets `HYPOTHESIS_PROFILE=all`."""

import os

SHARE = 3


def looks_everywhere():
    return os.environ.get("HYPOTHESIS_PROFILE", "") in ("all", "soak")


def examples(count):
    """So many examples in `make test-all`, and a third of them in `make test`."""
    return count if looks_everywhere() else max(1, count // SHARE)
