"""Without the flush, whatever happens, every pod that could run does run; the long form is left to `make soak`.

After each thing that happens the invariants are checked, nobody lies among the unschedulable who fits a node, and what
is remembered equals what a scheduler would work out that sees the cluster for the first time.
"""

import pytest

from tests.liveness.checks import check_everything, is_quiet, waits_in_vain
from tests.liveness.life import Life


@pytest.mark.parametrize("seed", range(3))
def test_every_pod_that_could_run_does_run(seed):
    live(seed, 250)


def live(seed, things):
    """One life of so many things that happen, and its end."""
    life = Life(seed)
    for _ in range(things):
        life.happen()
        check_everything(life)
    life.settle()
    check_everything(life)
    core = life.cluster.core
    assert is_quiet(core)
    assert not waits_in_vain(core)
    assert not len(core.waiting) + len(core._parked) + len(core._waits) + len(core._inbox)
