"""What SIGUSR2 brings to light. Lines: pkg/scheduler/internal/cache/debugger, release-1.20."""

import asyncio
import logging
import os
import signal

import pytest

from berth.cli.run import _debug_on_signal
from berth.core.builders import make_node, make_pod
from berth.runtime.observing.cache_debugger import Mismatch, compare, differences, dump_nodes, dump_queue
from berth.runtime.observing.logs import level
from tests.runtime.world import World, scheduling
from tests.waiting import until


@pytest.mark.parametrize(
    ("actual", "cached", "missed", "redundant"),
    [
        ({"foo", "bar"}, {"bar", "foo", "foobar"}, [], ["foobar"]),
        ({"foo", "bar"}, {"bar", "foo"}, [], []),
        ({"foo", "bar"}, {"bar", "foobar"}, ["foo"], ["foobar"]),
        (set(), {"b", "a"}, [], ["a", "b"]),
    ],
)
def test_what_differs(actual, cached, missed, redundant):
    """comparer_test.go, TestCompareNodes."""
    assert compare(actual, cached) == Mismatch(missed, redundant)


@pytest.fixture
def world():
    world = World(nodes=2, cpu="1")
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    world.add_pod("others", schedulerName="another")
    return world


def is_settled(world):
    return world.node_of("web") and world.condition("big")


async def test_a_cache_in_order_has_no_differences(world):
    async with scheduling(world) as scheduler:
        await until(lambda: is_settled(world))
        await until(lambda: not scheduler.core.cache.assumed_count)
        assert list(differences(scheduler)) == []


async def test_missed_and_redundant_nodes_and_pods_are_told(world):
    async with scheduling(world) as scheduler:
        await until(lambda: is_settled(world) and not scheduler.core.cache.assumed_count)
        core = scheduler.core
        core.cache.remove_node("node-1")
        core.cache.put_node(make_node("ghost").capacity(cpu="1").build())
        core.cache.add_pod(make_pod("stale").uid("uid-of-stale").node("node-0").info())
        big = world.pod("big")["metadata"]["uid"]
        core.queue.delete(big)
        assert list(differences(scheduler)) == [
            "cache mismatch: missed nodes: [node-1]; redundant nodes: [ghost]",
            f"cache mismatch: missed pods: [{big}]; redundant pods: [uid-of-stale]",
        ]


async def test_the_dump_shows_nodes_with_their_pods_and_the_queue(world):
    async with scheduling(world) as scheduler:
        await until(lambda: is_settled(world) and not scheduler.core.cache.assumed_count)
        core, web = scheduler.core, world.pod("web")["metadata"]["uid"]
        core.nominator.nominate(make_pod("soon").uid("uid-of-soon").info(), "node-0")
        nodes = {text.splitlines()[1]: text for text in dump_nodes(core)}
        assert set(nodes) == {"Node name: node-0", "Node name: node-1"}
        text = nodes[f"Node name: {world.node_of('web')}"]
        assert "Deleted: false\nRequested Resources: &{MilliCPU:100 Memory:0 EphemeralStorage:0 " in text
        assert "\nAllocatable Resources:&{MilliCPU:1000 Memory:34359738368 " in text
        assert "AllowedPodNumber:110 ScalarResources:map[]}" in text
        assert f"Scheduled Pods(number: 1):\nname: web, namespace: default, uid: {web}, phase: " in text
        assert (
            "Nominated Pods(number: 1):\nname: soon, namespace: default, uid: uid-of-soon" in nodes["Node name: node-0"]
        )
        big = world.pod("big")["metadata"]["uid"]
        assert dump_queue(core) == f"name: big, namespace: default, uid: {big}, phase: Pending, nominated node: "


async def test_the_signal_brings_it_about(world, caplog):
    caplog.set_level(level(3), logger="berth.scheduler")
    async with scheduling(world) as scheduler:
        await until(lambda: is_settled(world))
        before = signal.getsignal(signal.SIGUSR2)
        _debug_on_signal(scheduler)
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
            await until(lambda: "Dump of scheduling queue:" in caplog.text)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR2)
            signal.signal(signal.SIGUSR2, before)
    messages = [record.getMessage().partition("\n")[0] for record in caplog.records if record.levelno <= logging.INFO]
    start = messages.index("cache comparer started")
    assert messages[start : start + 3] == [
        "cache comparer started",
        "cache comparer finished",
        "Dump of cached NodeInfo",
    ]
