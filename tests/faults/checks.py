"""What must hold when a history has come to rest, by the server, the core's own invariants, and a new core."""

from collections import Counter

from berth.api.codec import decode
from berth.api.resources import RESOURCES
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Bind, EvictPod, Request
from berth.testing.invariants import check
from tests.liveness.checks import is_gated_in_vain, waits_in_vain

POD, NODE = RESOURCES["Pod"], RESOURCES["Node"]
FINISHED = ("Succeeded", "Failed")


def unsettled(history):
    """What still has to happen before the history is at rest, in words."""
    if not all(process.is_alive for process in history.processes):
        return ["a process is being started"]
    leader = history.leader
    if leader is None:
        return [
            f"{sum(p.scheduler is not None and p.scheduler.is_leading for p in history.processes)} processes schedule"
        ]
    found = [*_behind(history.server, leader), *_busy(leader)]
    if not found and history.plan.unschedulable_age_s is None:  # the flush by age may yet help
        found = list(_in_vain(leader.core))
    return found


def _behind(server, leader):
    """What the scheduler knows is what the server has."""
    for kind in ("Pod", "Node", "PersistentVolumeClaim", "PersistentVolume", "ResourceClaim", "ResourceSlice"):
        known = {(o.metadata.namespace, o.metadata.name): _version(o) for o in leader.scheduler.following.objects(kind)}
        there = {}
        for obj in server.store.objects(RESOURCES[kind]):
            if kind == "Pod" and (obj.get("status") or {}).get("phase") in FINISHED:
                continue
            if obj["metadata"].get("deletionTimestamp") and kind == "Pod":
                yield f"pod {obj['metadata']['name']} is being deleted"
            there[obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = (
                obj["metadata"]["uid"], obj["metadata"]["resourceVersion"],
            )  # fmt: skip
        for key in sorted(known.keys() | there.keys()):
            if known.get(key) != there.get(key):
                yield f"{kind} {key[1]} is {there.get(key)} on the server, and {known.get(key)} to the scheduler"


def _version(obj):
    return obj.metadata.uid, obj.metadata.resource_version


def _busy(leader):
    """The scheduler has nothing left to do, and waits for nothing."""
    scheduler, core = leader.scheduler, leader.scheduler.core
    counts = {
        "cycles are open": int(core.is_cycle_open),
        "things are unfinished": core.unfinished,
        "pods are in flight": len(core.queue.in_flight),
        "pods are assumed": core.cache.assumed_count,
        "objects are assumed": len(core.objects.assumed),
        "pods are to be tried": len(core.queue.active) + len(core.queue.backoff) + len(core.queue.error_backoff),
        "evictions are under way": len(core.evictions),
        "requests are under way": sum(scheduler.pending_calls.values()),
    }
    for what, count in counts.items():
        if count:
            yield f"{count} {what}"
    for queued in core.queue:
        told, known = queued.pod.status.nominated_node_name, core.nominator.node_of(queued.pod.uid) or ""
        if not queued.is_gated and told != known:
            yield f"pod {queued.pod.key} is nominated to {known!r}, and its status says {told!r}"


def problems(history):
    """What is wrong now that everything is at rest, in words."""
    server, core = history.server, history.leader.core
    try:
        check(core)
    except AssertionError as wrong:
        yield f"an invariant is broken: {wrong}"
    yield from _in_vain(core)
    yield from _undone(history)
    yield from _claimed_twice(server)
    yield from _mistold(core)


def _mistold(core):
    """Plugins know the pods that the core knows, and were told of each once."""
    known = {pod.uid: pod for pod in core.intake.pods}
    for plugin in (each.plugin for profile in core.profiles.values() for each in profile.plugins):
        if hasattr(plugin, "book"):
            yield from plugin.mistold
            if plugin.book != known:
                yield f"a plugin believes that other pods are there: {plugin.book.keys() ^ known.keys()}"


def _in_vain(core):
    """Who waits though nothing stands in the way; members of groups are not asked alone."""
    for what, waiting in (("waits", waits_in_vain(core)), ("is held back", is_gated_in_vain(core))):
        if found := {key: why for key, why in waiting.items() if not key.startswith("default/g-")}:
            yield f"somebody {what} in vain: {found}"


def _undone(history):
    """A scheduler that sees the cluster for the first time finds nothing left to do."""
    server = history.server
    pending = [pod for pod in server.pods() if not pod["spec"].get("nodeName")]
    if not pending:
        return
    kinds = [
        kind for kind in RESOURCES if kind not in ("Pod", "Lease", "Event", "ConfigMap", "PriorityClass", "Workload")
    ]
    fresh = VirtualCluster(config=history.config, plugins=history.named_plugins())
    fresh.answer_call = history.answer_extender
    for kind in (*kinds, "Pod"):
        for obj in server.store.objects(RESOURCES[kind]):
            fresh.put(decode(kind, obj))
    fresh.run()
    # Preemption may become possible by an event that no plugin which rejected the pod waits for; as upstream, a pod is
    # tried again by the flush then, where there is one.
    is_flushed = history.plan.unschedulable_age_s is None
    for effect in fresh.effects:
        if isinstance(effect, Request) and isinstance(effect.effect, Bind | EvictPod if is_flushed else Bind):
            what = "binds" if isinstance(effect.effect, Bind) else "evicts"
            yield f"left undone: a new scheduler {what} pod {effect.effect.pod.key} at once: {effect.effect}"


def _claimed_twice(server):
    """No volume belongs to two claims, and no device."""
    claims = server.store.objects(RESOURCES["PersistentVolumeClaim"])
    volumes = Counter(claim["spec"]["volumeName"] for claim in claims if claim["spec"].get("volumeName"))
    devices = Counter()
    for claim in server.store.objects(RESOURCES["ResourceClaim"]):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            devices[result["driver"], result["pool"], result["device"]] += 1
    for what, count in (volumes + devices).items():
        if count > 1:
            yield f"{what} is claimed {count} times"
