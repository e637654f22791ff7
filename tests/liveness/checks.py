"""What must hold of a scheduler that relies on hints and memory: nobody waits in vain, memory deceives nobody."""

import numpy as np

from berth.api.pod import Pod
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.attempt import Attempt
from berth.cycle.schedule import Search, find_nodes
from berth.testing.invariants import check, check_plugins, decide

ATTRACTED = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Plugins for which one pod more may help another."""


def feasible_nodes(core, pod):
    """The names of the nodes that a pod fits now, worked out from scratch; none where the attempt is an error."""
    attempt = Attempt(core.profiles[pod.spec.scheduler_name], pod)
    search = Search(core.cache.table, lambda rows: int(rows[0]))
    with core.memos.switched(on=False):
        failure = find_nodes(search, attempt)
    if failure is not None:
        return []
    return sorted(core.cache.table.names[row] for row in attempt.found.nodes.row_array().tolist())


def waits_in_vain(core):
    """The pods that lie among the unschedulable though they fit a node: which nodes, and who rejected the pod."""
    waiting = [queued for queued in core.queue.unschedulable.values() if not queued.is_gated]
    if core.cache.assumed_count:  # pods that attract others are announced once they are bound
        waiting = [queued for queued in waiting if ATTRACTED.isdisjoint(queued.rejectors)]
    found = {queued.pod.key: (feasible_nodes(core, queued.pod), sorted(queued.rejectors)) for queued in waiting}
    return {key: answer for key, answer in found.items() if answer[0]}


def is_gated_in_vain(core):
    """The pods that are held back though nothing holds them back any more, and by whom they were."""
    gated = [queued for queued in core.queue.unschedulable.values() if queued.is_gated]
    unanswered = set(core.evictions.preemptors())  # they are let go when the API server has answered
    return {
        queued.pod.key: queued.gating_plugin
        for queued in gated
        if queued.pod.uid not in unanswered
        and core.profiles[queued.pod.spec.scheduler_name].run_pre_enqueue(queued.pod) is None
    }


def check_everything(life):
    """Hold every invariant, and what is remembered against a scheduler that sees the objects for the first time."""
    check_liveness(life)
    check_memory(life)


def check_liveness(life):
    """Nobody is lost or miscounted, or waits in vain."""
    core = life.cluster.core
    check(core)
    assert not waits_in_vain(core)
    assert not is_gated_in_vain(core)


def check_memory(life):
    """What is remembered equals what is worked out, by the same plugins, by new ones, and by a new scheduler."""
    core = life.cluster.core
    pods = [queued.pod for queued in core.queue if not queued.is_gated]
    if not pods:
        return
    pods = life.rng.sample(pods, min(2, len(pods)))
    for pod in pods:
        kept, afresh = shown(core, decide(core, pod, memos=True)), shown(core, decide(core, pod, memos=False))
        assert kept == afresh, f"pod {pod.key}: remembered {kept}, worked out {afresh}"
    check_plugins(core, pods[0], life.cluster.config, life.cluster.registry)
    if is_quiet(core):
        # Pods come last: one that is gated because its claim is not known yet would lose the room it was promised.
        objects = sorted(life.cluster.objects.values(), key=lambda obj: isinstance(obj, Pod))
        fresh = VirtualCluster(*objects, **life.options).core
        for pod in pods:
            again = fresh.queue.find(pod.uid)
            assert again is not None, f"pod {pod.key} is not queued by a new scheduler"
            if again.is_gated:  # for want of a claim that it has lost while it waited
                assert not feasible_nodes(core, pod), f"pod {pod.key} fits, but a new scheduler would hold it back"
                continue
            kept, afresh = (
                shown(core, decide(core, pod, memos=True)),
                shown(fresh, decide(fresh, again.pod, memos=True)),
            )
            assert kept == afresh, f"pod {pod.key}: remembered {kept}, rebuilt {afresh}"


def is_quiet(core):
    """Whether all that the scheduler knows is what the API server knows.

    A nomination that ended with its node is taken back when the pod is tried next: until then it stands in its status.
    So does that of a gated pod, which counts for nothing.
    """
    told = all(
        q.is_gated or q.pod.status.nominated_node_name == (core.nominator.node_of(q.pod.uid) or "") for q in core.queue
    )
    return told and not (
        core.is_cycle_open or core.cache.assumed_count or len(core.queue.in_flight) or len(core.objects.assumed)
    )


def shown(core, attempt):
    """What was found of the nodes, by name, so that schedulers can be compared whose rows differ."""
    names = core.cache.table.names
    rows = attempt.found.nodes.row_array() if attempt.found.nodes is not None else np.zeros(0, dtype=np.intp)
    scores = attempt.found.scored.by_plugin(rows) if attempt.found.scored is not None else []
    weighted = {s.plugin: np.broadcast_to(s.weighted, len(rows)).tolist() for s in scores}
    by_name = sorted(
        (names[row], {plugin: s[i] for plugin, s in weighted.items()}) for i, row in enumerate(rows.tolist())
    )
    if attempt.outcome.diagnosis is not None:
        attempt.outcome.diagnosis.post_filter_message = ""
    return {"nodes": by_name, "message": attempt.outcome.message}
