"""The live scheduler, recorded while it works on its thread: what is replayed is what it did."""

import asyncio

import msgspec

from berth.api.errors import ApiError
from berth.plugins.registry import in_tree_registry
from berth.recording.file_format import read_segments
from berth.recording.recorder import Recorder
from berth.runtime.turns import CoreThread
from berth_workbench.replay.verification import verify
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import until
from tests.workbench.replay.histories import LIMIT, no_report


def test_a_live_scheduler_is_replayed_through_reloads_refusals_and_a_restart(tmp_path):
    world = World(nodes=3, cpu="1")

    async def first():
        recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
        recorder.start()
        async with scheduling(world, build=recorder.build_core, runner=CoreThread()) as scheduler:
            for number in range(12):
                world.add_pod(f"p{number}", cpu="250m")
            await until(lambda: len(world.accepted()) == 12)
            world.transport.refuse("bind", ApiError(409, "Conflict", "the object has been modified"))
            world.add_pod("too-large", cpu="2")
            await until(lambda: world.condition("too-large"))
            await scheduler.reconfigure(msgspec.structs.replace(configuration(), pod_max_backoff_s=2))
            world.add_nodes(1, cpu="4", first=3)
            await until(lambda: world.node_of("too-large"))
        recorder.close()

    async def second():
        recorder = Recorder(tmp_path, limit=LIMIT, report=no_report)
        recorder.start()
        async with scheduling(world, build=recorder.build_core, runner=CoreThread()):
            world.add_pod("late", cpu="100m")
            await until(lambda: world.node_of("late"))
        recorder.close()

    asyncio.run(first())
    asyncio.run(second())
    headers = [segment.header for segment in read_segments(tmp_path)]
    assert [header.begins for header in headers] == ["start", "reload", "start"]
    assert [header.config["pod_max_backoff_s"] for header in headers] == [10, 2, 10]
    found = verify(read_segments(tmp_path), in_tree_registry())
    assert found.first_difference is None
    assert found.replayed == found.events
    assert found.bindings >= 14
