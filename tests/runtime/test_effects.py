"""Effects in, requests out, answers back."""

import asyncio
import random
from itertools import count

import pytest

from berth.api.errors import ApiError
from berth.core.builders import make_pod
from berth.framework.effects import (
    Answer,
    ApiCall,
    Bind,
    CallExtender,
    CallExtenders,
    EmitEvent,
    EvictPod,
    PatchPodStatus,
    PodRead,
    PodRef,
    ReadPod,
    Request,
)
from berth.kube.events import EventRecorder
from berth.runtime.acting.effects import BINDINGS_AT_ONCE, Effects
from berth.runtime.observing.call_timer import CallTimer
from berth.runtime.observing.metrics import Metrics
from tests.runtime.world import POD, World, at_once
from tests.waiting import settle, until


class SlowExtenders:
    """Extenders that answer when they are told to."""

    def __init__(self):
        self.may_answer = asyncio.Event()

    async def call_all(self, calls):
        await self.may_answer.wait()
        return ()

    async def close(self):
        pass


class Bench:
    def __init__(self, pods=1, extenders=None, metrics=None):
        self.world = World(nodes=1, cpu="1000")
        self.transport = self.world.transport
        self.pods = [PodRef("default", name, self._create(name)) for name in map("web-{}".format, range(pods))]
        self.answers, self.said, self.bugs, self.written = [], [], [], []
        self.shown = {pod: make_pod(pod.name).uid(pod.uid).build() for pod in self.pods}
        """The pods as the watch has shown them."""
        self.recorder = EventRecorder(self.transport, reporting_controller="berth", reporting_instance="berth-here")
        self.effects = Effects(
            self.transport, self.recorder, answer=self.answers.append, lookup=self.shown.get, report=self.said.append,
            bug=self.bugs.append, rng=random.Random(1), sleep=at_once, extenders=extenders,
            timer=CallTimer(metrics, count().__next__), pod_written=lambda: self.written.append(1),
        )  # fmt: skip

    def _create(self, name):
        return self.world.add_pod(name)["metadata"]["uid"]

    async def do(self, *effects):
        self.effects.carry_out(effects)
        writer = asyncio.create_task(self.recorder.run())
        assert await self.effects.drain(2) and await self.recorder.drain(2)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)


async def test_a_binding_is_answered_with_its_ticket():
    bench = Bench()
    await bench.do(Request(7, Bind(bench.pods[0], "node-0")))
    assert bench.answers == [Answer(7)]
    assert bench.world.node_of("web-0") == "node-0"


async def test_the_watch_of_pods_is_to_show_what_was_bound_and_evicted_and_nothing_else():
    bench = Bench(2)
    await bench.do(Request(1, ReadPod(bench.pods[0])), Request(2, ApiCall("get", "Node", "", "node-0")))
    assert not bench.written
    await bench.do(Request(3, Bind(bench.pods[0], "node-0")))
    assert len(bench.written) == 1
    await bench.do(Request(4, EvictPod(bench.pods[0], "preempting", bench.pods[1])))
    assert len(bench.written) == 2
    bench.transport.refuse("delete", ApiError(403, "Forbidden", "may not delete"))
    await bench.do(Request(5, EvictPod(bench.pods[1], "preempting", bench.pods[0])))
    assert len(bench.written) == 2


async def test_nothing_is_to_be_shown_that_the_watch_has_shown_before_the_answer():
    bench = Bench(3)
    bound, going, gone = bench.pods
    bench.shown[bound] = make_pod(bound.name).uid(bound.uid).node("node-0").build()
    bench.shown[going] = make_pod(going.name).uid(going.uid).terminating().build()
    del bench.shown[gone]
    await bench.do(Request(1, Bind(bound, "node-0")), Request(2, Bind(gone, "node-0")))
    await bench.do(*(Request(3 + i, EvictPod(pod, "preempting", bound)) for i, pod in enumerate((going, gone))))
    assert not bench.written


async def test_a_failed_binding_is_answered_with_why():
    bench = Bench()
    bench.transport.refuse("bind", ApiError(403, "Forbidden", "may not bind"))
    await bench.do(Request(7, Bind(bench.pods[0], "node-0")))
    assert (bench.answers[0].ticket, "may not bind" in bench.answers[0].error) == (7, True)


async def test_so_many_bindings_are_under_way_at_once():
    bench = Bench(BINDINGS_AT_ONCE + 10)
    gate = bench.transport.hold("bind")
    bench.effects.carry_out(Request(i, Bind(pod, "node-0")) for i, pod in enumerate(bench.pods))
    await until(lambda: bench.transport.count("bind") == BINDINGS_AT_ONCE)
    assert bench.effects.pending_bindings == BINDINGS_AT_ONCE + 10
    gate.set()
    assert await bench.effects.drain(5)
    assert len(bench.answers) == BINDINGS_AT_ONCE + 10


async def test_a_hundred_stuck_status_patches_do_not_delay_a_binding():
    bench = Bench(101)
    bench.transport.hold("patch")
    bench.effects.carry_out(PatchPodStatus(pod, "False", "Unschedulable", "no room") for pod in bench.pods[:100])
    bench.effects.carry_out([Request(1, Bind(bench.pods[100], "node-0"))])
    await until(lambda: bench.answers == [Answer(1)])
    await bench.effects.stop()


async def test_no_status_patch_lands_on_a_pod_that_is_bound():
    bench = Bench()
    gate = bench.transport.hold("patch")
    pod = bench.pods[0]
    bench.effects.carry_out([PatchPodStatus(pod, "False", "Unschedulable", "no room")])
    await until(lambda: bench.transport.count("patch"))
    bench.effects.carry_out([PatchPodStatus(pod, "False", "Unschedulable", "again"), Request(1, Bind(pod, "node-0"))])
    await settle()
    assert bench.transport.count("bind") == 0
    gate.set()
    assert await bench.effects.drain(2)
    assert bench.world.condition("web-0")["status"] == "True"


async def test_an_event_names_pod_profile_and_note():
    bench = Bench()
    effect = EmitEvent(bench.pods[0], "Warning", "FailedScheduling", "Scheduling", "no room", "my-profile")
    await bench.do(effect)
    (event,) = bench.world.events("FailedScheduling")
    assert (event["type"], event["action"], event["message"]) == ("Warning", "Scheduling", "no room")
    assert (event["involvedObject"]["name"], event["reportingComponent"]) == ("web-0", "my-profile")


async def test_an_evicted_pod_is_told_why_and_deleted():
    bench = Bench(2)
    victim, preemptor = bench.pods
    await bench.do(Request(3, EvictPod(victim, "default-scheduler: preempting", preemptor)))
    assert bench.answers == [Answer(3)]
    assert bench.transport.calls[:2] == [("patch", "pods"), ("delete", "pods")]


async def test_a_pod_of_the_victims_name_that_comes_while_it_is_evicted_stays():
    bench = Bench(2)
    victim, preemptor = bench.pods
    gate = bench.transport.hold("delete")
    bench.effects.carry_out([Request(3, EvictPod(victim, "preempting", preemptor))])
    await until(lambda: bench.transport.count("delete"))
    bench.world.store.delete(POD, "default", victim.name, {"gracePeriodSeconds": 0})
    newcomer = bench.world.add_pod(victim.name)
    gate.set()
    assert await bench.effects.drain(2)
    assert bench.answers == [Answer(3)]
    assert bench.world.pod(victim.name)["metadata"]["uid"] == newcomer["metadata"]["uid"]
    assert "deletionTimestamp" not in bench.world.pod(victim.name)["metadata"]


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_evicting_a_pod_that_is_gone_is_fine(is_replaced):
    bench = Bench(2)
    bench.world.store.delete(POD, "default", "web-0", {"gracePeriodSeconds": 0})
    if is_replaced:
        bench.world.add_pod("web-0")
    await bench.do(Request(3, EvictPod(bench.pods[0], "preempting", bench.pods[1])))
    assert bench.answers == [Answer(3)]


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_a_conflict_over_a_victim_that_is_still_there_is_a_failure(verb):
    """Taken for gone, it would stay, and whoever was to have its room would wait for its end for ever."""
    bench = Bench(2)
    bench.transport.refuse(verb, ApiError(409, "Conflict", "somebody was faster"))
    await bench.do(Request(3, EvictPod(bench.pods[0], "preempting", bench.pods[1])))
    assert [(answer.ticket, "somebody was faster" in answer.error) for answer in bench.answers] == [(3, True)]


async def test_any_other_call_gives_the_object_or_why_not():
    bench = Bench()
    good = ApiCall("patch", "Pod", "default", "web-0", {"status": {"reason": "Tried"}}, "status")
    await bench.do(Request(1, good), Request(2, ApiCall("get", "Pod", "default", "nobody")))
    by_ticket = {answer.ticket: answer for answer in bench.answers}
    assert by_ticket[1].result["status"]["reason"] == "Tried"
    assert "not found" in by_ticket[2].error


@pytest.mark.parametrize("odd", [b"<html>hello</html>", b'{"kind": "Po', b"\xff"])
async def test_an_answer_that_cannot_be_read_is_a_lost_answer_and_not_a_bug(odd):
    bench = Bench()
    bench.transport.lie("patch", odd, is_done=True)
    await bench.do(Request(1, ApiCall("patch", "Pod", "default", "web-0", {"status": {"reason": "Tried"}}, "status")))
    (answer,) = bench.answers
    assert answer.result is None and "the answer to patch Pod cannot be read" in answer.error
    assert not bench.bugs


async def test_where_a_pod_is():
    bench = Bench(3)
    free, bound, _ = bench.pods
    bench.world.store.bind("default", "web-1", {"target": {"name": "node-0"}, "metadata": {"name": "web-1"}})
    await bench.do(Request(1, ReadPod(free)), Request(2, ReadPod(bound)))
    await bench.do(
        Request(3, ReadPod(PodRef("default", "nobody", "u"))), Request(4, ReadPod(PodRef("default", "web-2", "u")))
    )
    found = {answer.ticket: answer.result for answer in bench.answers}
    assert (found[1].node_name, found[1].is_gone, found[1].pod.metadata.uid) == ("", False, free.uid)
    assert (found[2].node_name, found[2].pod.spec.node_name) == ("node-0", "node-0")
    assert found[3] == found[4] == PodRead(is_gone=True)


@pytest.mark.parametrize("odd", [b"", b"{}", b'{"kind":"Status"}'])
async def test_an_answer_that_is_no_pod_says_nothing_about_where_it_is(odd):
    bench = Bench()
    bench.transport.lie("get", odd, is_done=False)
    bench.transport.refuse("get")
    await bench.do(Request(1, ReadPod(bench.pods[0])))
    assert bench.answers[0].result is None and "cannot be read" in bench.answers[0].error


async def test_what_cannot_be_done_is_answered_too():
    bench = Bench()
    await bench.do(Request(2, ApiCall("dance", "Pod", "default", "web-0")))
    (answer,) = bench.answers
    assert answer.ticket == 2 and "dance" in answer.error
    assert len(bench.bugs) == 1


async def test_extenders_that_are_asked_for_scores_are_counted():
    extenders = SlowExtenders()
    bench = Bench(extenders=extenders)
    prioritizers = tuple(CallExtender(number, "prioritize", b"{}") for number in range(2))
    bench.effects.carry_out([Request(1, CallExtenders((*prioritizers, CallExtender(2, "filter", b"{}"))))])
    await until(lambda: bench.effects.prioritizing == 2)
    extenders.may_answer.set()
    assert await bench.effects.drain(2)
    assert bench.effects.prioritizing == 0
    assert [answer.ticket for answer in bench.answers] == [1]


async def test_calls_are_counted_by_type_and_result():
    """backend/api_dispatcher: async_api_call_execution; dynamicresources/extendeddynamicresources: claim creates."""
    metrics = Metrics()
    bench = Bench(2, metrics=metrics)
    claim = {"metadata": {"generateName": "web-0-"}, "spec": {"devices": {}}}
    await bench.do(
        Request(1, Bind(bench.pods[0], "node-0")),
        PatchPodStatus(bench.pods[1], "False", "Unschedulable", "no"),
        Request(2, ApiCall("create", "ResourceClaim", "default", "", claim)),
    )
    bench.transport.refuse("bind", ApiError(403, "Forbidden", "may not bind"))
    bench.transport.refuse("create", ApiError(403, "Forbidden", "may not create"))
    await bench.do(
        Request(3, Bind(bench.pods[1], "node-0")),
        Request(4, ApiCall("create", "ResourceClaim", "default", "", claim)),
    )
    for kind in ("pod_binding", "other"):
        assert metrics.api_calls.value((kind, "success")) == metrics.api_calls.value((kind, "error")) == 1
        assert metrics.api_call_duration.count((kind, "success")) == 1
    assert metrics.api_calls.value(("pod_status_patch", "success")) == 1
    assert metrics.claims.value(("success",)) == metrics.claims.value(("failure",)) == 1
