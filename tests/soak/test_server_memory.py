"""The embedded server needs no more memory after an hour of a busy cluster than after a quarter of it."""

import json
import subprocess
import sys

from tests.paths import ROOT
from tests.soak.server_churn import HOUR_S, MEASURED


def test_memory_is_flat_over_an_hour():
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.server_churn", "7", str(HOUR_S)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["writes"] > 10 * HOUR_S
    shown = [f"{size / 2**20:.1f}" for size in told["memory"]]
    # Quarters are compared, since the cluster is now larger and now smaller; the first one fills the history.
    quarter = MEASURED // 4
    _, second, *later = [
        sum(told["memory"][start : start + quarter]) / quarter for start in range(0, MEASURED, quarter)
    ]
    assert all(mean <= 1.05 * second for mean in later), f"MiB at each twentieth of the hour: {shown}"
