"""Checks what must hold of a core between any two events, by computing everything again from the objects.

`check(core)` raises an AssertionError that says what differs. It is slow; tests call it after each step.
"""
# ruff: noqa: SLF001 - checking what is kept means reading private state

from collections import Counter
from typing import Any

import numpy as np

from berth.api.pod_resources import CPU, MEMORY, PODS
from berth.api.quantity import counted, milli_value, value
from berth.config.types import SchedulerConfiguration
from berth.core import questions
from berth.core.core import Core
from berth.cycle.attempt import Attempt
from berth.engine.build import build_profiles
from berth.engine.profile import Profile
from berth.framework.handle import ClusterState, Handle
from berth.framework.registry import Registry
from berth.plugins.dra.plugin import DynamicResources
from berth.plugins.preemption.by_rules import PreemptionByRules
from berth.queue.queue import SchedulingQueue
from berth.queue.unschedulable import RejectedBy
from berth.state.cache import Cache
from berth.state.label_index import ABSENT
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import Memory


def check(core: Core) -> None:
    """Check cache, queue and nominator, and that no pending pod is lost."""
    check_cache(core.cache)
    check_queue(core.queue)
    check_nominator(core.nominator)
    _check_pods(core)


def check_cache(cache: Cache) -> None:
    """Compare columns, counts and indexes with the objects they were made from."""
    table = cache.table
    for row in range(table.capacity):
        _check_pods_of_row(table, row, {u: s.pod for u, s in cache.states().items() if s.row == row})
        _check_node_of_row(table, row)
    named = {name: row for row, name in enumerate(table.names) if name}
    assert table.row_of == named, "names and rows disagree"
    assert table.node_count == int(table.valid.sum()), "the number of nodes is wrong"
    assert sorted(table.tree.order()) == np.flatnonzero(table.valid).tolist(), "the node tree holds other rows"
    free = sorted(table._free)
    assert free == [row for row, name in enumerate(table.names) if not name], "free rows are lost or used"
    _check_resources(table)
    priorities = Counter(state.pod.priority for state in cache.states().values())
    assert table.pods_by_priority == priorities, "pods are counted under other priorities"
    cache.index.validate()


def check_queue(queue: SchedulingQueue) -> None:
    """Check that each pod is in at most one place, and that all that is in a heap can be popped from it."""
    places = Counter(queued.pod.uid for queued in queue)
    places.update(list(queue.in_flight._started))
    twice = [uid for uid, count in places.items() if count > 1]
    assert not twice, f"in more than one place: {twice}"
    for heap in (queue.active, queue.backoff, queue.error_backoff):
        live = [q for _, token, q in heap._entries if q.token == token and heap.get(q.pod.uid) is q]
        assert len(live) == len(heap), "a heap has pods that will never be popped"
        assert len(heap._entries) <= 64 + 3 * len(heap), "a heap keeps too many stale entries"
    waiting = queue.unschedulable
    filed = {uid: (why, shape) for why, by_shape in waiting.alike() for shape, pods in by_shape.items() for uid in pods}
    assert filed == {queued.pod.uid: (RejectedBy.of(queued), queued.pod.shape) for queued in waiting.values()}
    assert list(waiting) == sorted(waiting, key=lambda uid: waiting.number(waiting[uid])), "not in order of arrival"
    assert len(queue.in_flight) or not queue.in_flight.event_count, "events are kept though nothing is in flight"


def check_nominator(nominator: Nominator) -> None:
    """Check that nominations by pod and by node agree."""
    forth = {uid: node for node in nominator.nodes() for uid in (pod.uid for pod in nominator.pods_on(node))}
    assert forth == nominator._node_of, "nominations by pod and by node disagree"
    assert all(nominator.pods_on(node) for node in nominator.nodes()), "a node without nominations is kept"


def decide(core: Core, pod: PodInfo, *, memos: bool, profile: Profile | None = None) -> Attempt:
    """Return what would be decided about a pod now, with the first of equals chosen; nothing is assumed.

    The pod's profile decides, or the one that is given. Where PostFilter needs an answer from outside, what was found
    before that is all there is.
    """
    with core.memos.switched(on=memos):
        return questions.decide(core, pod, questions.unanswered, profile=profile, search=questions.search_beside(core))


def check_memos(core: Core, pod: PodInfo) -> None:
    """Compare a decision with memos to one without: feasible nodes, each plugin's scores, messages."""
    kept, fresh = (_shown(decide(core, pod, memos=memos)) for memos in (True, False))
    assert kept == fresh, f"pod {pod.key}: with memos {kept}, without {fresh}"


def check_plugins(core: Core, pod: PodInfo, config: SchedulerConfiguration, registry: Registry) -> None:
    """Compare what plugins remember of volumes, devices and pods to plugins made anew over the same state."""
    afresh = rebuilt_profiles(core, config, registry)[pod.profile_name]
    kept = _shown(decide(core, pod, memos=False))
    fresh = _shown(decide(core, PodInfo.of(pod.pod), memos=False, profile=afresh))
    assert kept == fresh, f"pod {pod.key}: its plugins say {kept}, new ones {fresh}"


def rebuilt_profiles(core: Core, config: SchedulerConfiguration, registry: Registry) -> dict[str, Profile]:
    """Return the core's profiles with plugins made anew, which take over only the reservations still under way."""
    nominator = _same_nominations(core.nominator)
    state = ClusterState.of(core.cache, core.objects, nominator=nominator, waiting=core.waiting)
    handle = Handle(state, config.feature_gates, lambda: core.now, preempting=PreemptionByRules)
    profiles = build_profiles(config, registry, handle, Memory(core.cache, core.objects, core.nominator, enabled=False))
    for name, own in core.profiles.items():
        for old, new in zip(_plugins(own), _plugins(profiles[name]), strict=True):
            if isinstance(old, DynamicResources):  # reservations are kept nowhere else
                new._ledger._pending, new._ledger._written = dict(old._ledger._pending), dict(old._ledger._written)
                for claim in old._ledger._pending.values():
                    new._ledger._allocated.add(claim, new._ledger._consumable)
                new._ledger._uid_of = dict(old._ledger._uid_of)
                new._ledger._outdated = set(old._ledger._written)
    return profiles


def _same_nominations(nominator: Nominator) -> Nominator:
    """Return a copy of the nominator, so that these plugins do not become watchers of the core's own."""
    same = Nominator()
    for node_name in nominator.nodes():
        for pod in nominator.pods_on(node_name):
            same.nominate(pod, node_name)
    return same


def _plugins(profile: Profile) -> list[Any]:
    return [plugin.plugin for plugin in profile.plugins]


def _shown(attempt: Attempt) -> dict[str, object]:
    rows = attempt.found.nodes.row_array() if attempt.found.nodes is not None else np.zeros(0, dtype=np.intp)
    scores = attempt.found.scored.by_plugin(rows) if attempt.found.scored is not None else []
    return {
        "rows": rows.tolist(),
        "chosen": attempt.outcome.chosen_row,
        "message": attempt.outcome.message,
        "scores": {s.plugin: np.broadcast_to(s.weighted, len(rows)).tolist() for s in scores},
        "total": attempt.found.scored.total(rows).tolist() if attempt.found.scored is not None else None,
    }


def _check_pods(core: Core) -> None:
    queued = {q.pod.uid: q.pod for q in core.queue}
    for pod in tuple(core.intake._pods.values()):
        state = core.cache.state_of(pod.uid)
        if pod.node_name:
            assert state is not None and not state.assumed, f"pod {pod.key} is bound but not counted"
            assert core.cache.table.names[state.row] == pod.node_name, f"pod {pod.key} is counted on another node"
            assert pod.uid not in queued, f"pod {pod.key} is bound and queued"
        elif pod.spec.scheduler_name in core.profiles and not pod.is_terminating:
            is_bound = state is not None  # assumed: it is being bound, or the watch has yet to bring it
            assert is_bound or pod.uid in queued or pod.uid in core.queue.in_flight, f"pod {pod.key} is lost"
            assert state is None or pod.uid not in queued, f"pod {pod.key} is assumed and queued"
    known = {pod.uid for pod in core.intake._pods.values()}
    gone = core.cache.states().keys() - known
    assert not gone, f"counted though they are gone: {sorted(gone)}"
    assert queued.keys() <= known, f"queued though they are gone: {sorted(queued.keys() - known)}"
    nominated = {pod.uid for node in core.nominator.nodes() for pod in core.nominator.pods_on(node)}
    assert nominated <= known, f"nominated though they are gone: {sorted(nominated - known)}"


def _check_pods_of_row(table: NodeTable, row: int, pods: dict[str, PodInfo]) -> None:
    where = f"row {row} ({table.names[row]})"
    assert dict(table.pods[row]) == pods, f"{where}: other pods than the cache counts there"
    for resource, index in table.resource_index.items():
        expected = sum(pod.requests.get(resource, 0) for pod in pods.values())
        assert table.requested[index, row] == expected, f"{where}: requested {resource}"
    assert table.pod_count[row] == len(pods), f"{where}: number of pods"
    scoring = np.array([pod.scoring_requests for pod in pods.values()], dtype=np.int64).reshape(-1, 2).sum(axis=0)
    assert table.scoring_requested[:, row].tolist() == scoring.tolist(), f"{where}: requests for scoring"


def _check_resources(table: NodeTable) -> None:
    """Check that exactly the resources that something names have columns, and that free columns are empty."""
    named = {resource for node in table.nodes if node is not None for resource in node.status.allocatable} - {PODS}
    for pods in table.pods:
        named.update(resource for pod in pods.values() for resource, amount in pod.requests.items() if amount)
    assert table.resource_index.keys() == named | {CPU, MEMORY}, (
        "other resources have columns than those that are named"
    )
    indices = [*table.resource_index.values(), *table._free_columns]
    assert sorted(indices) == list(range(len(table.allocatable))), "columns are lost, or belong to two resources"
    for index in table._free_columns:
        assert not table.allocatable[index].any() and not table.requested[index].any(), (
            f"free column {index} is not empty"
        )


def _check_node_of_row(table: NodeTable, row: int) -> None:
    node, where = table.nodes[row], f"row {row} ({table.names[row]})"
    assert (node is not None) == bool(table.valid[row]), f"{where}: valid without a node, or not valid with one"
    amounts = {} if node is None else dict(node.status.allocatable)
    for resource, index in table.resource_index.items():
        expected = counted((milli_value if resource == CPU else value)(amounts.get(resource, 0)))
        assert table.allocatable[index, row] == expected, f"{where}: allocatable {resource}"
    assert table.allowed_pods[row] == value(amounts.get(PODS, 0)), f"{where}: allowed pods"
    taints = () if node is None else node.spec.taints
    assert table.taint_sets[table.taint_set_ids[row]] == taints, f"{where}: taints"
    assert bool(table.unschedulable[row]) == (node is not None and node.spec.unschedulable), f"{where}: unschedulable"
    for key in tuple(table.labels):
        column = table.label(key)
        label = None if node is None else node.metadata.labels.get(key)
        found = None if column.ids[row] == ABSENT else column.values[column.ids[row]]
        assert found == label, f"{where}: label {key}"
    if node is not None:
        assert set(table.view(row).pods) == set(table.pods[row]), f"{where}: the view is out of date"
