"""What shadows would have decided and how plugins are doing: metrics, debug endpoints, readiness, the log.

Expectations are those of docs/living-with-plugins.md.
"""

from contextlib import asynccontextmanager

from berth.cli.explain_output import show_shadows
from berth.cli.output import console_for
from berth.framework.registry import Registry
from berth.plugin import unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.metrics import Metrics
from tests.runtime.test_serving import served
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import until


class Shut:
    name = "Shut"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return unschedulable("closed for today")


class Flaky:
    name = "Flaky"
    optional = True

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        raise ValueError("boom")


REGISTRY = in_tree_registry().merge(Registry({"Shut": Shut, "Flaky": Flaky}, "the test"))


def profile(name, *enabled, **more):
    return {"schedulerName": name, "plugins": {"multiPoint": {"enabled": [{"name": one} for one in enabled]}}, **more}


@asynccontextmanager
async def at_work(world, *profiles):
    config, metrics = configuration(profiles=list(profiles)), Metrics()
    async with scheduling(world, config, registry=REGISTRY, instrument=metrics) as scheduler:
        metrics.observe(scheduler)
        async with served(scheduler, metrics, config) as client:
            yield client


async def test_a_shadow_is_counted_and_served(capsys):
    world = World(nodes=2, cpu="8")
    shadow = profile("next", "Shut", shadow={"of": "default-scheduler", "percentage": 100})
    async with at_work(world, profile("default-scheduler"), shadow) as client:
        for number in range(3):
            world.add_pod(f"p{number}")
        await until(lambda: len(world.accepted()) == 3)
        _, text = await client.text("/metrics")
        labels = 'kind="fitsNoMore",profile="default-scheduler",shadow="next"'
        assert f"berth_shadow_decisions_total{{{labels}}} 3.0" in text
        assert 'berth_shadow_differences_total{kind="fitsNoMore",plugin="Shut",shadow="next"} 3.0' in text
        status, found = await client.json("/debug/shadows")
        (report,) = found["shadows"]
        assert (status, report["shadow"], report["of"], report["decisions"]) == (200, "next", "default-scheduler", 3)
        assert report["kinds"] == {"fitsNoMore": 3}
        assert report["causes"] == [{"kind": "fitsNoMore", "plugin": "Shut", "decisions": 3}]
        assert [each["pod"] for each in report["differences"]] == ["default/p2", "default/p1", "default/p0"]
        assert report["differences"][0]["why"] == "0/2 nodes are available: 2 closed for today."
        _, about_one = await client.json("/debug/shadows?pod=default/p1")
        assert [each["pod"] for each in about_one["shadows"][0]["differences"]] == ["default/p1"]
        show_shadows(found, console_for("wide"), [])
        told = capsys.readouterr().out
        assert "next, the shadow of default-scheduler for 100 % of its pods: 3 of 3 decisions would have been" in told
        assert "3 no longer fit (because of Shut 3)" in told
        assert "because of Shut: 0/2 nodes are available: 2 closed for today." in told


async def test_a_plugin_that_is_left_out_is_told_everywhere(caplog):
    world = World(nodes=2, cpu="8")
    async with at_work(world, profile("default-scheduler", "Flaky")) as client:
        assert "[+]plugins ok\n" in (await client.text("/readyz?verbose"))[1]
        for number in range(6):
            world.add_pod(f"p{number}")
        await until(lambda: len(world.accepted()))
        assert (
            'berth_plugin_out_total{plugin="Flaky",profile="default-scheduler"} 1.0'
            in (await client.text("/metrics"))[1]
        )
        calls = 'berth_plugin_node_calls_total{extension_point="Filter",plugin="Flaky",profile="default-scheduler"}'
        assert f"{calls} 10.0" in (await client.text("/metrics"))[1], "on two nodes in five attempts"
        status, text = await client.text("/readyz?verbose")
        assert status == 200, "that a plugin is out does not make the scheduler unready"
        assert "[+]plugins ok: going without plugin Flaky of profile default-scheduler: ValueError: boom (" in text
        (report,) = (await client.json("/debug/plugins"))[1]["plugins"]
        assert (report["plugin"], report["state"]) == ("Flaky", "out")
        assert (report["calls"], report["failures"], report["timesOut"]) == (5, 5, 1)
        assert report["until"]
    told = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(
        "plugin Flaky of profile default-scheduler is left out: it has failed in 5 of 5 attempts that called it"
    )


async def test_without_shadows_and_optional_plugins_there_is_nothing_to_tell():
    world = World(nodes=1)
    async with at_work(world, profile("default-scheduler")) as client:
        assert await client.json("/debug/shadows") == (200, {"shadows": []})
        assert await client.json("/debug/plugins") == (200, {"plugins": [], "figures": []})
