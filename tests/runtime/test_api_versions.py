"""Servers of v1.30 to v1.37: what each serves is followed in its own version, written in it, or done without."""

import msgspec
import pytest

from berth.api.resources import RESOURCES
from berth.config.feature_gates import feature_gates
from berth.config.load import default_config
from tests.runtime.releases import RELEASES, ReleaseTransport
from tests.runtime.test_devices import GPU, Cluster
from tests.runtime.test_group_status import GROUPS
from tests.runtime.world import configuration, scheduling
from tests.waiting import until

RULES = RESOURCES["DeviceTaintRule"]
GATES = {"GenericWorkload": True, "GangScheduling": True, "DRADeviceTaintRules": True, "DRADeviceTaints": True}
WITHOUT_DEVICES = ("1.30",)
WITH_DEVICES = [release for release in RELEASES if release not in WITHOUT_DEVICES]


def of_release(release):
    world = Cluster()
    world.transport = ReleaseTransport(world.store, release)
    return world


def gated():
    config = default_config(feature_gates(GATES))
    return msgspec.structs.replace(config, leader_election=configuration().leader_election)


@pytest.mark.parametrize("release", RELEASES)
async def test_what_is_not_served_is_done_without(release):
    world = of_release(release)
    world.add_pod("web")
    async with scheduling(world, gated()) as scheduler:
        await until(lambda: world.node_of("web"))
        expected = {plural for plural in ("resourceclaims", "resourceslices", "deviceclasses")
                    if release in WITHOUT_DEVICES}  # fmt: skip
        expected |= {plural for plural in ("devicetaintrules", "podgroups") if plural not in RELEASES[release]}
        assert scheduler.following.missing == expected
        assert scheduler.following.lacking() == {} and scheduler.following.unsynced() == {}


@pytest.mark.parametrize("release", WITH_DEVICES)
async def test_devices_are_allocated_and_written_in_the_version_served(release):
    world = of_release(release)
    world.add_claim("c0")
    world.add_user("p0", "c0")
    async with scheduling(world):
        await until(lambda: world.node_of("p0"))
    assert world.node_of("p0") == world.first and world.devices("c0") == ["d0"]
    assert [each["name"] for each in world.claim("c0")["status"]["reservedFor"]] == ["p0"]
    assert {version for _, _, version, _ in world.transport.writes} == {RELEASES[release]["resourceclaims"][0]}


@pytest.mark.parametrize("release", WITH_DEVICES)
async def test_a_claim_that_the_scheduler_makes_has_the_shape_of_the_version(release):
    world = of_release(release)
    container = {"name": "c", "image": "x", "resources": {"requests": {GPU: "2"}, "limits": {GPU: "2"}}}
    world.add_pod("p0", containers=[container])
    async with scheduling(world):
        await until(lambda: world.node_of("p0"))
    assert sorted(world.devices("p0-extended-resources-")) == ["d0", "d1"]
    ((_, _, version, document),) = [write for write in world.transport.writes if write[0] == "create"]
    (request,) = document["spec"]["devices"]["requests"]
    assert ("exactly" in request) is (version in ("v1", "v1beta2"))


@pytest.mark.parametrize("release", [release for release in RELEASES if "devicetaintrules" in RELEASES[release]])
async def test_rules_that_taint_devices_count(release):
    world = of_release(release)
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"device": "d0"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    world.store.create(RULES, "", rule)
    world.add_claim("c0")
    world.add_user("p0", "c0")
    async with scheduling(world, gated()):
        await until(lambda: world.node_of("p0"))
    assert world.devices("c0") == ["d1"]


@pytest.mark.parametrize("release", ["1.36", "1.37"])
async def test_pod_groups_are_followed_and_told_in_the_words_of_the_release(release):
    world = of_release(release)
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    world.store.create(GROUPS, "default", {"metadata": {"name": "g"}, "spec": spec})
    world.add_pod("a", schedulingGroup={"podGroupName": "g"})

    def conditions():
        return [each for *_, document in world.transport.writes for each in document["status"]["conditions"]]

    async with scheduling(world, gated()):
        world.add_pod("alone")
        await until(lambda: world.node_of("alone"))
        assert world.node_of("a") == "", "a gang of two is not placed by halves"
        world.add_pod("b", schedulingGroup={"podGroupName": "g"})
        await until(lambda: world.node_of("a") and world.node_of("b"))
        await until(
            lambda: (
                world.transport.writes and world.transport.writes[-1][3]["status"]["conditions"][0]["status"] == "True"
            )
        )
    word = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}[release]
    assert {condition["type"] for condition in conditions()} == {word}
    assert {version for _, _, version, _ in world.transport.writes} == set(RELEASES[release]["podgroups"])
