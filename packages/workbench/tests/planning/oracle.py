"""Holds the end of a what-if against single decisions and plain counting; yields what does not add up, in words.

- Whatever is told as pending fits nowhere: asked once more, alone, by a fresh core on the final state, without memos.
- A scheduler that is started anew on the final state has nothing left to do: it places nobody and evicts nobody.
- Each owner has as many pods as it wants, or the answer says why not.
- The counts that are told are those of the pods on nodes, and what has moved is where it may be.
"""

from collections import Counter

import msgspec

from berth.api.pod import Pod
from berth.core.questions import judge
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.daemons import pinned_to
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.questions import SHORT

CIRCLE = "EvictedAgainAndAgain"
"""What is broken where a pod waits that fits, since another would evict it again and again."""
KEPT = "room on "
"""How notes begin that name a node where pods fit but for a nominated one, which waits for a pod to be gone."""


def differences(world, question, cluster, result):
    """Yield what is wrong with an answer."""
    fresh = [as_it_is(obj) for obj in cluster.objects.values()]
    yield from pending_that_fits(cluster, fresh, result)
    yield from wrong_owners(world, question, cluster, result)
    yield from wrong_scales(cluster)
    yield from wrong_counts(world, cluster, result)
    yield from misplaced(cluster, result)


def as_it_is(obj):
    """An object without what only the scheduler that has answered knows: a pending pod is asked as if new."""
    if isinstance(obj, Pod) and not obj.spec.node_name:
        return Pod(obj.metadata, obj.spec)
    return obj


def pending_that_fits(cluster, fresh, result):
    told = {each.pod for each in result.unplaced}
    pending = {pod.key: pod for pod in fresh if isinstance(pod, Pod) and not pod.spec.node_name}
    if told != pending.keys():
        yield f"told as pending: {sorted(told)}, and pending are {sorted(pending)}"
    others = [obj for obj in fresh if not (isinstance(obj, Pod) and not obj.spec.node_name)]
    alone = SimulatedCluster(others, memos=False)
    kept = {note.split()[2] for note in result.notes if note.startswith(KEPT)}
    for key, pod in pending.items():
        places = [name for name in judge(alone.core, pod).node_names if name not in kept]
        if places:
            yield f"{key} is told as pending and fits on {places}"
    if kept:
        return
    again = SimulatedCluster(fresh, memos=False)
    before = again.placements
    again.settle()
    circles = {each.name for each in result.broken if each.reason == CIRCLE}
    placed = {key: node for key, node in again.placements.items() if node != before.get(key)}
    if placed.keys() - circles or (again.evictions and not circles):
        yield f"a scheduler started anew places {placed} and evicts {[(e.pod, e.by) for e in again.evictions]}"


def wrong_owners(world, question, cluster, result):
    has = Counter()
    for pod in filter(is_counted, cluster.pods.values()):
        owner = next((each for each in pod.metadata.owner_references if each.controller), None)
        if owner is not None:
            has[owner.kind, owner.name] += 1
    for each in world.workloads:
        wanted, is_there = each.wanted, True
        for step, text in question:
            if step == "delete" and text == f"{SHORT[each.kind]}/{each.name}":
                wanted, is_there = 0, False
            elif step == "scale" and text.startswith(f"{SHORT[each.kind]}/{each.name}="):
                wanted = int(text.rpartition("=")[2])
        if each.kind == "Deployment":
            found = sum(has["ReplicaSet", each.set_name(number)] for number in range(each.revisions))
        elif each.kind == "DaemonSet":
            yield from wrong_daemons(each, is_there, world, question, cluster)
            continue
        else:
            found = has[each.kind, each.name]
        if found != wanted:
            yield f"{each.kind} {each.name} wants {wanted} pods and has {found}"


def wrong_daemons(each, wanted_at_all, world, question, cluster):
    """One for each node that it may run on; NoSchedule keeps new ones away, and lets those stay that are there.

    Source: NodeShouldRunDaemonPod in pkg/controller/daemon/daemon_controller.go.
    """
    pods = [pod for pod in cluster.pods.values() if pod.metadata.labels["app"] == each.name]
    there = Counter(pinned_to(pod) for pod in pods if pod.metadata.owner_references)
    before = {pod["metadata"]["name"] for pod in world.pods}
    if not wanted_at_all:
        if there:
            yield f"DaemonSet {each.name} is deleted and has pods on {sorted(there)}"
        return
    for name in there.keys() - cluster.nodes.keys():
        yield f"DaemonSet {each.name} has a pod for {name}, which is gone"
    for name, node in cluster.nodes.items():
        taints = [taint for taint in plain(node).get("spec", {}).get("taints", ()) if taint["key"] == "team"]
        refused = {taint["effect"] for taint in taints if not checker.tolerates({"spec": each.spec}, taint)}
        is_selected = all(node.metadata.labels.get(key) == value for key, value in selector_of(each).items())
        may_stay = is_selected and "NoExecute" not in refused
        if not may_stay:
            wanted = 0
        elif "NoSchedule" not in refused:
            wanted = 1
        else:  # one that was there stays, unless it had to go in between
            if had_to_go(question, name) or f"{each.name}-{name}" not in before:
                continue
            wanted = 1
        if there[name] != wanted:
            yield f"DaemonSet {each.name} wants {wanted} pods on {name} and has {there[name]}"


def had_to_go(question, name):
    """Whether a change may have sent a node's daemons away for a while."""
    of_node = (text for step, text in question if step in ("label", "taint") and text.partition(":")[0] == name)
    return any("NoSchedule" not in text for text in of_node)


def selector_of(workload):
    return workload.spec.get("nodeSelector", {})


def wrong_scales(cluster):
    """What controllers ask for is what they have."""
    has = Counter()
    for pod in filter(is_counted, cluster.pods.values()):
        has.update((each.kind, each.name) for each in pod.metadata.owner_references if each.controller)
    for (kind, _), obj in cluster.objects.items():
        if kind in ("ReplicaSet", "StatefulSet", "ReplicationController"):
            name = obj.metadata.name
            if obj.spec.replicas != has[kind, name]:
                yield f"{kind} {name} asks for {obj.spec.replicas} and has {has[kind, name]}"


def is_over(pod):
    return pod.status.phase in ("Failed", "Succeeded")


def is_counted(pod):
    """Whether a controller counts a pod among those that it has."""
    return not is_over(pod) and pod.metadata.deletion_timestamp is None


def wrong_counts(world, cluster, result):
    given = [pod for pod in world.pods if pod.get("status", {}).get("phase") != "Failed"]
    on_nodes = sum(bool(pod["spec"].get("nodeName")) for pod in given)
    if (result.before.pods, result.before.pending) != (on_nodes, len(given) - on_nodes):
        yield f"before: told {result.before.pods}+{result.before.pending}, there are {on_nodes} of {len(given)}"
    nodes = set(cluster.nodes)
    pods = [pod for pod in cluster.pods.values() if not is_over(pod)]
    placed = [pod for pod in pods if pod.spec.node_name]
    lost = [pod.key for pod in placed if pod.spec.node_name not in nodes]
    if lost:
        yield f"on nodes that are gone: {lost}"
    if (result.after.pods, result.after.pending) != (len(placed), len(pods) - len(placed)):
        yield f"after: told {result.after.pods}+{result.after.pending}, there are {len(placed)} of {len(pods)}"
    if result.steps and result.steps[-1].pending != result.after.pending:
        yield f"after the last step {result.steps[-1].pending} are pending, in the end {result.after.pending}"
    if (result.before.nodes, result.after.nodes) != (len(world.nodes), len(nodes)):
        yield f"nodes told: {result.before.nodes} and {result.after.nodes}"
    # Who was there, has come, has been lost or taken away: the sum of it all.
    before = {f"default/{pod['metadata']['name']}" for pod in world.pods}
    new = {each.pod for each in result.pods if each.is_new}
    after = set(cluster.pods)
    if new != after - before:
        yield f"told as new: {sorted(new)}, and new are {sorted(after - before)}"


def misplaced(cluster, result):
    nodes = [plain(node) for node in cluster.nodes.values()]
    running = [pod for pod in cluster.pods.values() if pod.spec.node_name and not is_over(pod)]
    placed = [(as_checked(plain(pod)), pod.spec.node_name) for pod in running]
    by_name = {node["metadata"]["name"]: node for node in nodes}
    moved = {each.pod.partition("/")[2] for each in result.pods if each.node is not None}
    for name, node in by_name.items():
        here = [pod for pod, where in placed if where == name]
        has = {key: round(checker.number(each) * 1000) for key, each in node["status"]["allocatable"].items()}
        used = sum((checker.requests_of(pod) for pod in here), Counter())
        if len(here) * 1000 > has["pods"] or any(used[key] > has.get(key, 0) for key in used):
            yield f"{name} has {len(here)} pods that ask for {dict(used)} of {has}"
    for number, (pod, name) in enumerate(placed):
        if pod["metadata"]["name"] not in moved:
            continue
        # Cordons, taints, labels and skew may have come later than the pod; the rest holds for good.
        bare = {**pod, "spec": {k: each for k, each in pod["spec"].items() if k in ("containers", "affinity")}}
        node = {**by_name[name], "spec": {}}
        if pod_affinity_only(bare):
            bare["spec"].pop("affinity")
        if not checker.fits(bare, node, nodes, placed[:number] + placed[number + 1 :]):
            yield f"{pod['metadata']['name']} may not be on {name}"


def pod_affinity_only(pod):
    return "podAntiAffinity" not in pod["spec"].get("affinity", {})


def plain(obj):
    return pruned(msgspec.to_builtins(obj))


def pruned(value):
    if isinstance(value, dict):
        kept = {key: pruned(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, "", [], {}, False)}
    return [pruned(each) for each in value] if isinstance(value, (list, tuple)) else value


def as_checked(pod):
    for container in pod["spec"]["containers"]:
        container["ports"] = [port for port in container.get("ports", ()) if port.get("hostPort")]
    affinity = pod["spec"].get("affinity", {})
    pod["metadata"].setdefault("labels", {})
    pod["spec"]["affinity"] = affinity
    return pod
