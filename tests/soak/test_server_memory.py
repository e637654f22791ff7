"""The embedded server needs no more memory after an hour of a busy cluster than after a quarter of it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.soak.server_churn import HOUR_S, MEASURED

ROOT = Path(__file__).parent.parent.parent


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
    settled = told["memory"][MEASURED // 4 - 1 :]
    shown = [f"{size / 2**20:.1f}" for size in told["memory"]]
    # The trend counts, not the height of single waves: the last quarter against the second one.
    quarter = MEASURED // 4
    early, late = sum(settled[:quarter]) / quarter, sum(settled[-quarter:]) / quarter
    assert late <= 1.05 * early, f"MiB at each twentieth of the hour: {shown}"
    assert max(settled) <= 1.05 * settled[0], f"MiB at each twentieth of the hour: {shown}"
