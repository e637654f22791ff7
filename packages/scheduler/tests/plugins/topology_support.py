"""Small clusters for the plugins that look at other pods; both forms of a plugin are asked and compared."""

import numpy as np

from berth.api.node import Namespace, Node
from berth.api.pod import Pod
from berth.core.builders import make_node
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Code
from packages.scheduler.tests.plugins.support import handle_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SKIPPED = "skipped"


def cluster(*objects, gates=None):
    """A handle over nodes, running pods, namespaces and whatever else, given built or as builders."""
    built = [obj.build() if hasattr(obj, "build") else obj for obj in objects]
    handle = handle_of(*(obj for obj in built if isinstance(obj, Node | Pod)), gates=gates)
    for obj in built:
        if isinstance(obj, Namespace):
            handle.cache.set_namespace(obj.metadata.name, obj.metadata.labels)
        elif not isinstance(obj, Node | Pod):
            handle.objects.put(type(obj).__name__, obj)
    return handle


def zoned(name, zone):
    """A node in a zone."""
    return make_node(name).zone(zone)


def prepared(plugin, pod, state=None):
    """The state after PreFilter, or what PreFilter said instead."""
    state = state or CycleState()
    status = plugin.pre_filter(state, pod)
    if status is None:
        return state
    return SKIPPED if status.code is Code.SKIP else status


def verdicts(plugin, pod, handle):
    """What Filter says of each node: None, or its message. Asks by node, by domain, by column and by parts of it."""
    state = prepared(plugin, pod)
    if not isinstance(state, CycleState):
        return state
    table = handle.cache.table
    rows = table.rows()
    by_node = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    for subset in (rows, slice(None), rows[:2], rows[::2], rows[:0]):
        codes, describe = plugin.filter_columns(state, pod, table, subset)
        assert codes.dtype == np.int32
        asked = np.arange(table.capacity)[subset].tolist()
        answers = {row: describe(code) if code else None for row, code in zip(asked, codes.tolist(), strict=True)}
        expected = dict(zip(rows.tolist(), by_node, strict=True))
        assert {row: answers[row] for row in asked if row in expected} == {
            row: expected[row] for row in asked if row in expected
        }
    by_domain = plugin.filter_domains(state, pod)
    if by_domain is not None:
        codes = by_domain.codes.values[by_domain.codes.ids][rows].tolist()
        assert [by_domain.describe(code) if code else None for code in codes] == by_node
    return {
        table.names[row]: None if status is None else status.message
        for row, status in zip(rows.tolist(), by_node, strict=True)
    }


def rejected(plugin, pod, handle):
    """The names of the nodes that Filter rejects."""
    found = verdicts(plugin, pod, handle)
    return set() if found == SKIPPED else {name for name, message in found.items() if message is not None}


def scores(plugin, pod, handle, feasible=None):
    """Raw and normalised scores by node, or SKIPPED; asks by node, by column and by domain."""
    table = handle.cache.table
    mask = table.valid.copy()
    if feasible is not None:
        mask &= np.isin(np.array(table.names), list(feasible))
    state, nodes = CycleState(), FeasibleNodes(table, mask)
    status = plugin.pre_score(state, pod, nodes)
    if status is not None:
        assert status.code is Code.SKIP, status
        return SKIPPED
    rows = np.flatnonzero(mask)
    raw = plugin.score_columns(state, pod, table, nodes.rows)
    assert raw.dtype == np.int64
    assert raw.tolist() == [plugin.score(state, pod, table.view(row)) for row in rows.tolist()]
    assert raw.tolist() == plugin.score_columns(state, pod, table, slice(None))[rows].tolist()
    normal = plugin.normalize_score(state, pod, raw)
    by_domain = plugin.score_domains(state, pod)
    if by_domain is not None and len(rows):
        assert by_domain.values[by_domain.ids][rows].tolist() == raw.tolist()
        domains, of_row = np.unique(by_domain.ids[rows], return_inverse=True)
        once = plugin.normalize_score(state, pod, by_domain.values[domains].astype(np.int64))
        assert once[of_row.ravel()].tolist() == normal.tolist()
    names = [table.names[row] for row in rows.tolist()]
    return dict(zip(names, zip(raw.tolist(), normal.tolist(), strict=True), strict=True))


def normal_scores(plugin, pod, handle, feasible=None):
    """Normalised scores by node, or SKIPPED."""
    found = scores(plugin, pod, handle, feasible)
    return found if found == SKIPPED else {name: normal for name, (_, normal) in found.items()}


def hint_of(plugin, resource):
    """The hint that a plugin registers for a kind of object."""
    return next(r.hint for r in plugin.events_to_register() if r.event.resource == resource)
