"""The rows of large tables: which part of them is told, and how often they are made."""

import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.showing.numbers import NOTHING
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource
from berth_workbench.sources.part_rows import WORKLOADS_KEPT, ClusterRows, PartRows
from berth_workbench.sources.shared import SharedSource
from packages.workbench.tests.sources.test_cluster_file import document

CELLS = [
    [{"text": "node-10", "href": "/a"}, "general", {"share": 0.5}, {"text": "1Gi", "value": 1 << 30}],
    [{"text": "node-9", "href": "/b"}, "GPU", NOTHING, {"text": "900Mi", "value": 900 << 20}],
    [{"text": "node-100", "href": "/c"}, "general", {"share": 0.25}, {"text": "0", "value": 0}],
]


class Answer:
    """A source's answer that can become another."""

    def __init__(self):
        self.value = object()

    async def get(self):
        return self.value


def table(rows, answer=None):
    made = []

    def make(found):
        made.append(found)
        return rows

    return PartRows(make, (answer or Answer()).get), made


def names(part):
    return [row[0]["text"] for row in part.rows]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, ["node-10", "node-9", "node-100"]),
        ({"by": 0, "is_down": False}, ["node-9", "node-10", "node-100"]),  # by the number, not by the letter
        ({"by": 2}, ["node-10", "node-100", "node-9"]),  # what has no share is below any
        ({"by": 3, "is_down": False}, ["node-100", "node-9", "node-10"]),  # by the amount, not by how it reads
        ({"find": "gpu"}, ["node-9"]),
        ({"find": "general 50%"}, ["node-10"]),  # all words, as they are read
        ({"find": "node-1 nothing"}, []),
        ({"by": 7}, ["node-10", "node-9", "node-100"]),  # there is no such column
    ],
)
async def test_rows_are_those_that_match_in_the_order_that_is_wanted(wish, expected):
    rows, _ = table(CELLS)
    part = await rows.part(10, **wish)
    assert (names(part), part.matching, part.all) == (expected, len(expected), 3)


async def test_a_part_says_how_many_rows_there_are():
    rows, _ = table(CELLS)
    part = await rows.part(1, "general")
    assert (names(part), part.matching, part.all) == (["node-10"], 2, 3)
    assert (await rows.part(-1)).rows == []


async def test_a_name_of_thousands_of_digits_has_its_place():
    rows, _ = table([[{"text": "9" * 10_000}], [{"text": "10"}]])
    assert names(await rows.part(2, by=0, is_down=False))[0] == "10"


async def test_rows_are_made_once_for_each_answer():
    answer = Answer()
    rows, made = table(CELLS, answer)
    for find in ("", "gpu", ""):
        await rows.part(10, find)
    assert made == [answer.value]
    answer.value = object()
    await rows.part(10)
    assert made[1:] == [answer.value]


def pod(name, workload, node=""):
    made = make_pod(name, "shop").request(cpu="1").owned_by("StatefulSet", workload)
    return made.node(node) if node else made


def cluster_rows(*pods):
    objects = [make_node(name).capacity(cpu="2", memory="8Gi", pods="10") for name in ("a", "b")]
    snapshot = Snapshot([document(each.build()) for each in (*objects, *pods)])
    return ClusterRows(SharedSource(ClusterFileSource("test", snapshot)))


async def test_the_pods_of_a_workload_those_that_are_pending_first():
    tables = cluster_rows(pod("db-0", "db", "a"), pod("db-1", "db", "a"), pod("db-2", "db"), pod("web-0", "web", "b"))
    part = await tables.of_workload("StatefulSet", "shop", "db").part(10)
    assert sorted((row[0]["text"], row[1]["text"]) for row in part.rows[1:]) == [("shop/db-0", "a"), ("shop/db-1", "a")]
    assert [cell["text"] for cell in part.rows[0]] == ["shop/db-2", "pending"]
    for nobody in (("Deployment", "shop", "db"), ("StatefulSet", "else", "db"), ("StatefulSet", "shop", "d")):
        assert (await tables.of_workload(*nobody).part(10)).all == 0


async def test_no_more_than_some_workloads_are_kept():
    tables = cluster_rows(pod("db-0", "db", "a"))
    kept = tables.of_workload("StatefulSet", "shop", "db")
    for number in range(WORKLOADS_KEPT - 1):
        tables.of_workload("Job", "shop", str(number))
    assert tables.of_workload("StatefulSet", "shop", "db") is kept
    for number in range(WORKLOADS_KEPT):
        tables.of_workload("Job", "shop", str(number))
    assert tables.of_workload("StatefulSet", "shop", "db") is not kept


async def test_nodes_the_fullest_first_and_workloads_with_their_pods():
    tables = cluster_rows(pod("web-0", "web", "b"), pod("db-0", "db"))
    assert names(await tables.nodes.part(10)) == ["b", "a"]
    rows = (await tables.workloads.part(10)).rows
    assert [(row[0]["text"], row[2], row[3]["text"]) for row in rows] == [("shop/db", 0, "1"), ("shop/web", 1, "0")]
