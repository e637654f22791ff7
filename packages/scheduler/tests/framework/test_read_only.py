"""Nobody changes in place what a plugin is given: every map that can be reached refuses it, and there are no lists.

Which maps there are is read off the schema: a document of each kind with something in every field.
"""

import copy
import pickle
from collections.abc import Mapping

import msgspec
import pytest
from msgspec import inspect

from berth.api.codec import KINDS, decode
from berth.api.meta import LabelSelectorRequirement
from berth.api.read_only import ReadOnlyDict
from berth.api.shared_parts import sharing_of
from berth.core.builders import make_service
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.plugin import NodeView, PodInfo, unschedulable
from berth.state.assumed import Assumptions
from berth.state.objects import ObjectStore
from berth.testing import VirtualCluster, make_node, make_pod
from packages.scheduler.tests.support import plugin

CHANGES = {
    "[]=": lambda found: found.__setitem__("new", "x"),
    "del": lambda found: found.__delitem__(next(iter(found), "new")),
    "|=": lambda found: found.__ior__({"new": "x"}),
    "clear": lambda found: found.clear(),
    "pop": lambda found: found.pop("new", None),
    "popitem": lambda found: found.popitem(),
    "setdefault": lambda found: found.setdefault("new", "x"),
    "update": lambda found: found.update(new="x"),
}


SENSIBLE = {LabelSelectorRequirement: {"operator": "In"}}
"""What must have a meaning, for a plugin to see what is derived from it."""


def filled(kind):
    """Return a document of a type, with something in every field."""
    if isinstance(kind, inspect.StructType):
        return {field.encode_name: filled(field.type) for field in kind.fields} | SENSIBLE.get(kind.cls, {})
    if isinstance(kind, inspect.DictType):
        return {"key": filled(kind.value_type)}
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return [filled(kind.item_type)]
    if isinstance(kind, inspect.UnionType):
        return filled(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    if isinstance(kind, inspect.BoolType):
        return True
    return 1 if isinstance(kind, inspect.IntType) else {"any": "1"} if isinstance(kind, inspect.AnyType) else "1"


def containers(value, path="it"):
    """Yield everything that could be changed in place, with the way to it."""
    if isinstance(value, PodInfo):
        # What the engine keeps for the pod (its shape, what is computed of it) is not part of what a plugin reads.
        for name in ("pod", "metadata", "spec", "status", "labels", "requests", "host_ports"):
            yield from containers(getattr(value, name), f"{path}.{name}")
        for name in ("affinity", "anti_affinity"):
            for kind in ("required", "preferred"):
                yield from containers(getattr(value, f"{kind}_{name}_terms"), f"{path}.{kind}_{name}_terms")
    elif isinstance(value, NodeView):
        for name in (*NodeView.__struct_fields__, "labels"):
            yield from containers(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, msgspec.Struct) and not isinstance(value, CycleState):  # of which `test_handed_out.py` asks
        for field in value.__struct_fields__:
            yield from containers(getattr(value, field), f"{path}.{field}")
    elif isinstance(value, Mapping):
        yield path, value
        for key, each in value.items():
            yield from containers(each, f"{path}[{key}]")
    elif isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from containers(each, f"{path}[{number}]")
    elif isinstance(value, list | set | bytearray):
        yield path, value


def changeable(value, path="it"):
    """Return the paths of all that lets itself be changed, with the number of maps that were tried."""
    found, count = [], 0
    for where, each in containers(value, path):
        count += 1
        for change in CHANGES.values():
            try:
                change(each)
            except TypeError:
                continue
            except (AttributeError, KeyError):
                pass
            found.append(where)
            break
    return found, count


def test_the_walk_finds_what_can_be_changed():
    node = decode("Node", filled(inspect.type_info(KINDS["Node"])))
    assert "it.metadata.labels" in changeable(node)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_map_of_every_kind_is_read_only_where_plugins_find_it(kind):
    for share in (False, True):  # as it is decoded, and as an informer hands it on
        obj = decode(kind, filled(inspect.type_info(KINDS[kind])))
        if share:
            sharing_of(kind)(obj)
        before = msgspec.to_builtins(obj)
        if kind == "Pod":
            obj = PodInfo.of(obj)
        elif kind == "Node":
            cluster = VirtualCluster(obj)
            obj = cluster.core.cache.table.view(0)
        else:
            ObjectStore().put(kind, obj)
        found, count = changeable(obj)
        assert (found, count >= 2) == ([], True)
        whole = getattr(obj, "pod", getattr(obj, "node", obj))
        assert msgspec.to_builtins(whole) == before, "it says the same as before"


def test_what_is_assumed_of_objects_is_read_only_too():
    claim = decode("PersistentVolumeClaim", filled(inspect.type_info(KINDS["PersistentVolumeClaim"])))
    Assumptions().put("PersistentVolumeClaim", "default/c", claim, claim)
    assert changeable(claim)[0] == []


def rich_pod(name, **labels):
    pod = make_pod(name).labels({"app": "a", **labels}).annotation("note", "x").request(cpu="100m").overhead(cpu="1m")
    pod = pod.node_selector({"disk": "ssd"}).prefer_pod_affinity(1, "zone", {"app": "a"}).spread("zone", {"app": "a"})
    status = {"name": "c", "allocatedResources": {"cpu": "100m"}, "resources": {"requests": {"cpu": "100m"}}}
    return pod.set_status(containerStatuses=[status])


def rich_node(name):
    return make_node(name).capacity(cpu="4", memory="8Gi").label("disk", "ssd").label("zone", "a").annotation("a", "b")


def test_whatever_a_plugin_is_called_with_it_cannot_change():
    given = {}

    def keeps(method, answer=None):
        def keep(*arguments):
            given.setdefault(method, []).extend(each for each in arguments if each is not None)
            return answer

        return keep

    anything = [
        ClusterEventWithHint(ClusterEvent(kind, Action.ALL), keeps(f"hint for {kind}", QueueingHint.SKIP))
        for kind in ("Node", "Pod", "Service")
    ]
    curious = plugin(
        "Curious",
        events=anything,
        pre_enqueue=keeps("pre_enqueue"),
        pre_filter=keeps("pre_filter"),
        filter=lambda state, pod, node: keeps("filter", unschedulable() if pod.name == "never" else None)(pod, node),
        score=lambda state, pod, node: keeps("score", 1)(pod, node),
        reserve=keeps("reserve"),
        unreserve=keeps("unreserve"),
        permit=keeps("permit"),
        post_bind=keeps("post_bind"),
        pod_added=keeps("pod_added"),
        pod_updated=keeps("pod_updated"),
        pod_removed=keeps("pod_removed"),
    )
    cluster = VirtualCluster(rich_node("n1"), rich_node("n2"), rich_pod("a"), rich_pod("never"), plugins=[curious])
    cluster.run()
    cluster.put(rich_node("n1").label("more", "1"))
    cluster.put(rich_pod("b", of="its own").node("n2"))
    cluster.put(make_service("s", {"app": "a"}))
    cluster.delete("Pod", "default/a")
    cluster.delete("Node", "n2")
    cluster.advance(60.0)
    missing = {"pre_filter", "filter", "score", "reserve", "pod_removed", "hint for Node", "hint for Pod",
               "hint for Service"} - given.keys()  # fmt: skip
    assert not missing
    for method, values in given.items():
        for value in values:
            assert changeable(value, method)[0] == []


def test_a_node_with_a_pod_more_or_less_is_read_only_too():
    cluster = VirtualCluster(rich_node("n1"), rich_pod("a").node("n1"))
    view, pod = cluster.core.cache.table.view(0), rich_pod("b").info()
    assert changeable(view.with_pod(pod))[0] == changeable(view.without_pod(pod))[0] == []


def test_a_read_only_map_is_a_map_like_any_other():
    found = ReadOnlyDict({"a": "1"})
    assert found == {"a": "1"} and {**found} == found and found | {"b": "2"} == {"a": "1", "b": "2"}
    assert msgspec.json.encode(found) == b'{"a":"1"}'
    for made in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert made == found and isinstance(made, ReadOnlyDict)
    for plain in (dict(found), found.copy(), found | {}):
        plain["b"] = "2"
    assert found == {"a": "1"}
    with pytest.raises(TypeError, match="cannot be changed; take a copy"):
        found["a"] = "2"
