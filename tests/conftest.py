"""What holds for every test: hypothesis is deterministic and knows no deadlines, since machines are shared.

`HYPOTHESIS_PROFILE=soak` (what `make soak` sets) looks further, and somewhere else each time.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("berth", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "berth"))
