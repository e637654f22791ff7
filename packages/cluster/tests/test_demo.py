"""`berth demo`: ends by itself, soon, and tells where every pod went and why one did not."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import WAIT_S

BERTH = Path(sys.executable).with_name("berth")


def test_the_demo_places_what_fits_and_explains_what_does_not():
    ended = subprocess.run([BERTH, "demo"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert len(ended.stdout.splitlines()) < 100
    told = ended.stdout.partition("Where every pod went, and why\n")[2].splitlines()[1:-1]
    rows = {line.split()[0]: line.split()[1:] for line in told if not line.startswith(" ")}
    assert rows["training-urgent"] == ["gpu-6", "zone-a", "Running"]
    assert rows["training"] == ["none", "Pending"]
    assert rows["giant"] == ["none", "Pending"]
    zones = sorted(row[1] for name, row in rows.items() if name.startswith("web-"))
    assert zones == ["zone-a"] * 2 + ["zone-b"] * 2 + ["zone-c"] * 2
    databases = [row[0] for name, row in rows.items() if name.startswith("db-")]
    assert len(set(databases)) == 3
    assert {row[0] for name, row in rows.items() if name.startswith("cache-")} <= {"ssd-4", "ssd-5"}
    assert [row[2] for name, row in rows.items() if name.startswith("report-")] == ["Succeeded"] * 4
    giant = next(at for at, line in enumerate(told) if line.startswith("giant "))
    why = " ".join(line.strip() for line in told[giant + 1 : giant + 4])
    assert "0/7 nodes are available" in why
    assert "Insufficient cpu" in why
