"""Random clusters: every change that is offered helps, nothing smaller of its kind does, and no single edit is missed.

Changes are made from their patches alone, on a cluster built anew (`worlds.py`), where the scheduler places the pod.
All pods have one priority, so that preemption cannot do a change's work.
"""

import copy
import json
import random

import numpy as np
import pytest

from berth.api.quantity import milli_value, value
from berth.core.builders import expression, make_node, make_pod
from berth.core.questions import judge
from berth.testing.invariants import check
from tests.effort import examples
from tests.workbench.planning.help.worlds import World

ALL_SEEDS = range(40)
SEEDS = range(examples(40))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("x", "y")


def random_world(seed):
    """A few nodes with taints, labels and pods, and a pod that asks for some of everything; most fit nowhere."""
    rng = random.Random(seed)
    nodes, pods = [], []
    for i in range(rng.randint(4, 9)):
        node = make_node(f"n{i}").capacity(cpu=str(rng.choice((4, 8))), memory=f"{rng.choice((8, 16))}Gi", pods="6")
        node.zone(rng.choice("abc"))
        for key, chance in (("disk", 0.3), ("tier", 0.4)):
            if rng.random() < chance:
                node.label(key, rng.choice("12"))
        for key in ("team", "gpu"):
            if rng.random() < 0.25:
                node.taint(key, rng.choice(("", "a")))
        if rng.random() < 0.15:
            node.unschedulable()
        nodes.append(node)
        for _ in range(rng.randint(0, 6)):
            pods.append(_running(rng, f"w{len(pods)}").node(f"n{i}"))
    return World(_asking(rng), *nodes, *_small_enough(nodes, pods))


def _running(rng, name):
    pod = make_pod(name).label("app", rng.choice(APPS)).priority(0)
    pod.request(cpu=f"{rng.randint(1, 20)}00m", memory=f"{rng.randint(1, 24)}00Mi")
    if rng.random() < 0.1:
        pod.host_port(8080)
    if rng.random() < 0.1:
        pod.owned_by("DaemonSet", "agent")
    if rng.random() < 0.05:
        pod.pod_anti_affinity(rng.choice((ZONE, HOST)), {"app": "x"})
    return pod


def _small_enough(nodes, pods):
    """Leave out the pods that their nodes would have no room for."""
    free = {n.metadata["name"]: [milli_value(n.status["capacity"]["cpu"]), value(n.status["capacity"]["memory"])]
            for n in nodes}  # fmt: skip
    for pod in pods:
        asked = pod.spec["containers"][0]["resources"]["requests"]
        left, cpu, memory = free[pod.spec["nodeName"]], milli_value(asked["cpu"]), value(asked["memory"])
        if left[0] >= cpu and left[1] >= memory:
            left[0], left[1] = left[0] - cpu, left[1] - memory
            yield pod


def _asking(rng):
    pod = make_pod("p").label("app", "x").priority(0)
    big = rng.random() < 0.5
    pod.request(cpu=f"{rng.randint(20, 90) if big else rng.randint(1, 10)}00m",
                memory=f"{rng.randint(10, 170) if big else rng.randint(1, 20)}00Mi")  # fmt: skip
    if rng.random() < 0.4:
        pod.request(cpu="100m", memory="100Mi")
    if rng.random() < 0.2:
        pod.init_container(requests={"cpu": f"{rng.randint(1, 100)}00m"})
    if rng.random() < 0.4:
        pod.node_selector({key: rng.choice("12") for key in rng.sample(("disk", "tier"), rng.randint(1, 2))})
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 2)):
            pod.require_node(*(expression(key, "In", rng.choice("12")) for key in rng.sample(("disk", "tier"), 2)))
    if rng.random() < 0.3:
        pod.tolerate("team", operator="Exists")
    if rng.random() < 0.3:
        pod.spread(rng.choice((ZONE, HOST)), {"app": "x"})
    if rng.random() < 0.25:
        pod.pod_anti_affinity(rng.choice((ZONE, HOST)), {"app": rng.choice(APPS)})
    if rng.random() < 0.15:
        pod.pod_affinity(ZONE, {"app": "y"})
    if rng.random() < 0.15:
        pod.host_port(8080)
    return pod


# --- what is smaller than a change ------------------------------------------------------------------------------------


def undone(before, after):
    """Yield copies of `after` with one thing each as it was in `before`."""
    if isinstance(after, dict) and isinstance(before, dict):
        for key in sorted({*before, *after}):
            old, new = before.get(key), after.get(key)
            if old == new:
                continue
            pieces = list(undone(old, new)) if old is not None and new is not None else [old]
            for piece in pieces:
                found = {**after, key: piece}
                yield {name: each for name, each in found.items() if each is not None}
    elif isinstance(after, list) and isinstance(before, list):
        if len(before) == len(after):
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                if old != new:
                    yield from ([*after[:index], piece, *after[index + 1 :]] for piece in undone(old, new))
            return
        for index, each in enumerate(after):  # something that was added is taken away again
            if each not in before:
                yield [*after[:index], *after[index + 1 :]]
        for index, each in enumerate(before):  # something that was taken away comes back
            if each not in after:
                yield [*after[:index], each, *after[index:]]
    else:
        yield before


def plain(document):
    """Return a document without what no filter looks at: preferences, empty lists, mappings and texts."""
    if isinstance(document, dict):
        found = {key: plain(each) for key, each in document.items() if not key.startswith("preferred")}
        return {key: each for key, each in found.items() if each not in (None, [], {}, "")}
    return [plain(each) for each in document] if isinstance(document, list) else document


def total(document, resource, amount_of):
    """What a pod of regular and init containers requests."""

    def asked(container):
        return amount_of(container.get("resources", {}).get("requests", {}).get(resource, 0))

    spec = document["spec"]
    return max([sum(map(asked, spec["containers"])), *map(asked, spec.get("initContainers", ()))])


def one_step_more(before, after):
    """Yield the pod with the request of each lowered resource one step larger, at whichever container that counts."""
    for resource, amount_of, unit in (("cpu", milli_value, "m"), ("memory", value, "")):
        wanted = total(after, resource, amount_of)
        if wanted == total(before, resource, amount_of):
            continue
        found = copy.deepcopy(after)
        for field in ("containers", "initContainers"):
            for container in found["spec"].get(field, ()):
                requests = container.get("resources", {}).get("requests", {})
                if resource in requests:
                    requests[resource] = f"{amount_of(requests[resource]) + 1}{unit}"
        # Each regular container has got one step, which is more than one in all where there are several.
        for container in found["spec"]["containers"][1:]:
            requests = container.get("resources", {}).get("requests", {})
            if resource in requests:
                requests[resource] = f"{amount_of(requests[resource]) - 1}{unit}"
        assert total(found, resource, amount_of) == wanted + 1
        yield found


# --- the properties ---------------------------------------------------------------------------------------------------


def columns(core):
    """All that filters read of nodes and pods, by node."""
    table = core.cache.table
    return {
        table.names[row]: (
            *(table.requested[index, row] for _, index in sorted(table.resource_index.items()) if index < 2),
            table.pod_count[row], table.allowed_pods[row], bool(table.unschedulable[row]),
            table.taint_sets[table.taint_set_ids[row]], table.nodes[row], sorted(table.pods[row]),
        )
        for row in np.flatnonzero(table.valid)
    }  # fmt: skip


def as_document(world):
    return json.loads(json.dumps(world.pod))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_help_and_nothing_smaller_does(seed):
    world = random_world(seed)
    cluster = world.cluster()
    before, rng_state = columns(cluster.core), cluster.rng.getstate()
    pod = cluster.pods[world.key]
    answer = judge(cluster.core, pod).message
    found = world.help(cluster)

    check(cluster.core)
    assert columns(cluster.core) == before, "the cluster is not as it was"
    assert cluster.rng.getstate() == rng_state
    assert judge(cluster.core, pod).message == answer

    if found.state == "fits":
        assert world.placed() in found.fits_on
        return
    assert found.state == "pending"
    assert found.is_complete
    assert world.placed() == ""
    assert list(found.changes) == sorted(found.changes, key=lambda change: change.cost)
    for change in found.changes:
        after = world.after(change)
        assert after.placed() in change.fits_on, change.what
        _nothing_smaller_helps(world, change, after)
    _never_is_true(world, found)


def _nothing_smaller_helps(world, change, after):
    if change.patch_type == "delete":
        for key in change.patch["pods"] if len(change.patch["pods"]) > 1 else ():
            fewer = copy.deepcopy(world)
            fewer.patch("delete", {"pods": [each for each in change.patch["pods"] if each != key]}, "")
            assert fewer.placed() == "", f"{key} need not go"
        return
    if change.patch_type == "create":
        _no_smaller_node_helps(world, change)
        return
    targets = [change.target, *(part.target for part in change.with_)]
    for target in targets:
        old, new = world.named(target), after.named(target)
        for less in undone(plain(old), plain(new)):
            smaller = copy.deepcopy(after)
            document = smaller.named(target)
            document.clear()
            document.update(less)
            assert smaller.placed() == "", f"less than this would do: {change.what}"
    if "requests" in change.kind:
        for more in one_step_more(world.pod, after.pod):
            larger = copy.deepcopy(after)
            larger.pod = more
            assert larger.placed() == "", f"more could be requested: {change.what}"
    if change.kind == "maxSkew":
        closer = copy.deepcopy(after)
        (constraint,) = closer.pod["spec"]["topologySpreadConstraints"]
        constraint["maxSkew"] -= 1
        assert closer.placed() == "", f"a smaller skew would do: {change.what}"


def _no_smaller_node_helps(world, change):
    made = change.patch["manifests"][0]
    for document in world.documents:
        if document["kind"] != "Node" or _size(document) >= _size(made):
            continue
        like = copy.deepcopy(document)
        like["metadata"] = {"name": "other", "labels": {**like["metadata"]["labels"], HOST: "other"}}
        like["spec"].pop("unschedulable", None)
        name = document["metadata"]["name"]
        larger = copy.deepcopy(world)
        larger.documents += _daemons(world, name)
        larger.patch("create", {"manifests": [{**like, "apiVersion": "v1"}]}, "")
        assert larger.placed() == "", f"a node like {name} would do"


def _daemons(world, like):
    for document in world.documents:
        owners = document["metadata"].get("ownerReferences", ())
        if document["kind"] == "Pod" and document["spec"]["nodeName"] == like and owners:
            copied = copy.deepcopy(document)
            copied["metadata"] |= {"name": f"{document['metadata']['name']}-other", "uid": f"other{id(copied)}"}
            copied["spec"]["nodeName"] = "other"
            yield copied


def _size(node):
    has = node["status"]["allocatable"]
    return milli_value(has["cpu"]), value(has["memory"])


def _never_is_true(world, found):
    if world.pod["spec"].get("affinity", {}).get("podAffinity"):
        return  # without the others there is nobody to be beside
    empty = copy.deepcopy(world)
    empty.documents = [each for each in world.documents
                       if each["kind"] != "Pod" or each["metadata"].get("ownerReferences")]  # fmt: skip
    if found.never:
        assert empty.placed() == ""
    else:  # in a spread it may take some of the others to stay
        assert empty.placed() or any(change.kind == "podsGone" for change in found.changes)


# --- nothing is missed ------------------------------------------------------------------------------------------------


def single_edits(pod, taints):
    """Yield the pod with every single thing given up that can be."""
    spec = pod["spec"]
    for taint in taints:
        found = copy.deepcopy(pod)
        toleration = {"key": taint["key"], "value": taint["value"], "effect": taint["effect"], "operator": "Equal"}
        found["spec"].setdefault("tolerations", []).append(toleration)
        yield "toleration", found
    for key in spec.get("nodeSelector", ()):
        found = copy.deepcopy(pod)
        del found["spec"]["nodeSelector"][key]
        yield "nodeSelector", found
    for index in range(len(spec.get("topologySpreadConstraints", ()))):
        found = copy.deepcopy(pod)
        del found["spec"]["topologySpreadConstraints"][index]
        yield "spread", found
    for index, container in enumerate(spec["containers"]):
        if container["ports"]:
            found = copy.deepcopy(pod)
            found["spec"]["containers"][index]["ports"] = []
            yield "hostPort", found
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in spec.get("affinity", {}):
            found = copy.deepcopy(pod)
            del found["spec"]["affinity"][kind]
            yield kind, found
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get(required, {}).get("nodeSelectorTerms", ())
    for number, term in enumerate(terms):
        for index in range(len(term["matchExpressions"])):
            found = copy.deepcopy(pod)
            changed = found["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
            del changed[number]["matchExpressions"][index]
            yield "nodeAffinity", found


@pytest.mark.parametrize("seed", SEEDS)
def test_no_single_edit_of_the_pod_is_missed(seed):
    world = random_world(seed)
    found = world.help()
    if found.state == "fits":
        return
    taints = [json.loads(text) for text in sorted({json.dumps(taint, sort_keys=True) for each in world.documents
              if each["kind"] == "Node" for taint in each["spec"].get("taints", ())})]  # fmt: skip
    helping = set()
    for kind, pod in single_edits(as_document(world), taints):
        edited = copy.deepcopy(world)
        edited.pod = pod
        if edited.placed():
            helping.add(kind)
    offered = {change.kind for change in found.changes if change.on == "pod"}
    assert helping <= offered


def test_the_random_clusters_are_of_all_kinds():
    """Else the properties would hold of nothing."""
    kinds, states, never = set(), set(), set()
    for seed in ALL_SEEDS:
        found = random_world(seed).help()
        states.add(found.state)
        never.add(found.never)
        kinds |= {change.kind for change in found.changes}
    assert states == {"fits", "pending"}
    assert never == {True, False}
    assert kinds >= {"toleration", "nodeSelector", "requests", "taint", "label", "uncordon", "podsGone", "node",
                     "maxSkew", "spread", "podAntiAffinity", "nodeAffinity"}  # fmt: skip
