"""NodeDeclaredFeatures: what a pod needs is inferred from its spec, and nodes must declare it.

Expectations: KEP-5328; pkg/scheduler/framework/plugins/nodedeclaredfeatures and the features of
component-helpers/nodedeclaredfeatures, v1.36.
"""

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP
from berth.plugins.node_declared_features import NodeDeclaredFeatures
from packages.scheduler.tests.plugins.support import filtered, handle_of, registered

MESSAGE = "node(s) didn't match Pod's required features"
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}

PLAIN = make_pod("p").request(cpu="1")
RESTARTING = make_pod("p").set_spec(containers=[{"name": "c0", "restartPolicyRules": [RULE]}])
RESTARTING_INIT = make_pod("p").set_spec(initContainers=[{"name": "i0", "restartPolicyRules": [RULE]}])
RESTARTING_ONE = make_pod("p").set_spec(
    containers=[{"name": "c0", "restartPolicyRules": [{**RULE, "action": "Restart"}]}]
)
USER_NAMESPACE = make_pod("p").set_spec(hostNetwork=True, hostUsers=False)
BOTH = USER_NAMESPACE.copy().set_spec(containers=[{"name": "c0", "restartPolicyRules": [RULE]}])


def declaring(name, *features):
    return make_node(name).set_status(declaredFeatures=list(features))


NODES = [
    declaring("none").build(), declaring("restart", RESTART).build(), declaring("users", USERS).build(),
    declaring("all", "GuaranteedQoSPodCPUResize", RESTART, USERS).build(),
]  # fmt: skip


@pytest.mark.parametrize(
    "pod",
    [
        PLAIN,
        RESTARTING_ONE,
        make_pod("p").set_spec(hostNetwork=True),
        make_pod("p").set_spec(hostNetwork=True, hostUsers=True),
        make_pod("p").set_spec(hostUsers=False),
    ],
)
def test_pods_that_need_nothing_are_let_go_by(pod):
    plugin = NodeDeclaredFeatures(None, handle_of())
    assert plugin.pre_filter(CycleState(), pod.info()) is SKIP


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (RESTARTING, {"restart", "all"}),
        (RESTARTING_INIT, {"restart", "all"}),
        (USER_NAMESPACE, {"users", "all"}),
        (BOTH, {"all"}),
    ],
)
def test_nodes_must_declare_what_a_pod_needs(pod, fits):
    handle = handle_of(*NODES)
    plugin = NodeDeclaredFeatures(None, handle)
    assert plugin.pre_filter(CycleState(), pod.info()) is None
    assert filtered(plugin, pod.info(), handle) == {
        node.metadata.name: None if node.metadata.name in fits else MESSAGE for node in NODES
    }


def test_with_the_gate_off_no_pod_needs_anything_and_nothing_helps():
    need_it = (  # gates that are on by default and depend on it
        "ExtendWebSocketsToKubelet",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    )
    gates = {"NodeDeclaredFeatures": False, **dict.fromkeys(need_it, False)}
    plugin = NodeDeclaredFeatures(None, handle_of(gates=gates))
    assert plugin.pre_filter(CycleState(), BOTH.info()) is SKIP
    assert registered(plugin) == set()


def test_events_are_upstreams():
    plugin = NodeDeclaredFeatures(None, handle_of())
    assert registered(plugin) == {("Node", Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), ("Pod", Action.UPDATE)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, declaring("n", RESTART), QueueingHint.QUEUE),
        (None, declaring("n", USERS), QueueingHint.SKIP),
        (declaring("n"), declaring("n", RESTART), QueueingHint.QUEUE),
        (declaring("n", RESTART), declaring("n", RESTART, USERS), QueueingHint.SKIP),
        (declaring("n", RESTART), declaring("n"), QueueingHint.SKIP),
    ],
)
def test_nodes_that_help(old, new, expected):
    node_hint = NodeDeclaredFeatures(None, handle_of()).events_to_register()[0].hint
    assert node_hint(RESTARTING.info(), None if old is None else old.build(), new.build()) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (BOTH, RESTARTING, QueueingHint.QUEUE),
        (RESTARTING, RESTARTING.copy().label("app", "web"), QueueingHint.SKIP),
        (BOTH.copy().uid("other"), RESTARTING.copy().uid("other"), QueueingHint.SKIP),
    ],
)
def test_updates_of_the_pod_that_help(old, new, expected):
    pod_hint = NodeDeclaredFeatures(None, handle_of()).events_to_register()[1].hint
    assert pod_hint(BOTH.info(), old.info(), new.info()) is expected


def test_a_pod_waits_for_a_node_with_its_feature():
    node = declaring("n1").capacity(cpu="4", memory="8Gi")
    found = VirtualCluster(node, RESTARTING).run()
    assert f"0/1 nodes are available: 1 {MESSAGE}." in found.patches("p")[-1].message
    found.put(node.copy().set_status(declaredFeatures=[USERS]))
    found.advance(20.0)
    assert found.core.queue.find("default/p").attempts == 1
    found.put(node.copy().set_status(declaredFeatures=[RESTART]))
    found.advance(20.0)
    assert found.nodes_of() == {"p": "n1"}
