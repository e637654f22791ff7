"""How full every node was over the last hour."""

import base64

from berth.decisions.node_columns import NodeColumns, NodeGroups, ResourceAmounts
from berth_workbench.sources.levels import FULL, LevelHistory


def columns(**shares):
    names = list(shares)
    count = len(names)
    groups = NodeGroups(("",), [0] * count)
    cpu = ResourceAmounts("cpu", [1000 if share is not None else 0 for share in shares.values()],
                          [round(1000 * (share or 0)) for share in shares.values()])  # fmt: skip
    return NodeColumns(
        names, groups, groups, (cpu,), [0] * count, [10] * count, [False] * count, [False] * count, count
    )


def test_each_sample_has_a_byte_for_each_node_and_names_are_told_once():
    kept = LevelHistory()
    kept.add(10.0, columns(a=0.0, b=1.0))
    kept.add(20.0, columns(a=0.5, b=1.2))
    kept.add(30.0, columns(a=9.0, b=None, c=0.25))
    told = kept.document()
    assert told["times"] == [10.0, 20.0, 30.0]
    assert [(each["from"], list(each["names"])) for each in told["nodes"]] == [(0, ["a", "b"]), (2, ["a", "b", "c"])]
    levels = [list(base64.b64decode(each)) for each in told["levels"]]
    assert levels == [[0, FULL], [FULL // 2, FULL * 6 // 5], [255, 0, FULL // 4]]


def test_it_is_bounded_and_the_names_of_what_is_left_are_told():
    kept = LevelHistory(max_samples=2)
    for at in range(5):
        kept.add(float(at), columns(a=0.1) if at < 4 else columns(b=0.1))
    told = kept.document()
    assert told["times"] == [3.0, 4.0]
    assert [(each["from"], list(each["names"])) for each in told["nodes"]] == [(0, ["a"]), (1, ["b"])]
