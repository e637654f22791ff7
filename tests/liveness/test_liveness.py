"""Without the flush, whatever happens, every pod that could run does run; the long form is left to `make soak`.

After each thing that happens the invariants are checked, nobody lies among the unschedulable who fits a node, and what
is remembered equals what a scheduler would work out that sees the cluster for the first time.
"""

import pytest

from tests.liveness.checks import check_everything, check_liveness, check_memory, is_quiet, waits_in_vain
from tests.liveness.life import Life


@pytest.mark.parametrize("seed", range(3))
def test_every_pod_that_could_run_does_run(seed):
    live(seed, 200, memory_every=10)


def test_every_pod_that_could_run_does_run_where_all_crowd_one_another_out():
    life = live(8, 300, memory_every=20, crowded=True)
    assert life.cluster.core.evictions.searches > 50
    assert any("in kube-scheduler memory" in note for note in life.cluster.events("Preempted")), "none was being bound"
    assert life.refused_evictions > 0
    told = life.cluster.events("FailedScheduling")
    assert any("another scheduler's pod took the room" in note for note in told), "none was called off"


def live(seed, things, memory_every=1, *, crowded=False):
    """One life of so many things that happen, and its end; memory is slow to check, so not always after each."""
    life = Life(seed, crowded=crowded)
    for number in range(things):
        life.happen()
        check_liveness(life)
        if number % memory_every == 0:
            check_memory(life)
    life.settle()
    check_everything(life)
    core = life.cluster.core
    assert is_quiet(core)
    assert not waits_in_vain(core)
    assert core.unfinished == 0
    return life
