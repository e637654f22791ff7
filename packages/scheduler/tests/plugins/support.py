"""A small cluster for one plugin, both forms of which are asked and compared."""

import numpy as np

from berth.api.node import Node
from berth.config.feature_gates import feature_gates
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.handle import ClusterState, Handle
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Code
from berth.state.cache import Cache
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo


def handle_of(*objects, gates=None):
    """A handle over these nodes and (bound) pods."""
    cache = Cache(capacity=4)
    for obj in objects:
        if isinstance(obj, Node):
            cache.put_node(obj)
        else:
            cache.add_pod(PodInfo.of(obj))
    return Handle(ClusterState.of(cache, ObjectStore()), feature_gates(gates or {}), lambda: 0.0)


def filtered(plugin, pod, handle):
    """The reason each node is rejected for, None where it passes; asks by node, by column and by parts of columns."""
    state, table = CycleState(), handle.cache.table
    rows = table.rows()
    by_node = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    for subset in (slice(None), rows, rows[:2], rows[-1:], rows[::2], rows[:0]):
        codes, describe = plugin.filter_columns(state, pod, table, subset)
        asked = np.arange(table.capacity)[subset]
        assert codes.dtype == np.int32
        assert codes.shape == asked.shape
        answers = {row: describe(int(code)) if code else None for row, code in zip(asked, codes, strict=True)}
        assert [answers[row] for row in rows if row in answers] == [
            status for row, status in zip(rows, by_node, strict=True) if row in answers
        ]
    for status in by_node:
        assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return {
        table.names[row]: None if status is None else status.message for row, status in zip(rows, by_node, strict=True)
    }


def raw_scores(plugin, pod, handle):
    """The raw score of each node; asks by node, by column and by parts of columns."""
    state, table = CycleState(), handle.cache.table
    rows = table.rows()
    by_node = [plugin.score(state, pod, table.view(row)) for row in rows.tolist()]
    for subset in (slice(None), rows, rows[:2], rows[-1:], rows[::2], rows[:0]):
        scores = plugin.score_columns(state, pod, table, subset)
        asked = np.arange(table.capacity)[subset]
        assert scores.dtype == np.int64
        assert scores.shape == asked.shape
        answers = dict(zip(asked.tolist(), scores.tolist(), strict=True))
        assert [answers[row] for row in rows if row in answers] == [
            score for row, score in zip(rows, by_node, strict=True) if row in answers
        ]
    return {table.names[row]: score for row, score in zip(rows.tolist(), by_node, strict=True)}


def normalized(plugin, pod, handle):
    """The normalised score of each node, as if all were feasible."""
    raw = raw_scores(plugin, pod, handle)
    scores = plugin.normalize_score(CycleState(), pod, np.array(list(raw.values()), dtype=np.int64))
    return dict(zip(raw, scores.tolist(), strict=True))


def pre_scored(plugin, pod, handle):
    """What PreScore says with all nodes feasible."""
    table = handle.cache.table
    return plugin.pre_score(CycleState(), pod, FeasibleNodes(table, table.valid))


def diagnosed(handle, **statuses):
    """A diagnosis in which the named nodes were rejected with these statuses."""
    table = handle.cache.table
    diagnosis = Diagnosis(len(table), table.names.__getitem__)
    for name, status in statuses.items():
        diagnosis.add(status, np.array([table.row_of[name]], dtype=np.intp))
    return diagnosis


def registered(plugin):
    """The events a plugin registers for, as (resource, action) pairs."""
    return {(registration.event.resource, registration.event.action) for registration in plugin.events_to_register()}


def hint(plugin, resource):
    """The hint a plugin registers for a kind of object."""
    return next(r.hint for r in plugin.events_to_register() if r.event.resource == resource)
