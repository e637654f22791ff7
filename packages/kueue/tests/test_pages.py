"""What the workbench's page shows of queues: the entry point, the side bar, and what stands in the answer."""

import tomllib
from collections import defaultdict
from importlib.metadata import EntryPoint

import pytest

from berth_kueue.pages import PAGES
from berth_kueue.questions import explain, top
from berth_kueue.questions.top import BARS_SHOWN, PICTURES, TRIES, WAITING_SHOWN
from berth_workbench.page.views.forms import Form
from berth_workbench.showing.sections import Bars, Sentence, TableSection, Try
from berth_workbench.simulation.watch import UNWATCHED
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.shared import SharedSource
from packages.kueue.tests.clusters import (
    API,
    GPU,
    cluster_queue,
    documents,
    flavor,
    local_queue,
    situation,
    two_teams,
    workload,
)
from tests.paths import package


def cohort(name, parent=""):
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent}}


def answer(*objects):
    return top.answer(situation(*objects), top.TopRequest(), UNWATCHED)


def sections(found, kind):
    return [each for each in top.QUESTION.sections(found) if isinstance(each, kind)]


def table(found, title):
    return next(each for each in sections(found, TableSection) if each.title == title)


def listed(frame):
    return {view["name"]: group["name"] for group in frame._groups() for view in group["views"]}


def test_the_entry_point_leads_to_the_pages():
    project = tomllib.loads((package("berth_kueue").parents[1] / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["berth.pages"].items()
    assert EntryPoint(name, value, "berth.pages").load() is PAGES


@pytest.mark.parametrize(
    ("objects", "more"),
    [(two_teams(), {"Queues": "Cluster", "Why it waits": "Questions"}), ([flavor("h100")], {})],
)
async def test_the_side_bar_lists_queues_where_the_cluster_has_some(objects, more):
    pytest.importorskip("nicegui")
    from berth_workbench.page.views.frame import Frame
    from berth_workbench.page.views.pages import cluster_views, list_views

    class Source:
        title = taken = ""
        is_live = False

        async def snapshot(self):
            return Snapshot(documents(*objects))

        nodes = plugins = recent = node = story = fit = sample = configuration = pending = pods = None

    frame = Frame("", cluster_views(is_live=False), is_live=False, can_search=False)
    before, source = listed(frame), SharedSource(Source())
    source.noticed = lambda snapshot: list_views(frame, PAGES, snapshot)
    for _ in range(2):
        await source.snapshot()
        assert listed(frame) == before | more
    paths = [*(each.question.path for each in PAGES), *(view.path for view in cluster_views(is_live=True))]
    assert len(set(paths)) == len(paths)


def test_the_command_that_prints_the_same_is_in_kueues_group():
    assert Form(top.QUESTION).command({}) == "berth kueue top"
    assert Form(explain.QUESTION).command({"workloads": "team-a/first"}) == "berth kueue explain team-a/first"


def test_cohorts_stand_above_their_queues_with_what_is_lent():
    """team-a has 12 and uses 2; team-b has 12 and uses 16; research has 8 in the same tree, and alone has no cohort."""
    trees = [cohort("all", "company"), cohort("idle", "company")]
    more = [cluster_queue("research", {"h100": 8}, cohort="company"), cluster_queue("alone", {"h100": 3}, cohort="")]
    found = answer(*two_teams(), *trees, *more)
    gpus = [
        (each.name, each.depth, each.nominal, each.used, each.borrowed, each.lent)
        for each in found.tree
        if each.resource == GPU
    ]
    assert gpus == [
        ("company", 0, 32, 18, 0, 0),
        ("research", 1, 8, 0, 0, 0),  # with so much unused it gets all of its own, and so does team-a
        ("all", 1, 24, 18, 0, 0),
        ("team-a", 2, 12, 2, 0, 0),
        ("team-b", 2, 12, 16, 4, 0),
        ("alone", 0, 3, 0, 0, 0),
    ]
    lends = {each.name: each.lent for each in answer(*two_teams()).tree if each.resource == GPU}
    assert lends == {"all": 0, "team-a": 4, "team-b": 0}
    rows = table(found, "Cohorts and their queues").rows
    assert ("· └ team-b", "h100", GPU, "12", "16", "4", "0", "14") in rows
    assert ("company", "h100", "cpu", "3,000", "3", "0", "0", "2,997") in rows


def test_the_parts_of_a_bar_are_the_quota_and_what_is_borrowed():
    found = answer(*two_teams())
    (gpus,) = [each for each in sections(found, Bars) if each.title == f"{GPU} of h100"]
    bars = {label: tuple(gpus.series[name][at] for name in gpus.series) for at, label in enumerate(gpus.labels)}
    assert tuple(gpus.series) == ("used", "borrowed", "lent", "unused")
    assert bars == {"all": (18, 0, 0, 6), "└ team-a": (2, 0, 4, 6), "└ team-b": (12, 4, 0, 0)}
    assert sections(found, Bars)[0].title == gpus.title  # the fullest comes first


def test_those_who_wait_stand_in_order_with_the_sentence_of_explain():
    found = answer(*two_teams())
    asked = explain.answer(situation(*two_teams()), explain.ExplainRequest(), UNWATCHED)
    assert {each.workload: each for each in found.waiting} == {each.workload: each for each in asked.workloads}
    rows = table(found, "Who waits for what").rows
    assert [(row[0], row[2]) for row in rows] == [("team-a/tiny", "-"), ("team-a/first", 1), ("team-a/second", 2)]
    assert rows[1][3].text == f"team-a/first waits: it lacks 4 of 10 {GPU} in flavor h100."
    assert "insufficient unused quota" in rows[1][3].behind
    assert [each.typed for each in sections(found, Try)] == [
        {"workloads": "team-a/first"}, {"workloads": "team-a/second"},
    ]  # fmt: skip


def test_who_finds_the_quota_taken_by_those_before_it_lacks_it():
    objects = [*two_teams(), workload("team-a", "last", 1, 5, 30), workload("team-a", "later", 1, 5, 31)]
    found = answer(*objects)
    said = {row[0]: row[3].text for row in table(found, "Who waits for what").rows}
    assert said["team-a/last"] == "team-a/last would be admitted in the next scheduling cycles."
    lacks = (
        f"team-a/later waits: it lacks 5 of 5 {GPU} in flavor h100"  # of the 6 that are free, tiny and last take all
    )
    assert said["team-a/later"] == f"{lacks}, once those are admitted who come next."
    asked = explain.answer(situation(*objects), explain.ExplainRequest(("team-a/later",)), UNWATCHED)
    told = [each.text for each in explain.QUESTION.sections(asked) if isinstance(each, Sentence)]
    assert f"ClusterQueue team-a has 12 {GPU} of flavor h100 and then uses 8; team-b then borrows 4." in told


def test_of_many_the_first_are_shown_and_the_rest_is_counted():
    queues = [cluster_queue(f"q-{at:02d}", {"h100": 1}) for at in range(BARS_SHOWN + 5)]
    others = [cluster_queue("flavors", {f"f-{at}": 1 for at in range(PICTURES)}, cohort="other")]
    lines = [local_queue("many", f"q-{at:02d}", f"l-{at}") for at in range(2)]
    waiting = [workload("many", f"w-{at:03d}", 1, 99, at % 60) for at in range(WAITING_SHOWN + 20)]
    for at, each in enumerate(waiting):
        each["spec"]["queueName"] = f"l-{at % 2}"
    flavors = [flavor(name) for name in ("h100", *(f"f-{at}" for at in range(PICTURES)))]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "many"}}
    found = answer(space, *flavors, *queues, *others, *lines, *waiting)
    assert len(found.waiting) == WAITING_SHOWN and len(sections(found, Try)) == TRIES
    by_queue = defaultdict(list)
    for each in found.waiting:
        by_queue[each.cluster_queue].append(each.position)
    half = list(range(1, WAITING_SHOWN // 2 + 1))
    assert by_queue == {"q-00": half, "q-01": half}  # none is left out for the sake of a longer queue
    assert f"Of {WAITING_SHOWN + 20} that wait" in " ".join(each.text for each in sections(found, Sentence))
    bars = sections(found, Bars)
    assert len(bars) == PICTURES and max(len(each.labels) for each in bars) <= BARS_SHOWN
    assert len(found.tree) > len(queues) * 2


def test_cohorts_in_a_cycle_are_said_to_be_so():
    found = answer(*two_teams(), cohort("all", "other"), cohort("other", "all"))
    assert {each.cluster_queue: each.problem for each in found.queues} == dict.fromkeys(
        ("team-a", "team-b"), "is in a cycle of cohorts"
    )
    assert found.tree == () and [each.state for each in found.waiting] == ["Waiting"] * 3
