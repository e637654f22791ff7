"""Random small clusters that change, and both forms of a plugin compared on them."""

import numpy as np
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.promises import promises_of

AMOUNTS = {
    "cpu": ("0", "50m", "1", "1500m", "4"),
    "memory": ("0", "1", "100Mi", "3Gi", "65Ti"),
    "ephemeral-storage": ("0", "1Gi", "20Gi"),
    "example.com/gpu": ("0", "1", "2"),
    "hugepages-2Mi": ("0", "2Mi"),
}
NAMES = ("a", "b", "c", "d", "e")


def amounts():
    """Some resources and how much of each."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in AMOUNTS.items()})


def pods():
    """A pod of one or two containers."""
    return st.lists(amounts(), min_size=1, max_size=2).map(_pod)


def _pod(containers):
    pod = make_pod("incoming")
    for requests in containers:
        pod.request(requests)
    return pod.info()


def changes():
    """Things that happen to a cluster: (what, node name, amounts)."""
    what = st.sampled_from(("put node", "remove node", "add pod", "add pod", "remove pod"))
    return st.lists(st.tuples(what, st.sampled_from(NAMES), amounts()), min_size=1, max_size=12)


def apply(cache, number, change):
    """Let one of `changes` happen."""
    what, name, given = change
    if what == "put node":
        cache.put_node(make_node(name).capacity({"pods": number % 3 + 1, **given}).build())
    elif what == "remove node":
        cache.remove_node(name)
    elif what == "add pod":
        cache.add_pod(make_pod(f"p{number}").request(given).node(name).info())
    elif cache.states():
        cache.remove_pod(min(cache.states()))


def subsets(table):
    """Ways of asking for rows: all, the nodes, one of them, some of them, none."""
    rows = table.rows()
    return slice(None), rows, rows[:1], rows[:5], rows[::2], np.concatenate([rows, rows, rows]), rows[:0]


def same_verdicts(plugin, pod, table):
    """Compare both forms of Filter on every node; return the statuses by node name."""
    state, found = CycleState(), {}
    plain = {row: plugin.filter(state, pod, table.view(row)) for row in table.rows().tolist()}
    for subset in subsets(table):
        codes, describe = plugin.filter_columns(state, pod, table, subset)
        asked = np.arange(table.capacity)[subset]
        assert codes.dtype == np.int32
        assert codes.shape == asked.shape
        for row, code in zip(asked.tolist(), codes.tolist(), strict=True):
            if table.valid[row]:
                assert (describe(code) if code else None) == plain[row]
                found[table.names[row]] = plain[row]
    for row, status in plain.items() if promises_of(type(plugin)).filters_by_row else ():
        code = plugin.filter_row(state, pod, table, row)
        assert (describe(code) if code else None) == status, f"row {row} by itself"
    return found


def same_scores(plugin, pod, table):
    """Compare both forms of Score on every node; return the scores by node name."""
    state, found = CycleState(), {}
    plain = {row: plugin.score(state, pod, table.view(row)) for row in table.rows().tolist()}
    for subset in subsets(table):
        scores = plugin.score_columns(state, pod, table, subset)
        asked = np.arange(table.capacity)[subset]
        assert scores.dtype == np.int64
        assert scores.shape == asked.shape
        for row, score in zip(asked.tolist(), scores.tolist(), strict=True):
            if table.valid[row]:
                assert score == plain[row]
                found[table.names[row]] = score
    for row, score in plain.items() if promises_of(type(plugin)).scores_by_row else ():
        assert plugin.score_row(state, pod, table, row) == score, f"row {row} by itself"
    return found


def big_cluster(cache, seed):
    """Add fifty nodes of all sizes and three times as many pods; another seed changes them all."""
    choices = list(AMOUNTS.items())
    for number in range(50):
        given = {name: values[(number * 7 + seed + i) % len(values)] for i, (name, values) in enumerate(choices)}
        cache.put_node(make_node(f"n{number}").capacity({"pods": number % 4, **given}).build())
    for number in range(150):
        given = {name: values[(number * 5 + seed + i) % len(values)] for i, (name, values) in enumerate(choices)}
        cache.add_pod(make_pod(f"p{seed}-{number}").request(given).node(f"n{number * 3 % 50}").info())
