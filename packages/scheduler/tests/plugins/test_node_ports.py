"""NodePorts: conflicts, skipping and hints, against the behaviour documented upstream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP, unschedulable
from berth.plugins.node_ports import NodePorts
from packages.scheduler.tests.plugins.resource_support import same_verdicts
from packages.scheduler.tests.plugins.support import handle_of, hint, registered

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")
NODE = make_node("n").capacity()


@pytest.mark.parametrize(
    ("wanted", "held", "conflict"),
    [
        ((8080, "TCP", ""), (8080, "TCP", ""), True),
        ((8080, "TCP", ""), (8081, "TCP", ""), False),
        ((8080, "TCP", ""), (8080, "UDP", ""), False),
        ((8080, "TCP", "127.0.0.1"), (8080, "TCP", "127.0.0.1"), True),
        ((8080, "TCP", "127.0.0.1"), (8080, "TCP", "127.0.0.2"), False),
        ((8080, "TCP", "127.0.0.1"), (8080, "TCP", "0.0.0.0"), True),
        ((8080, "TCP", "0.0.0.0"), (8080, "TCP", "127.0.0.1"), True),
        ((8080, "TCP", ""), (8080, "TCP", "127.0.0.1"), True),
        ((8080, "", ""), (8080, "TCP", ""), True),
        ((8080, "SCTP", ""), (8080, "SCTP", ""), True),
    ],
)
def test_conflicts(wanted, held, conflict):
    handle = handle_of(NODE.build(), make_pod("held").host_port(*held).node("n").build())
    verdicts = same_verdicts(NodePorts(None, handle), make_pod().host_port(*wanted).info(), handle.cache.table)
    assert verdicts == {"n": TAKEN if conflict else None}


def test_one_port_of_several_is_enough():
    held = make_pod("held").host_port(80).host_port(443).node("n")
    handle = handle_of(NODE.build(), make_node("free").capacity().build(), held.build())
    pod = make_pod().host_port(8080).host_port(443).info()
    assert same_verdicts(NodePorts(None, handle), pod, handle.cache.table) == {"n": TAKEN, "free": None}


def test_sidecars_hold_ports_and_other_init_containers_do_not():
    port = [{"containerPort": 80, "hostPort": 80}]
    for sidecar in (True, False):
        held = make_pod("held").container().init_container(ports=port, sidecar=sidecar).node("n")
        handle = handle_of(NODE.build(), held.build())
        verdicts = same_verdicts(NodePorts(None, handle), make_pod().host_port(80).info(), handle.cache.table)
        assert verdicts == {"n": TAKEN if sidecar else None}


def test_a_pod_without_host_ports_is_skipped():
    plugin = NodePorts(None, handle_of())
    inner = make_pod().container(ports=[{"containerPort": 80}])
    assert plugin.pre_filter(CycleState(), inner.info()) == SKIP
    assert plugin.pre_filter(CycleState(), make_pod().host_port(80).info()) is None


def test_what_if_views_are_believed():
    held = make_pod("held").host_port(80).node("n")
    handle = handle_of(NODE.build(), held.build())
    plugin, pod, view = NodePorts(None, handle), make_pod().host_port(80).info(), handle.cache.table.view(0)
    assert plugin.filter(CycleState(), pod, view) == TAKEN
    assert plugin.filter(CycleState(), pod, view.without_pod(held.info())) is None
    assert plugin.filter(CycleState(), pod, view.without_pod(held.info()).with_pod(held.info())) == TAKEN


PORTS = st.tuples(
    st.sampled_from((80, 443)), st.sampled_from(("TCP", "UDP")), st.sampled_from(("", "127.0.0.1", "127.0.0.2"))
)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.lists(PORTS, max_size=2)), max_size=12),
    st.lists(PORTS, min_size=1, max_size=2),
)
def test_both_forms_agree_while_pods_come_and_go(arriving, wanted):
    handle = handle_of(*(make_node(name).capacity().build() for name in "abc"))
    cache, plugin, pod = handle.cache, NodePorts(None, handle), make_pod()
    for port in wanted:
        pod.host_port(*port)
    for number, (node, ports) in enumerate(arriving):
        held = make_pod(f"p{number}").node(node)
        for port in ports:
            held.host_port(*port)
        cache.add_pod(held.info())
        if number % 3 == 2:
            cache.remove_pod(min(cache.states()))
        same_verdicts(plugin, pod.info(), cache.table)


class TestHints:
    """Which events wake a pod that was rejected."""

    def test_registered_events(self):
        assert registered(NodePorts(None, handle_of())) == {("Pod", Action.DELETE), ("Node", Action.ADD)}

    @pytest.mark.parametrize(
        ("deleted", "expected"),
        [
            (make_pod("other").host_port(80).node("n"), QueueingHint.QUEUE),
            (make_pod("other").host_port(80).nominated("n"), QueueingHint.QUEUE),
            (make_pod("other").host_port(80), QueueingHint.SKIP),
            (make_pod("other").host_port(81).node("n"), QueueingHint.SKIP),
            (make_pod("other").container().node("n"), QueueingHint.SKIP),
        ],
    )
    def test_deleted_pods(self, deleted, expected):
        waiting = make_pod().host_port(80).host_port(443).info()
        assert hint(NodePorts(None, handle_of()), "Pod")(waiting, deleted.info(), None) is expected
