"""Quantities that no machine has, which the API server takes: nothing wraps round, and no node or pod is lost.

What upstream makes of them stands in docs/differences.md; what is expected here is plain arithmetic: from 2**53 on
every amount is the most that there is.
"""

import json

import pytest

from berth.api.codec import decode
from berth.api.quantity import MAX_COUNTED
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import check

HUGE = (
    "9223372036854775807", "9223372036854775808", "8Ei", "16Ei", "10E", "1e19", "1e30", "1e999999999", "1e2147483648",
    "1e9999999999", "99999999999999999999999999999",
)  # fmt: skip
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")


def node_with(name, resource="", quantity=""):
    """A node of 4 CPUs, which says something else of one resource; as the API server sends it."""
    node = make_node(name).capacity(cpu="4", memory="8Gi", pods="10").document
    if resource:
        for field in ("allocatable", "capacity"):
            node["status"].setdefault(field, {})[resource] = quantity
    return decode("Node", json.dumps(node).encode())


def pod(name, where="requests", quantities=None):
    made = make_pod(name).request(cpu="1", memory="1Gi").document
    target = made["spec"] if where == "overhead" else made["spec"]["containers"][0]["resources"]
    target.setdefault(where, {}).update(quantities or {})
    return decode("Pod", json.dumps(made).encode())


def lived(*objects):
    found = VirtualCluster(*objects)
    found.advance(1)
    check(found.core)
    return found


@pytest.mark.parametrize("quantity", HUGE)
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_node_that_says_it_has_that_much_is_used_for_what_fits_into_the_rest(resource, quantity):
    found = lived(node_with("n", resource, quantity), *(pod(f"p{number}") for number in range(9)))
    # Of 4 CPUs and 8 Gi, four pods of 1 CPU and 1 Gi fit; where the CPUs have no end, as many as there is memory for.
    fits = 8 if resource == "cpu" else 4
    assert sum(bool(node) for node in found.nodes_of().values()) == fits
    table = found.core.cache.table
    assert table.allocatable[table.resource_index[resource], table.row_of["n"]] == MAX_COUNTED


@pytest.mark.parametrize("quantity", HUGE)
@pytest.mark.parametrize("where", ["requests", "overhead"])
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_pod_that_asks_for_that_much_fits_nowhere_and_harms_no_other(resource, where, quantity):
    found = lived(node_with("n"), pod("greedy", where, {resource: quantity}), pod("modest"))
    assert found.nodes_of() == {"greedy": "", "modest": "n"}
    assert "Insufficient" in found.patches("greedy")[-1].message


@pytest.mark.parametrize("quantity", HUGE)
def test_a_limit_alone_asks_for_nothing_here(quantity):
    """The API server makes requests of limits; what comes without is not asked for."""
    assert lived(node_with("n"), pod("p", "limits", {"cpu": quantity})).nodes_of() == {"p": "n"}


@pytest.mark.parametrize("quantity", HUGE)
def test_pods_that_are_there_with_that_much_fill_their_node_and_wrap_nothing_round(quantity):
    """Several of them, on a node that has as much, as another scheduler may have bound them."""
    objects = [node_with("full", "memory", quantity), node_with("free")]
    for number in range(5):
        there = make_pod(f"there-{number}").node("full").request(cpu="100m", memory=quantity)
        objects.append(decode("Pod", json.dumps(there.document).encode()))
    found = lived(*objects, pod("modest"))
    assert found.nodes_of()["modest"] == "free"
    table = found.core.cache.table
    assert table.requested[table.resource_index["memory"], table.row_of["full"]] == 5 * MAX_COUNTED
