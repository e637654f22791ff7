"""What plugins register for, against the documentation and the least that upstream registers for."""

import re
from collections import defaultdict

import pytest

from berth.core.virtual_cluster import VirtualCluster
from berth.framework.events import Action
from tests.paths import DOCS

DOCUMENT = DOCS / "queueing-hints.md"

# pkg/scheduler/framework/plugins/*, EventsToRegister, v1.36
UPSTREAM = """
DefaultPreemption Pod Delete
DynamicResources Node Add+UpdateNodeLabel+UpdateNodeAllocatable
DynamicResources ResourceClaim Add+Update
DynamicResources Pod UpdatePodGeneratedResourceClaim
DynamicResources DeviceClass Add+Update
DynamicResources ResourceSlice Add+Update
GangScheduling Pod Add
GangScheduling UnscheduledPod Add
GangScheduling PodGroup Add
InterPodAffinity Pod Add+UpdatePodLabel+Delete
InterPodAffinity Node Add+UpdateNodeLabel
NodeAffinity Node Add+UpdateNodeLabel
NodeDeclaredFeatures Node Add+UpdateNodeDeclaredFeature
NodeDeclaredFeatures Pod Update
NodeName Node Add
NodePorts Pod Delete
NodePorts Node Add
NodeResourcesFit Pod Delete+UpdatePodScaleDown
NodeResourcesFit Node Add+UpdateNodeAllocatable
NodeResourcesFit DeviceClass Add+Update
NodeUnschedulable Node Add+UpdateNodeTaint
NodeUnschedulable Pod UpdatePodToleration
NodeVolumeLimits CSINode Add
NodeVolumeLimits CSINode Update
NodeVolumeLimits Pod Delete
NodeVolumeLimits PersistentVolumeClaim Add
NodeVolumeLimits VolumeAttachment Delete
PodTopologySpread Pod Add+UpdatePodLabel+UpdatePodToleration+Delete
PodTopologySpread Node Add+Delete+UpdateNodeLabel+UpdateNodeTaint
SchedulingGates Pod UpdatePodSchedulingGatesEliminated
TaintToleration Node Add+UpdateNodeTaint
TaintToleration Pod UpdatePodToleration
VolumeBinding StorageClass Add+Update
VolumeBinding PersistentVolumeClaim Add+Update
VolumeBinding PersistentVolume Add+Update
VolumeBinding Node Add+UpdateNodeLabel
VolumeBinding CSINode Add+Update
VolumeBinding CSIDriver Update
VolumeBinding CSIStorageCapacity Add+Update
VolumeRestrictions Pod Delete
VolumeRestrictions Node Add
VolumeRestrictions PersistentVolumeClaim Add
VolumeZone StorageClass Add
VolumeZone Node Add+UpdateNodeLabel
VolumeZone PersistentVolumeClaim Add+Update
VolumeZone PersistentVolume Add+Update
"""

DEFAULTS = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
REJECTING_DEFAULTS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {"name": "PodTopologySpread", "args": {"defaultConstraints": DEFAULTS, "defaultingType": "List"}}
            ]
        }
    ],
}


def action_of(text):
    """An action by the names that documents have for its parts."""
    found = Action(0)
    for name in re.split(r"\s*\+\s*", text.strip()):
        found |= Action[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()]
    return found


def plugins():
    profile = VirtualCluster(config=REJECTING_DEFAULTS, gates={"AllAlpha": True}).core.profiles["default-scheduler"]
    return {each.name: each.plugin for each in profile.plugins if each.events is not None}


def registered():
    return {
        (name, entry.event.resource, entry.event.action, entry.hint is not None)
        for name, plugin in plugins().items()
        for entry in plugin.events_to_register()
    }


def documented():
    """The table's rows: plugin, resource, action, whether there is a hint, and what is beyond upstream."""
    rows = [line.strip("|\n").split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [(p, r, action_of(a), h == "yes", extra) for p, r, a, h, extra in cells if p not in ("plugin", "---")]


def upstream():
    least = defaultdict(lambda: Action(0))
    for line in UPSTREAM.strip().splitlines():
        plugin, resource, action = line.split()
        least[plugin, resource] |= action_of(action)
    return least


def test_the_documents_table_is_what_the_plugins_register():
    rows = documented()
    assert {row[:4] for row in rows} == registered()
    assert len(rows) == len({row[:4] for row in rows})


@pytest.mark.parametrize(("plugin", "resource"), sorted(upstream()))
def test_at_least_upstreams_events_are_registered(plugin, resource):
    ours = [action for name, kind, action, _ in registered() if (name, kind) == (plugin, resource)]
    union = Action(0)
    for action in ours:
        union |= action
    assert upstream()[plugin, resource] & ~union == Action(0)


def test_what_goes_beyond_upstream_is_marked_with_why():
    least = upstream()
    for plugin, resource, action, _, extra in documented():
        more = action & ~least[plugin, resource]
        what, _, why = extra.partition(": ")
        assert bool(more) == bool(why), f"{plugin} {resource}"
        if more:
            said = action if what == "all" else action_of(what)
            assert said & more == more, f"{plugin} {resource}: {more!r} is not said to be beyond upstream"
