"""What a core's cycles leave in the log. Lines: pkg/scheduler/scheduler.go, factory.go, core/generic_scheduler.go and
internal/cache/cache.go of release-1.20."""

import logging
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from berth.core.builders import make_pod
from berth.framework.status import Code, Status
from berth.runtime.observing.cycle_log import SHORT_CIRCUITED, SchedulerLog, slow_cycle_lines
from berth.runtime.observing.logs import as_text, level
from packages.scheduler.tests.support import BOOM, boom, cluster, document, node, plugin, pod

V1_20 = "v1.20"


@pytest.fixture
def lines(caplog):
    """The lines logged so far, with their verbosity."""
    caplog.set_level(level(10), logger="berth.scheduler")

    def seen(verbosity=None):
        return [
            as_text(record)
            for record in caplog.records
            if verbosity is None or record.levelno == logging.INFO - verbosity
        ]

    return seen


def logged(*objects, generation=V1_20, **options):
    return cluster(*objects, generation=generation, instrument=SchedulerLog(), **options)


def test_a_pod_that_is_bound(lines):
    logged(node(), node("n2"), node("full", cpu="0"), pod("a")).run()
    assert lines(3) == ['"Attempting to schedule pod" pod="default/a"']
    (bound,) = lines(2)
    assert bound.startswith('"Successfully bound pod to node" pod="default/a" node="n')
    assert bound.endswith('" evaluatedNodes=3 feasibleNodes=2')
    assert lines(5) == [SHORT_CIRCUITED], "one node was ruled out"


def test_pods_that_are_not(lines):
    logged(pod("early")).run()
    logged(node(cpu="1"), pod("big", cpu="2")).run()
    odd = plugin("Odd", filter=boom)
    logged(node(), pod("odd"), plugins={"Odd": odd}, config=document("Odd")).run()
    early, big = lines(2)
    in_full, error = lines(logging.INFO - logging.ERROR)  # klog.ErrorS in factory.go: whatever the verbosity
    assert in_full.startswith(f"plugin Odd broke in filter: {BOOM}")
    assert early == ('"Unable to schedule pod; no nodes are registered to the cluster; waiting" pod="default/early"')
    assert big.startswith('"Unable to schedule pod; no fit; waiting" pod="default/big" err="0/1 nodes are available')
    assert error.startswith('"Error scheduling pod; retrying" err="')
    assert error.endswith(' pod="default/odd"')


def test_a_pod_that_permit_holds(lines):
    waits = plugin("Wait", permit=lambda *_: (Status(Code.WAIT), 10.0))
    found = logged(node(), plugins={"Wait": waits}, config=document("Wait"))
    found.put(pod("a"))
    found.run()
    assert lines(4) == ['one or more plugins asked to wait and no plugin rejected pod "a"']
    found.advance(11.0)
    assert '"Error scheduling pod; retrying" err="' in lines(2)[0]


def test_what_a_sweep_finds(lines):
    found = logged(node(), pod("a"))
    found.answers_binds, found.confirms_binds = False, False
    found.advance(3.0)
    found.step()
    assert "Couldn't expire cache for pod default/a. Binding is still in progress." in lines(3)
    found.answer(found.requests[0])
    found.advance(40.0)
    assert "Pod default/a expired" in lines(-10)


def test_todays_generation_does_not_tell_every_score(lines):
    logged(node(), node("n2"), pod("a"), generation="v1.36").run()
    assert lines(10) == lines(5) == []
    assert len(lines(2)) == 1


class Ticking:
    """A stopwatch that shows the next of these times each time it is looked at."""

    def __init__(self, *times):
        self.times = list(times)

    def __call__(self):
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]


def decision(*laps, started=10.0):
    return SimpleNamespace(pod=make_pod("slow").info(), started=started, laps=laps, attempts=1)


def test_the_steps_of_a_slow_cycle_that_took_their_share_are_told():
    """k8s.io/utils/trace: 100 ms over three parts make a threshold of 33 ms for each of two steps."""
    laps = ("Basic checks done", 10.002), ("Computing predicates done", 10.122)
    ended = datetime(2020, 12, 8, 10, 0, 1, 0, UTC)
    first, step, end = slow_cycle_lines(decision(*laps), 0.150, ended=ended)
    number = first.removeprefix("Trace[").partition("]")[0]
    assert first == (
        f'Trace[{number}]: "Scheduling" namespace:default,name:slow (08-Dec-2020 10:00:00.850) (total time: 150ms):'
    )
    assert step == f'Trace[{number}]: ---"Computing predicates done" 120ms (10:00:00.972)'
    assert end == f"Trace[{number}]: [150.000000ms] [150.000000ms] END"
    in_full = list(slow_cycle_lines(decision(*laps), 0.150, in_full=True, ended=ended))
    assert in_full[1] == f'Trace[{number}]: ---"Basic checks done" 2ms (10:00:00.852)'


@pytest.mark.parametrize(("seconds", "is_told"), [(0.099, False), (0.1, True)])
def test_only_cycles_of_100_ms_and_more_are_slow(seconds, is_told):
    assert bool(list(slow_cycle_lines(decision(), seconds))) == is_told


def test_the_steps_of_a_cycle_have_upstreams_names(lines):
    found = logged(node(), node("n2"), stopwatch=Ticking(*(0.2 * number for number in range(50))))
    found.put(pod("a"))
    found.run()
    steps = [line.split('"')[1] for line in lines(0) if "---" in line]
    assert steps == [
        "Basic checks done",
        "Snapshotting scheduler cache and node infos done",
        "Running prefilter plugins done",
        "Computing predicates done",
        "Running prescore plugins done",
        "Prioritizing done",
    ]
