"""`berth top` in a terminal of 80 by 24, driven by Textual's pilot."""

import pytest
from textual.widgets import DataTable, Input, Static, TabbedContent

from berth.core.builders import make_node, make_pod
from berth_workbench.page.terminal import StoryScreen, Top, bar, sparks
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.cluster_file import ClusterFileSource
from berth_workbench.sources.source import SourceError
from packages.workbench.tests.sources.test_cluster_file import document

HOSTILE = "[red]x[/red][@click=app.quit]bye[/]\x1b[31m"


@pytest.fixture
def source():
    nodes = [
        make_node(f"node-{i:02d}").capacity(cpu="8", memory="32Gi").zone("z1").label("pool", HOSTILE if i else "first")
        for i in range(30)
    ]
    running = [make_pod(f"web-{i}").request(cpu="4").node(f"node-{i % 3 + 5:02d}") for i in range(6)]
    huge = [make_pod(f"huge-{i}").request(cpu="99") for i in range(3)]
    odd = make_pod("odd").request(cpu="1").node_selector({"disk": HOSTILE})
    built = [each.build() for each in (*nodes, *running, *huge, odd, make_pod("small").request(cpu="1"))]
    return ClusterFileSource("a cluster in a file", Snapshot([document(each) for each in built]))


async def settled(pilot):
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def screen_text(app):
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def rows(app, name):
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def text(app, name):
    return str(app.screen.query_one(f"#{name}", Static).render())


async def test_nodes_come_by_load_and_every_key_is_shown(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert [row[0] for row in rows(app, "node-table")[:4]] == ["node-05", "node-06", "node-07", "node-00"]
        assert rows(app, "node-table")[0][2].endswith(" 100%")
        assert text(app, "summary").startswith("30 nodes · 6 pods · 5 pending · cpu 10%")
        seen = screen_text(app)
        for key in (
            "Cluster: 1 Nodes",
            "2 Workloads",
            "Scheduler: 3 Decisions",
            "4 Queue",
            "s Sort",
            "/ Find",
            "? Keys",
        ):
            assert key in seen, key
        assert all(len(line) <= 80 for line in seen.splitlines())


async def test_all_keys_are_told_beside_the_tables(source):
    app = Top(source)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("question_mark")
        await settled(pilot)
        said = screen_text(app)
        assert "Leave the search" in said and "Ask again now" in said
        await pilot.press("question_mark")
        await settled(pilot)
        assert "Leave the search" not in screen_text(app)


async def test_what_is_cut_says_so(source, monkeypatch):
    monkeypatch.setattr("berth_workbench.page.terminal.ROWS", 7)
    app = Top(source)
    async with app.run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        assert len(rows(app, "node-table")) == 7
        assert text(app, "node-table-cut") == "7 of 30 nodes are shown, / finds the others"
        await pilot.press("slash", *"node-29")
        assert text(app, "node-table-cut") == "" and len(rows(app, "node-table")) == 1


async def test_gpus_stand_beside_cpu_and_memory():
    room = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4", "ephemeral-storage": "100Gi"}
    pod = make_pod("train").request(**{"cpu": "2", "nvidia.com/gpu": "3"}).node("gpu-0").build()
    objects = [make_node("gpu-0").capacity(**room).build(), pod]
    app = Top(ClusterFileSource("a cluster in a file", Snapshot([document(each) for each in objects])))
    async with app.run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        assert text(app, "summary").endswith("cpu 25% · memory 0% · nvidia.com/gpu 75%")
        assert [cell.split()[-1] for cell in rows(app, "node-table")[0][2:5]] == ["25%", "0%", "75%"]


async def test_names_are_shown_as_they_are(source):
    app = Top(source)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pools = {row[1] for row in rows(app, "node-table")}
        assert any("[red]x[/red][@click=app.quit]bye[/]" in pool for pool in pools)
        assert not any("\x1b" in pool for pool in pools)


async def test_nodes_are_sorted_by_another_resource_and_searched(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("s")
        assert rows(app, "node-table")[0][0] == "node-00"  # nobody requests memory: by name
        await pilot.press("slash", *"node-2")
        assert {row[0] for row in rows(app, "node-table")} == {f"node-2{i}" for i in range(10)}
        await pilot.press("enter")
        assert isinstance(app.focused, DataTable)
        await pilot.press("escape")
        assert len(rows(app, "node-table")) == 30 and app.query_one("#find", Input).value == ""


async def test_pending_pods_by_workload_what_would_help_and_the_story_of_one(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("2")
        assert app.query_one(TabbedContent).active == "pending"
        assert [row[0] for row in rows(app, "pending-table")] == ["3", "1", "1"]
        await pilot.press("down", "up")
        while app._ahead.is_at_work:
            await pilot.pause()
        await pilot.press("down", "up")
        assert rows(app, "pending-table")[0][2] == "Pods like default/huge-0"
        said = text(app, "pending-said")
        assert "Needs 99 CPU on one node, and node-00 has the most free, 8 of 8." in said
        assert "Request at most 8 CPU instead of 99 CPU." in said, said
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, StoryScreen)
        assert "could not be scheduled" in text(app, "told") and "Insufficient cpu" in text(app, "rest")
        await pilot.press("escape")
        assert not isinstance(app.screen, StoryScreen)


async def test_the_pods_of_one_namespace_are_shown_alone_and_nodes_as_they_are(source):
    app = Top(source, namespace="elsewhere")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert text(app, "summary").startswith("30 nodes · 6 pods · 0 pending in elsewhere")
        assert (rows(app, "pending-table"), rows(app, "pod-table")) == ([], [])
    app = Top(source, namespace="default")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert text(app, "summary").startswith("30 nodes · 6 pods · 5 pending in default")
        assert [row[0] for row in rows(app, "pending-table")] == ["3", "1", "1"]
        assert len(rows(app, "pod-table")) == 5


async def test_the_decision_matrix_of_a_pod_fits_the_screen(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("3", "slash", *"small", "enter", "enter")
        await settled(pilot)
        assert "default/small goes to" in text(app, "told")
        matrix = app.screen.query_one("#matrix", DataTable)
        assert matrix.row_count == 8 and str(matrix.get_row_at(0)[0]).startswith("node-")
        assert len(matrix.columns) == 6


async def test_the_queue_is_drawn(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("4")
        assert text(app, "line-in-unschedulable").split() == ["4", "pending,", "unschedulable", "█"]
        assert text(app, "line-as-scheduled").startswith("0 attempts/s, scheduled")


async def test_what_cannot_be_asked_is_told_and_the_last_state_stays(source):
    app = Top(source)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)

        async def fail():
            raise SourceError("the scheduler [b]does not[/b] answer")

        app._source = type("Failing", (), {"nodes": staticmethod(fail), "is_live": False})()
        await pilot.press("r")
        await settled(pilot)
        assert "the scheduler [b]does not[/b] answer" in text(app, "problem")
        assert len(rows(app, "node-table")) == 30


def test_a_bar_tells_a_share_and_never_grows_over_its_end():
    assert str(bar(0.5)) == "█████░░░░░  50%"
    assert str(bar(1.7)).startswith("█" * 10 + " ") and str(bar(None)) == "none"


def test_blocks_are_as_high_as_their_part_of_the_highest():
    assert sparks([0, 1, 4, 8]) == "▁▂▅█" and sparks([0, 0]) == "▁▁" and sparks([]) == ""
