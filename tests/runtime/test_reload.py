"""A changed configuration is put in force between two cycles, or refused without harm."""

import asyncio
import gc
import logging
import weakref

import pytest
import yaml

from berth.config.errors import ConfigError
from berth.config.load import load_config_file
from berth.framework.registry import Registry
from berth.framework.status import Code, Status, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime import reconfiguration
from berth.runtime.reload import ConfigFile, ReloadPostponed
from berth.testing.invariants import check
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import until


def profile(*enabled, name="default-scheduler", disabled=(), **more):
    plugins = {"multiPoint": {"enabled": [{"name": each} for each in enabled]}}
    if disabled:
        plugins["filter"] = {"disabled": [{"name": each} for each in disabled]}
    return {"schedulerName": name, "plugins": plugins, **more}


class Refuses:
    """Lets no pod run."""

    name = "Refuses"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return unschedulable("not today")

    def events_to_register(self):
        return ()


class Holds:
    """Holds every pod at Permit."""

    name = "Holds"

    def __init__(self, args, handle):
        pass

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT), 600.0


class Broken:
    """Cannot be made."""

    name = "Broken"

    def __init__(self, args, handle):
        raise SystemExit("no")

    def filter(self, state, pod, node):
        return None


REGISTRY = in_tree_registry().merge(Registry({"Refuses": Refuses, "Holds": Holds, "Broken": Broken}, "the test"))


async def test_another_configuration_takes_over_between_two_cycles():
    world = World(nodes=1, cpu="4")
    world.add_pod("before")
    async with scheduling(world, registry=REGISTRY) as scheduler:
        await until(lambda: world.node_of("before"))
        assert await scheduler.reconfigure(configuration(profiles=[profile("Refuses")])) == []
        enabled = scheduler.config.profiles[0].plugins.multi_point.enabled
        assert "Refuses" in [each.name for each in enabled]
        world.add_pod("during")
        await until(lambda: world.condition("during"))
        assert world.condition("during")["message"].startswith("0/1 nodes are available: 1 not today.")
        assert len(scheduler.core.cache) == 1, "what runs is counted"
        attempts = scheduler.core.queue.find(world.pod("during")["metadata"]["uid"]).attempts
        assert attempts >= 1
        second = profile(name="second")
        await scheduler.reconfigure(configuration(profiles=[profile(), second]))
        world.add_pod("other", schedulerName="second")
        await until(lambda: world.node_of("during") and world.node_of("other"))
        check(scheduler.core)
    assert len(world.accepted()) == 3


async def test_attempts_and_backoffs_are_taken_over():
    times = [1000.0]
    world = World(nodes=1, cpu="4")
    refusing = configuration(profiles=[profile("Refuses")])
    async with scheduling(world, refusing, registry=REGISTRY, clock=lambda: times[0]) as scheduler:
        world.add_pod("web")
        await until(lambda: world.condition("web"))
        uid = world.pod("web")["metadata"]["uid"]
        world.add_nodes(1, first=1)
        await until(lambda: len(scheduler.core.cache.table) == 2)
        before = scheduler.core.queue.find(uid)
        was = (before.attempts, before.unschedulable_count, before.initial_attempt, before.timestamp)
        await scheduler.reconfigure(refusing)
        await until(lambda: scheduler.core.queue.find(uid) and len(scheduler.core.queue.unschedulable))
        after = scheduler.core.queue.find(uid)
        assert after is not before
        assert after.attempts == was[0] + 1, "it was tried again with the new plugins, and the attempts go on"
        assert (after.unschedulable_count, after.initial_attempt) == (was[1] + 1, was[2])


async def test_a_wrong_configuration_changes_nothing():
    world = World(nodes=1)
    async with scheduling(world, registry=REGISTRY) as scheduler:
        core = scheduler.core
        with pytest.raises(ConfigError, match=r"Broken.*SystemExit: no"):
            await scheduler.reconfigure(configuration(profiles=[profile("Broken")]))
        with pytest.raises(ConfigError, match="Nowhere"):
            await scheduler.reconfigure(configuration(profiles=[profile("Nowhere")]))
        sends_whole = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
        with pytest.raises(ConfigError, match="extenders: whole pods or nodes"):
            await scheduler.reconfigure(configuration(extenders=[sends_whole]))
        assert scheduler.core is core
        world.add_pod("web")
        await until(lambda: world.node_of("web"))


async def test_what_only_a_restart_can_change_is_named_and_stays():
    world = World(nodes=1)
    async with scheduling(world) as scheduler:
        before = scheduler.config
        changed = configuration(leader_elect=True, clientConnection={"qps": 7}, podMaxBackoffSeconds=30)
        assert sorted(await scheduler.reconfigure(changed)) == ["clientConnection", "leaderElection"]
        assert scheduler.config.leader_election == before.leader_election
        assert scheduler.config.client_connection == before.client_connection
        assert scheduler.config.pod_max_backoff_s == 30


async def test_bindings_under_way_are_waited_for_and_then_the_change_is_postponed(monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_WAIT_S", 0.05)
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 0.001)
    world = World(nodes=2, cpu="4")
    gate = world.transport.hold("bind")
    async with scheduling(world, registry=REGISTRY) as scheduler:
        core = scheduler.core
        world.add_pod("web")
        await until(lambda: world.transport.count("bind"))
        with pytest.raises(ReloadPostponed, match="1 pods are being bound"):
            await scheduler.reconfigure(configuration(profiles=[profile("Refuses")]))
        assert scheduler.core is core
        reloading = asyncio.create_task(scheduler.reconfigure(configuration(profiles=[profile("Refuses")])))
        gate.set()
        await reloading
        assert scheduler.core is not core
        assert scheduler.core.cache.assumed_count == 0
        assert len(scheduler.core.cache) == 1
    assert [record.node for record in world.accepted()] == [world.node_of("web")]


async def test_pods_that_permit_holds_are_turned_back(monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_WAIT_S", 0.02)
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 0.001)
    world = World(nodes=1, cpu="1")
    async with scheduling(world, configuration(profiles=[profile("Holds")]), registry=REGISTRY) as scheduler:
        world.add_pod("web", cpu="800m")
        await until(lambda: len(scheduler.core.waiting))
        await scheduler.reconfigure(configuration())
        await until(lambda: world.node_of("web"))
        check(scheduler.core)


async def test_old_cores_are_not_kept():
    world = World(nodes=2, cpu="4")
    for number in range(3):
        world.add_pod(f"web-{number}")
    async with scheduling(world) as scheduler:
        await until(lambda: len(world.accepted()) == 3)
        old = []
        for seconds in (20, 30, 40):
            old.append(weakref.ref(scheduler.core))
            await scheduler.reconfigure(configuration(podMaxBackoffSeconds=seconds))
            world.add_pod(f"late-{seconds}")
            await until(lambda seconds=seconds: world.node_of(f"late-{seconds}"))
        gc.collect()
        assert [each() for each in old] == [None, None, None]


async def test_events_that_come_while_it_changes_are_not_lost():
    world = World(nodes=1, cpu="8")
    async with scheduling(world) as scheduler:
        for number in range(8):
            world.add_pod(f"web-{number}")
            await asyncio.gather(
                scheduler.reconfigure(configuration(podMaxBackoffSeconds=20 + number)), asyncio.sleep(0)
            )
        await until(lambda: len(world.accepted()) == 8)
        check(scheduler.core)


# --- the file ---------------------------------------------------------------------------------------------------------


class Followed:
    """A file that is followed, and what was put in force."""

    def __init__(self, path):
        self.applied = []
        self.postpones = 0
        self.path = path
        self.file = ConfigFile(path, lambda: load_config_file(str(path)), self._apply)

    async def _apply(self, config):
        if self.postpones:
            self.postpones -= 1
            raise ReloadPostponed("3 pods are being bound")
        self.applied.append(config.pod_max_backoff_s)
        return ["leaderElection"]

    def counts(self):
        return {result: self.file.reloads.value((result,)) for result in ("applied", "refused", "postponed")}


def document(seconds):
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "podMaxBackoffSeconds": seconds,
        }
    )


@pytest.fixture
def followed(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(document(10))
    return Followed(path)


async def test_a_change_is_put_in_force_once_it_is_seen_twice(followed, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(3):
        await followed.file.look()
    assert followed.applied == []
    followed.path.write_text(document(20))
    await followed.file.look()
    assert followed.applied == [], "it may be half written"
    for _ in range(3):
        await followed.file.look()
    assert followed.applied == [20]
    assert followed.counts() == {"applied": 1, "refused": 0, "postponed": 0}
    assert [record.getMessage() for record in caplog.records if "without a restart" in record.getMessage()] == [
        f"{followed.path}: leaderElection cannot change without a restart"
    ]


async def test_told_to_look_it_does_not_wait(followed, caplog):
    caplog.set_level(logging.INFO)
    followed.path.write_text(document(20))
    await followed.file.look(at_once=True)
    assert followed.applied == [20]
    await followed.file.look(at_once=True)
    assert followed.applied == [20]
    assert caplog.records[-1].getMessage() == f"{followed.path} has not changed"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("podMaxBackoffSeconds: [", "yaml"),
        (document(-5), "podMaxBackoffSeconds"),
        (document(20).replace("podMaxBackoffSeconds", "podMaxBackofSeconds"), "podMaxBackofSeconds"),
        (None, "No such file"),
    ],
)
async def test_a_wrong_file_is_refused_with_one_message(followed, caplog, text, says):
    if text is None:
        followed.path.unlink()
    else:
        followed.path.write_text(text)
    for _ in range(4):
        await followed.file.look()
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told.startswith("the changed configuration is refused, and the old one stays in force: ")
    assert str(followed.path) in told
    assert says.lower() in told.lower()
    assert followed.applied == []
    assert followed.counts()["refused"] == 1
    followed.path.write_text(document(30))
    for _ in range(2):
        await followed.file.look()
    assert followed.applied == [30]


async def test_what_was_postponed_is_tried_again(followed):
    followed.postpones = 2
    followed.path.write_text(document(20))
    for _ in range(5):
        await followed.file.look()
    assert followed.applied == [20]
    assert followed.counts() == {"applied": 1, "refused": 0, "postponed": 2}


async def test_a_config_maps_symlink_that_is_swapped_is_a_change(tmp_path):
    for name, seconds in (("..1", 10), ("..2", 20)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(document(seconds))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    followed = Followed(tmp_path / "config.yaml")
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    for _ in range(2):
        await followed.file.look()
    assert followed.applied == [20]
