"""PreBind plugins that follow one another and allow it run at the same time."""

import pytest

from berth.framework.effects import ApiCall, WaitUntil, call
from berth.framework.interface import PreBindPreFlightResult
from berth.framework.status import SKIP, error, unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, node, plugin, pod

BESIDE = PreBindPreFlightResult(allow_parallel=True)
NEVER = 1e6


class Work:
    """Plugins of which each notes when its PreBind begins and ends; a wait ends when its name is among `ready`."""

    def __init__(self, **plugins):
        """By name, what PreBindPreFlight answers, and what PreBind answers in the end."""
        self.story, self.ready = [], set()
        self.plugins = {name: self._plugin(name, *answers) for name, answers in plugins.items()}

    def _plugin(self, name, pre_flight, answer=None):
        def pre_bind(*_):
            self.story.append(f"{name} begins")
            try:
                yield WaitUntil(lambda: name in self.ready, NEVER)
            except BaseException as called_off:
                self.story.append(f"{name} is called off: {called_off}")
                raise
            if isinstance(answer, Exception):
                raise answer
            self.story.append(f"{name} ends")
            return answer

        return plugin(name, pre_bind_pre_flight=lambda *_: pre_flight, pre_bind=pre_bind)

    def cluster(self):
        config = document(*self.plugins)
        found = cluster(
            node(cpu="4"), config=config, plugins=self.plugins, gates={"NominatedNodeNameForExpectation": True}
        )
        found.answer_api = None
        found.put(pod("a"))
        found.run()
        return found

    def end(self, found, *names):
        """Let these waits end."""
        self.ready.update(names)
        found.run()
        check(found.core)


def test_plugins_that_allow_it_run_at_the_same_time():
    work = Work(A=(BESIDE,), B=(BESIDE,))
    found = work.cluster()
    assert work.story == ["A begins", "B begins"]
    work.end(found, "B")
    assert found.nodes_of()["a"] == ""
    work.end(found, "A")
    assert work.story[2:] == ["B ends", "A ends"]
    assert found.nodes_of()["a"] == "n1"


@pytest.mark.parametrize("answer", [None, PreBindPreFlightResult()])
def test_others_run_one_after_the_other(answer):
    work = Work(A=(BESIDE,), B=(BESIDE,), C=(answer,), D=(BESIDE,), E=(BESIDE,))
    found = work.cluster()
    assert work.story == ["A begins", "B begins"]
    work.end(found, "A", "B")
    assert work.story[4:] == ["C begins"]
    work.end(found, "C")
    assert work.story[6:] == ["D begins", "E begins"]
    work.end(found, "D", "E")
    assert found.nodes_of()["a"] == "n1"


def test_a_plugin_that_skips_parts_nobody():
    work = Work(A=(BESIDE,), B=(SKIP,), C=(BESIDE,))
    found = work.cluster()
    assert work.story == ["A begins", "C begins"]
    work.end(found, "A", "C")
    assert found.nodes_of()["a"] == "n1"


def test_plugins_that_do_not_say_they_allow_it_run_one_after_the_other():
    work = Work(A=(None,), B=(None,))
    found = work.cluster()
    assert work.story == ["A begins"]
    work.end(found, "A", "B")
    assert work.story == ["A begins", "A ends", "B begins", "B ends"]
    assert found.nodes_of()["a"] == "n1"


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (unschedulable("no room"), "no room"),
        (error("no luck"), 'running PreBind plugin "B": no luck'),
        (ValueError("no idea"), 'running PreBind plugin "B": ValueError: no idea'),
    ],
)
def test_where_one_fails_the_others_are_called_off_and_waited_for(failure, message):
    work = Work(A=(BESIDE,), B=(BESIDE, failure), C=(BESIDE,))
    found = work.cluster()
    work.end(found, "B")
    called_off = [f"{name} is called off: another PreBind plugin has failed" for name in "AC"]
    assert [line for line in work.story if "called off" in line] == called_off
    assert found.nodes_of()["a"] == ""
    assert found.patches("a")[-1].message.startswith(message)
    assert found.core.cache.state_of("default/a") is None


def test_one_that_fails_at_once_keeps_those_after_it_from_starting():
    refusing = plugin("B", pre_bind_pre_flight=lambda *_: BESIDE, pre_bind=lambda *_: unschedulable("no"))
    work = Work(A=(BESIDE,), C=(BESIDE,))
    work.plugins = {"A": work.plugins["A"], "B": refusing, "C": work.plugins["C"]}
    found = work.cluster()
    assert work.story == ["A begins", "A is called off: another PreBind plugin has failed"]
    assert found.patches("a")[-1].message == "no"


def test_a_pod_that_goes_calls_all_of_them_off_before_anything_is_undone():
    work = Work(A=(BESIDE,), B=(BESIDE,))
    undone = plugin("R", reserve=lambda *_: None, unreserve=lambda *_: work.story.append("undone"))
    work.plugins["R"] = undone
    found = work.cluster()
    found.delete("Pod", "default/a")
    found.run()
    assert [line.partition(":")[0] for line in work.story[2:]] == ["A is called off", "B is called off", "undone"]
    assert found.core.unfinished == 0
    check(found.core)


class Writing:
    """A plugin whose PreBind makes so many writes, one after the other; `heard` are the answers that it was given."""

    def __init__(self, writes):
        self.heard = []

        def pre_bind(*_):
            for number in range(writes):
                answer = yield from call(ApiCall("patch", "ResourceClaim", "default", f"c{number}"))
                self.heard.append(answer.result)

        self.plugin = plugin("W", pre_bind=pre_bind)

    def under_way(self, **options):
        found = cluster(node(cpu="4"), config=document("W"), plugins={"W": self.plugin}, **options)
        found.answer_api = None
        found.put(pod("a"))
        return found.run()


@pytest.mark.parametrize("writes", [1, 2])
def test_a_write_under_way_is_heard_of_before_the_pod_is_called_off(writes):
    """Otherwise what was written counts as free until the watch brings it, and another pod is given it as well."""
    work = Writing(writes)
    found = work.under_way()
    [write] = found.requests
    found.core.call_off("somebody needs the room", 1.0)
    found.run()
    assert found.core.cache.state_of("default/a") is not None, "its room was given away before the answer came"
    found.answer(write, result="written")
    found.run()
    check(found.core)
    assert work.heard == ["written"]
    assert found.requests == [], "what was called off asked for more"
    assert found.nodes_of()["a"] == ""
    assert "somebody needs the room" in found.patches("a")[-1].message
    assert found.core.cache.state_of("default/a") is None


def test_a_pod_that_is_called_off_can_be_bound_the_next_time():
    work = Writing(1)
    found = work.under_way()
    found.core.call_off("somebody needs the room", 1.0)
    found.run()
    found.answer(found.requests[0], result="written")
    found.advance(20)
    found.answer(found.requests[-1], result="again")
    found.run()
    assert found.nodes_of()["a"] == "n1"
