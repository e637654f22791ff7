"""The page in a browser: every view, signed in and not, with names and messages that try to be scripts.

One test, since the server and the browser take seconds to start; each step is a function of its own. The pictures are
in the test's temporary directory.
"""

import asyncio
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import aiohttp
import numpy as np
import pytest

from berth.api.resources import RESOURCES
from berth_workbench.showing import numbers
from berth_workbench.simulation.measures import waiting_times
from berth_workbench.traces.result import Sample, SimulatedTime, TimeLine
from packages.workbench.tests.page.browser import browsing, chromium_path
from tests.e2e.processes import BERTH, Api, Process, free_port

pytestmark = pytest.mark.long

HOSTILE = "<script>alert(1)</script>{{7*7}}${8*8}`\"'><img src=x onerror=alert(2)>"


def cluster():
    items = []
    for number in range(60):
        name, pool = f"node-{number:02d}", ("general", "gpu", HOSTILE)[number % 3]
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ({"gpu.example/x": "4"} if pool == "gpu" else {})
        items.append({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"pool": pool, "topology.kubernetes.io/zone": f"zone-{number % 4}"}},
            "spec": {"unschedulable": number == 7},
            "status": {"allocatable": amounts, "capacity": amounts},
        })  # fmt: skip
    items += [pod(f"web-{number}", cpu="1", node=f"node-{number % 20:02d}") for number in range(50)]
    items += [pod("too-much", cpu="9", node="node-59")]
    items[0]["spec"]["taints"] = [{"key": "own.example/dedicated", "value": "web", "effect": "PreferNoSchedule"}]
    items += [pod(f"huge-{number}", cpu="99") for number in range(3)]
    items += [pod("small", cpu="1"), pod(HOSTILE, cpu="99", namespace="odd"), pod("picky", cpu="1", selector=HOSTILE)]
    items.append({
        "kind": "ElasticQuota", "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "metadata": {"name": HOSTILE, "namespace": "default"}, "spec": {"min": {"cpu": "40"}, "max": {"cpu": "100"}},
    })  # fmt: skip
    return {"kind": "List", "apiVersion": "v1", "items": items}


def pod(name, *, cpu, node=None, namespace="default", selector=None):
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}
    spec |= {"nodeName": node} if node else {}
    spec |= {"nodeSelector": {"disk": selector}} if selector else {}
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def lived():
    """Four hours of two nodes, and then of three."""
    line = TimeLine()
    for hour in range(4):
        names = ["a", "b"] if hour < 2 else ["a", "b", HOSTILE]
        line.note(hour * 3600.0, names, np.linspace(0.1, 1.0, len(names)))
    return line


def result():
    samples = [Sample(hour * 3600.0, 0.5, 0.25, 10 * hour, hour, 60.0, 3, 2, hour, 0, 0.9) for hour in range(4)]
    waits = waiting_times([1.0, 2.0])
    return SimulatedTime(
        source=f"a day of {HOSTILE}", seed=0, seconds=4 * 3600.0, made=40, bound=39, finished=30, failed=1, preempted=0,
        waiting=1, never_placed=1, waits=waits, waits_by_namespace={HOSTILE: waits}, cpu=0.5, memory=0.25, fairness=0.9,
        cost=12.5, samples=tuple(samples), messages={f"0/3 nodes are available: {HOSTILE}.": 1},
    )  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The link that opens a page, its address, and the file with its cluster."""
    chromium_path()
    directory = tmp_path_factory.mktemp("served")
    file = directory / "cluster.json"
    file.write_text(json.dumps(cluster()))
    line = directory / "line.json"
    lived().write(line, result())
    process = Process(directory / "log", "ui", "--cluster", file, "--timeline", line)
    try:
        process.wait_until_it_says("Ctrl-C")
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.said())
        yield found[0], found[1], file
    finally:
        code = process.end()
    assert code == 0, process.said()
    assert process.said().count("\n") == 3, process.said()


def test_every_view(served, tmp_path):
    link, url = served[0], served[1]
    asyncio.run(strangers_are_refused(url))
    with browsing(url) as visitor:
        signing_in(visitor, link)
        the_overview(visitor, tmp_path)
        the_map(visitor, tmp_path)
        a_node_on_the_map(visitor, tmp_path)
        the_map_by_keyboard(visitor)
        the_scores_of_a_pod(visitor, tmp_path)
        the_table_of_nodes(visitor, tmp_path)
        workloads_and_what_is_pending(visitor, tmp_path)
        pods_and_a_story(visitor, tmp_path)
        the_side_bar(visitor, tmp_path)
        what_would_help(visitor, tmp_path)
        what_if(visitor, tmp_path)
        a_question_by_keyboard(visitor)
        a_new_question_ends_the_old(visitor)
        an_answer_is_kept(visitor)
        the_answer_is_the_commands(visitor, served[2])
        numbers_are_the_same_everywhere(visitor)
        how_many_more_fit(visitor, tmp_path)
        what_quotas_guarantee(visitor, tmp_path)
        what_can_be_lost(visitor, tmp_path)
        moves_step_by_step(visitor, tmp_path)
        two_configurations(visitor, tmp_path)
        weights_are_searched(visitor, tmp_path)
        everything_is_searched(visitor)
        the_time_line(visitor, tmp_path)
        the_theme_is_kept(visitor)
        signing_out(visitor)


SHADOW = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  shadow: {of: default-scheduler, percentage: 100}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""


def test_a_scheduler_at_work(tmp_path):
    chromium_path()
    port = free_port()
    (tmp_path / "shadow.yaml").write_text(SHADOW)
    process = Process(tmp_path / "log", "up", "--nodes", 3, "--node-cpu", 4, "--dir", tmp_path / "up", "--ui",
                      "--scheduler-port", port, "--config", tmp_path / "shadow.yaml")  # fmt: skip
    try:
        process.wait_until_it_says("Ctrl-C")
        link, url = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.said()).group(0, 1)
        api = Api(tmp_path / "up/kubeconfig")
        for name, cpu in (("web", "1"), ("huge", "9")):
            api.create(RESOURCES["Pod"], pod(name, cpu=cpu), "default")
        with browsing(url) as visitor:
            visitor.page.goto(link)
            visitor.page.wait_for_url(visitor.url + "/")
            what_goes_on_is_shown(visitor, api, tmp_path)
    finally:
        code = process.end()
    assert code == 0, process.said()


def what_goes_on_is_shown(visitor, api, tmp_path):
    visitor.open("/workloads")
    visitor.until("document.querySelector('main').innerText.includes('Needs 9 CPU on one node')")
    visitor.open("/pods/default/web")
    assert "default/web goes to node-" in visitor.text() and "arrived" in visitor.text()
    visitor.check(tmp_path / "story")
    visitor.open("/queue")
    visitor.until("document.querySelector('.tiles').innerText.replace(/\\s+/g, ' ').includes('unschedulable 1')")
    told = "[...document.querySelectorAll('.plot')].map((each) => each.getAttribute('aria-label'))"
    visitor.until(f"{told}[0].includes('unschedulable now 1')")
    visitor.until(f"{told}[1].includes('scheduled now 0')")
    visitor.page.locator(".plot").first.focus()
    visitor.page.keyboard.press("End")
    assert "unschedulable 1" in visitor.page.locator(".chart [aria-live=polite]").first.text_content()
    visitor.open("/last-hour")
    painted(visitor)
    visitor.until("/each of 3 nodes, /.test(document.querySelector('canvas.map').getAttribute('aria-label'))")
    visitor.check(tmp_path / "queue")
    visitor.open("/decisions")
    made = RESOURCES["Pod"]
    with ThreadPoolExecutor(1) as elsewhere:  # the browser's own loop runs in this thread
        elsewhere.submit(api.create, made, pod("later", cpu="1"), "default").result()
    visitor.until("document.querySelector('main').innerText.includes('default/later')")
    visitor.open("/plugins")
    shadow = visitor.page.get_by_role("region", name="Shadow packed")
    shadow.get_by_text("packed, a shadow of default-scheduler").wait_for()
    assert re.search(r"\d attempts? at 100% of the pods", shadow.inner_text())
    visitor.check(tmp_path / "plugins")
    visitor.open("/nodes")
    visitor.page.wait_for_selector("tbody tr")
    before = visitor.text("tbody")
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(api.create, made, pod("even-later", cpu="1"), "default").result()
    visitor.until(f"document.querySelector('tbody').innerText !== {json.dumps(before)}")


async def strangers_are_refused(url):
    async with aiohttp.ClientSession() as session:
        for path in (
            "/",
            "/workloads",
            "/data/nodes",
            "/assets/page.css",
            "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
        ):
            async with session.get(url + path) as answer:
                assert answer.status == 401, path
        socket = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url + socket, origin=url)
        assert refused.value.status == 401
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url + socket, origin="http://evil.example")
        assert refused.value.status == 403
        async with session.get(url, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403


def signing_in(visitor, link):
    with visitor.complaining_of("401"):
        visitor.page.goto(visitor.url + "/workloads")
    assert visitor.page.get_by_label("Token").is_visible()
    visitor.page.goto(link)
    visitor.page.wait_for_url(visitor.url + "/")
    visitor.page.wait_for_selector("main h1")
    (cookie,) = visitor.page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["name"].startswith("berth-page-")


def painted(visitor):
    visitor.until("performance.getEntriesByName('berth-map-painted').length > 0")


def the_overview(visitor, tmp_path):
    visitor.open("/")
    page = visitor.page
    tiles = " ".join(visitor.text(".tiles").split())
    assert "Nodes 60 1 cordoned" in tiles and "Pods on nodes 51" in tiles
    assert "Over 100% 1 node with too much on" in tiles
    full = " ".join(page.get_by_role("region", name="How full").inner_text().split())
    assert "CPU 12% 59 of 480" in full, "51 pods of one CPU, but for one of nine, on 60 nodes of eight"
    fullest = page.get_by_role("region", name="Fullest nodes").locator("tbody tr").first
    assert fullest.inner_text().split()[0] == "node-59" and "113%" in fullest.inner_text()
    assert fullest.locator(".bar.over").count() == 1, "what is over 100% does not look like what is full"
    attention = page.get_by_role("region", name="What needs attention")
    attention.get_by_text("More is being worked out").wait_for(state="detached")
    said = " ".join(attention.inner_text().split())
    assert "6 pods pending, of 4 workloads" in said and "cannot be lost: " in said and "could go, of " in said, said
    asked = {link.inner_text().splitlines()[-1]: link.get_attribute("href") for link in attention.locator("a").all()}
    assert asked["Survive"] == "/survive?kinds=node%2C+zone" and "/autoscale?groups=" in asked["Autoscale"]
    assert asked["Workloads"] == "/workloads"
    assert "unknown" not in visitor.text()
    visitor.check(tmp_path / "overview")
    fullest.get_by_role("link").click()
    page.wait_for_url(lambda url: url.endswith("/map?node=node-59"))


def the_map(visitor, tmp_path):
    visitor.open("/map")
    painted(visitor)
    label = visitor.page.locator("canvas.map").get_attribute("aria-label")
    assert label.startswith("Map of 60 nodes by each pool's scarcest resource (") and "general: cpu" in label
    visitor.page.locator("canvas.map").hover(position={"x": 230, "y": 40})
    tip = visitor.text(".tip")
    assert re.match(r"node-\d\d\n", tip) and "zone-0" in tip
    visitor.check(tmp_path / "map")
    visitor.page.get_by_label("Colour by").select_option("memory")
    visitor.page.get_by_label("Group by").select_option("zone")
    visitor.page.wait_for_url(lambda url: url.endswith("/map?colour=memory&group=zone"))


def a_node_on_the_map(visitor, tmp_path):
    visitor.open("/map")
    painted(visitor)
    page = visitor.page
    canvas = page.locator("canvas.map")
    canvas.hover(position={"x": 230, "y": 40})
    shown = visitor.text(".tip").splitlines()[0]
    canvas.click(position={"x": 230, "y": 40})
    panel = page.get_by_role("complementary", name=f"Node {shown}")
    panel.get_by_role("heading", name=shown).wait_for()
    box = panel.bounding_box()
    assert box["y"] >= 0 and box["y"] + 100 < page.viewport_size["height"], "it opens where it is seen"
    visitor.open("/map?node=node-00")
    panel = page.get_by_role("complementary", name="Node node-00")
    panel.get_by_text("own.example/dedicated=web:PreferNoSchedule").wait_for()
    assert {"default/web-0", "default/web-20", "default/web-40"} <= set(panel.inner_text().split())
    panel.get_by_text("Labels (2)").click()
    assert "topology.kubernetes.io/zone=zone-0" in panel.inner_text()
    assert re.search(r"cpu\s+3\s+8\s+38%", panel.inner_text())
    visitor.check(tmp_path / "node")
    visitor.open("/nodes?find=node-00")
    page.wait_for_selector("tbody tr")
    assert "38%" in visitor.text("tbody"), "table and map say the same"
    visitor.open("/map?node=node-00")
    page.get_by_role("link", name="Drain this").click()
    page.wait_for_selector("section[aria-label=Answer]")
    assert visitor.text(".sentence") == "What if node-00 were drained?"


def the_map_by_keyboard(visitor):
    visitor.open("/map")
    painted(visitor)
    page = visitor.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the main part"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("canvas.map").focus()
    told = "[aria-live=polite]"
    first = page.text_content(told)
    page.keyboard.press("ArrowRight")
    second = page.text_content(told)
    page.keyboard.press("End")
    page.keyboard.press("PageDown")
    third = page.text_content(told)
    assert len({first.split(",")[0], second.split(",")[0], third.split(",")[0]}) == 3
    assert "zone zone-" in second and "cpu" in second
    page.keyboard.press("Enter")
    name = third.split(",")[0]
    details = page.get_by_role("complementary", name=f"Node {name}")
    details.get_by_role("row").nth(2).wait_for()
    canvas = page.locator("canvas.map")
    canvas.focus()
    page.keyboard.press("Escape")
    details.wait_for(state="detached")


def the_scores_of_a_pod(visitor, tmp_path):
    visitor.open("/map")
    painted(visitor)
    visitor.page.get_by_label("Scores of pod").select_option("default/small")
    visitor.until("document.querySelector('[name=colour]').value === 'score:'")
    visitor.until("document.querySelector('.legend').textContent.includes('does not fit')")
    assert "NodeResourcesFit" in visitor.text("[name=colour]")
    visitor.page.wait_for_url(lambda url: "pod=default%2Fsmall" in url)
    visitor.check(tmp_path / "scores")


def the_table_of_nodes(visitor, tmp_path):
    visitor.open("/nodes")
    rows = visitor.page.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == 25
    assert "113%" in rows.first.inner_text() and rows.first.locator(".bar.over").count() == 1
    assert "38%" in rows.nth(1).inner_text()
    assert HOSTILE in visitor.text()
    visitor.check(tmp_path / "nodes")
    visitor.page.get_by_role("button", name="Show 35 more").click()
    visitor.until("document.querySelectorAll('tbody tr').length === 60")
    visitor.page.get_by_role("button", name="Node", exact=True).click()
    visitor.until("document.querySelector('tbody th').textContent === 'node-00'")
    visitor.page.get_by_label("Find in").fill("node-07")
    visitor.until("document.querySelectorAll('tbody tr').length === 1")
    assert "cordoned" in visitor.text("tbody")
    visitor.page.get_by_label("Find in").fill("nothing like it")
    visitor.page.get_by_text("No row has that in it.").wait_for()


def workloads_and_what_is_pending(visitor, tmp_path):
    visitor.open("/workloads")
    page = visitor.page
    text = visitor.text()
    assert "6 pods pending, of 4 workloads." in text
    assert "Needs 99 CPU on one node, and node-" in text
    visitor.until("document.querySelector('main').innerText.includes('Request at most')")
    for summary in page.locator("summary").all():
        summary.click()
    assert HOSTILE in visitor.text()
    assert "0/60 nodes are available: 1 node(s) were unschedulable, 59 Insufficient cpu." in visitor.text()
    visitor.check(tmp_path / "workloads")
    table = page.get_by_role("region", name="All workloads")
    table.locator("tbody tr").first.wait_for()
    assert table.locator("tbody tr").count() == 10, "the first ten, and a button for more"
    table.get_by_label("Find in").fill("web-19")
    visitor.until("document.querySelectorAll('[aria-label=\\'All workloads\\'] tbody tr').length === 1")
    table.get_by_role("link", name="default/web-19").click()
    page.wait_for_url(lambda url: url.endswith("/pods/default/web-19"))


def pods_and_a_story(visitor, tmp_path):
    visitor.open("/pods/default/small")
    assert "58 of 60 nodes fit" in visitor.text()
    matrix = visitor.page.get_by_role("region", name="Decision matrix")
    assert matrix.locator("tbody tr").count() == 10
    assert "NodeResourcesFit" in matrix.inner_text()
    visitor.check(tmp_path / "story")
    visitor.page.get_by_role("link", name="On the map").click()
    visitor.until("document.querySelector('[name=pod]')?.value === 'default/small'")
    for path, problem in (
        ("/pods/nobody/here", "Nothing is known of a pod nobody/here"),
        ("/workloads/Deployment/nobody/here", "There is no Deployment nobody/here with pods."),
        ("/nosuch", "There is no page /nosuch."),
        ("/nodes/nosuch", "There is no node nosuch."),
    ):
        with visitor.complaining_of("404"):  # a browser says so of the page itself
            visitor.open(path)
        assert problem in visitor.text()
    visitor.page.goto(visitor.url + "/nodes/node-00")
    visitor.until("location.pathname + location.search === '/map?node=node-00'")


def the_side_bar(visitor, tmp_path):
    """Groups of views, that fold to icons, and on a narrow screen are a sheet."""
    page = visitor.page
    visitor.open("/survive")
    bar = page.get_by_role("navigation", name="Views")
    assert [each.get_attribute("aria-label") for each in bar.get_by_role("group").all()] == [
        "Cluster", "Questions", "Simulation",
    ], "there is no scheduler at work"  # fmt: skip
    assert page.locator("header").bounding_box()["height"] < 60, "one line"
    page.get_by_role("button", name="Fold the side bar to icons").click()
    visitor.until("document.querySelector('.q-drawer').getBoundingClientRect().width < 60")
    assert bar.get_by_role("link", name="Survive").get_attribute("aria-current") == "page"
    visitor.open("/map")
    visitor.until("document.querySelector('.q-drawer').getBoundingClientRect().width < 60")
    page.get_by_role("button", name="Unfold the side bar").click()
    size = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    visitor.open("/survive")
    assert not page.get_by_role("link", name="Overview").is_visible()
    page.get_by_role("button", name="Views").click()
    page.get_by_role("link", name="Overview").click()
    page.wait_for_url(visitor.url + "/")
    for path in ("/", "/workloads", "/nodes", "/survive", "/what-if?changes=drain+node-00"):
        visitor.open(path)
        visitor.until("document.querySelector('.rows, .verdict')")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        assert page.locator("header").bounding_box()["height"] < 60
    page.set_viewport_size(size)


def what_would_help(visitor, tmp_path):
    visitor.open("/pods/default/picky")
    page = visitor.page
    found = page.get_by_role("region", name="What would help")
    found.locator(".command").first.wait_for()
    assert f"disk={HOSTILE}" in found.inner_text() and "kubectl" in found.inner_text()
    visitor.check(tmp_path / "help")


def changed(visitor, part, fill):
    """Open a part of the sentence, have `fill` change what is in it, and ask."""
    page = visitor.page
    page.locator("button.part").filter(has_text=part).first.click()
    editor = page.get_by_role("dialog")
    editor.wait_for()
    fill(editor)
    editor.get_by_role("button", name="Ask", exact=True).click()
    editor.wait_for(state="detached")


def verdict(visitor):
    visitor.page.locator(".verdict .figure, .problem").first.wait_for()
    return visitor.text(".verdict, .problem")


def what_if(visitor, tmp_path):
    visitor.open("/what-if")
    page = visitor.page
    offers = page.get_by_role("region", name="To begin with")
    assert "What if zone zone-0 were lost?" in offers.inner_text()
    visitor.check(tmp_path / "what-if-begin")

    def type_both(editor):
        editor.get_by_text("As text").click()
        editor.get_by_label("Changes of the cluster").fill("drain node-00\n\n# and more room\nadd-nodes 2=node-01\n")
        editor.get_by_text("Manifests that are applied").click()
        editor.get_by_label("Manifests").fill(json.dumps(pod("added", cpu="2")))

    changed(visitor, "nothing were changed", type_both)
    page.wait_for_selector("section[aria-label='The cluster']")
    sentence = "What if node-00 were drained, 2 nodes like node-01 were added and the manifests were applied?"
    assert visitor.text(".sentence") == sentence
    outcome = page.get_by_role("region", name="Answer")
    assert "1 new pod: 1 placed." in outcome.inner_text()
    assert outcome.locator("canvas.map").count() == 2, "the cluster before and after"
    visitor.until("performance.getEntriesByName('berth-moves-painted').length > 0")
    assert "default/added" in page.get_by_role("region", name="New pods").inner_text()
    assert re.search(r"nodes\s+60\s+62", page.get_by_role("region", name="The cluster").inner_text())
    broken = page.get_by_role("region", name="What breaks")
    assert broken.locator("tbody tr").count() == 1, "three pods without a controller, for one reason"
    assert "default/web-0, default/web-20 and default/web-40" in broken.inner_text()
    visitor.check(tmp_path / "what-if")
    page.reload()
    page.wait_for_selector("section[aria-label='The cluster']")
    assert visitor.text(".sentence") == sentence, "a trial is in the address"
    page.get_by_text("How it was worked out").click()
    command = visitor.text(".worked-out .command")
    assert command == "berth whatif -f manifests.yaml --drain node-00 --add-nodes 2=node-01"
    a_lost_zone(visitor)
    visitor.open("/what-if?" + urlencode({"changes": f"{HOSTILE} x"}))
    page.wait_for_selector("[role=alert]")
    assert "changes, line 1: no change is called '<script>alert(1)" in page.inner_text("[role=alert]")
    visitor.open("/nodes?find=node-00")
    page.wait_for_selector("tbody tr")
    assert "38%" in visitor.text("tbody")  # the cluster itself is as before


def a_lost_zone(visitor):
    """What is picked is what is tried; the answer is a picture, and not a page of equal rows."""
    visitor.open("/what-if")
    page = visitor.page

    def pick(editor):
        editor.get_by_label("What is changed").select_option("lose-zone")
        editor.get_by_label("Which one").fill("zone-1")
        editor.get_by_role("button", name="Add").click()
        visitor.until("document.querySelector('.part-form .chip')?.innerText.includes('lose-zone zone-1')")

    changed(visitor, "nothing were changed", pick)
    page.wait_for_url(lambda url: url.endswith("?changes=lose-zone+zone-1"))
    page.wait_for_selector("section[aria-label='The cluster']")
    assert page.get_by_role("region", name="What breaks").locator("tbody tr").count() == 1
    assert page.evaluate("document.body.scrollHeight") < 4000


def a_question_by_keyboard(visitor):
    """From the side bar to another answer without a mouse, told by roles alone."""
    visitor.open("/")
    page = visitor.page
    page.keyboard.press("5")
    page.wait_for_url(lambda url: url.endswith("/what-if"))
    page.wait_for_selector("button.part")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('part')"):
            break
    page.keyboard.press("Enter")
    visitor.until("document.activeElement.name === 'target'")
    page.keyboard.type("node-03")
    page.keyboard.press("Enter")
    visitor.until("document.querySelector('.part-form .chip')?.innerText.includes('drain node-03')")
    page.keyboard.press("Escape")
    page.wait_for_selector("section[aria-label='The cluster']")
    assert visitor.text(".sentence") == "What if node-03 were drained?"
    assert page.evaluate("document.activeElement.classList.contains('part')"), "the focus comes back"


def a_new_question_ends_the_old(visitor):
    """Of one person one question is under way at a time, and nothing of one shows up under another."""
    page = visitor.page
    for _ in range(2):
        page.goto(visitor.url + "/upgrade")
        page.wait_for_selector(".sentence")
        visitor.open("/survive")
        assert "cannot be lost" in verdict(visitor) or "is lost" in verdict(visitor)
        assert page.locator("[role=alert]").count() == 0
    visitor.open("/tune")
    page.get_by_role("button", name="Begin the search").wait_for()


def an_answer_is_kept(visitor):
    """What was answered is there again at once, with no progress in between."""
    page = visitor.page
    visitor.open("/survive")
    page.locator(".verdict").wait_for()
    page.reload()
    page.locator(".verdict").wait_for()
    assert page.locator(".under-way").count() == 0


def the_answer_is_the_commands(visitor, file):
    """What the page says of questions is what their commands print of the same cluster."""
    for path, command in (
        ("/survive", ["survive"]),
        ("/wait", ["wait"]),
        ("/upgrade", ["upgrade-plan"]),
        ("/what-if?changes=lose-zone+zone-2", ["whatif", "--lose-zone", "zone-2"]),
        ("/rebalance", ["rebalance", "--goal", "empty-nodes"]),
    ):
        visitor.open(path)
        visitor.page.locator(".verdict .summary").wait_for()
        done = subprocess.run([BERTH, *command, "--cluster", file], capture_output=True, text=True, check=True)
        printed = " ".join(done.stdout.split())
        assert " ".join(visitor.text(".verdict .summary").split()) in printed, command
        said = " ".join(visitor.text(".sentence").split())
        assert said in " ".join(done.stderr.split()), "the sentence of the page stands above the printed answer"


def numbers_are_the_same_everywhere(visitor):
    """The scripts of the page have the rules of the server."""
    values = [0, 7, 14713.925, 104000, 12.34, 0.25, 99.96, 99.94, -1.5, 0.001234, 1e7 + 0.5, 1 / 3]
    amounts = [("cpu", 250), ("cpu", 14713925), ("memory", 3 << 30), ("memory", (1 << 30) - 1), ("x.y/z", 12000)]
    shares = [0, 0.384, 1, 1.13, 0.001, 0.999]
    told = visitor.page.evaluate(
        """async ([values, amounts, shares]) => {
          const said = await import("/assets/numbers.js");
          const told = amounts.map(([name, value]) => said.amount(name, value));
          return [values.map(said.number), told, shares.map(said.percent)];
        }""",
        [values, amounts, shares],
    )
    assert told == [
        [*map(numbers.number, values)],
        [numbers.amount(*each) for each in amounts],
        [*map(numbers.percent, shares)],
    ]


def how_many_more_fit(visitor, tmp_path):
    visitor.open("/capacity")
    page = visitor.page
    assert "more fit" in verdict(visitor), "the question opens with an answer"
    changed(visitor, "pods of 1 CPU", lambda editor: editor.get_by_label("CPU of a pod").fill("4"))
    visitor.until("document.querySelector('.sentence').innerText.includes('pods of 4 CPU and 2Gi memory')")
    # Of 60 nodes with 8 CPUs 1 is cordoned and 1 is over; 10 have 3 of them taken and 10 have 2: these take 1 pod each.
    visitor.until("/(97|98) more fit/.test(document.querySelector('.verdict .summary')?.innerText)")
    pools = page.get_by_role("region", name="How many fit, by pool")
    bars = pools.locator(".plot").get_attribute("aria-label")
    assert bars.startswith("How many fit, by pool: ") and "(20 nodes)" in bars
    assert "lack cpu" in page.get_by_role("region", name="What keeps the next one away").inner_text()
    visitor.check(tmp_path / "capacity")
    changed(visitor, "pods of 4 CPU", lambda editor: editor.get_by_label("Other resources").fill("gpu.example/x"))
    page.wait_for_selector("[role=alert]")
    assert "NAME=AMOUNT is expected, not 'gpu.example/x'" in page.inner_text("[role=alert]")


def what_quotas_guarantee(visitor, tmp_path):
    """The 50 pods of 1 CPU and the one of 9 use 59, of which 40 are guaranteed."""
    visitor.open("/quotas")
    page = visitor.page
    bars = page.get_by_role("region", name="Guaranteed and borrowed cpu").locator(".plot").get_attribute("aria-label")
    assert bars.startswith("cpu, by namespace: default 40 and 19 and 0")
    row = page.get_by_role("region", name="All quotas").locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert row[0] == "default" and row[2:] == ["cpu", "40", "59", "19", "100"]
    visitor.check(tmp_path / "quotas")


def what_can_be_lost(visitor, tmp_path):
    visitor.open("/survive")
    page = visitor.page

    def only_zones(editor):
        for kind in ("node", "pool"):
            editor.get_by_label(kind).uncheck()

    changed(visitor, "each zone, node and pool", only_zones)
    visitor.until("document.querySelector('.sentence').innerText.startsWith('Lose each zone in turn')")
    assert "zone" in verdict(visitor)
    visitor.check(tmp_path / "survive")
    visitor.open("/survive?kinds=rack")
    page.wait_for_selector("[role=alert]")
    assert "not 'rack'" in page.inner_text("[role=alert]")


def moves_step_by_step(visitor, tmp_path):
    visitor.open("/rebalance?max_moves=3")
    page = visitor.page
    page.wait_for_selector("section[aria-label='The cluster']")
    plan = page.get_by_role("region", name="Answer").inner_text()
    assert "No moves: there is no running pod that may be moved." in plan, "pods without a controller stay"
    visitor.check(tmp_path / "rebalance")


def weights_are_searched(visitor, tmp_path):
    visitor.open("/tune?" + urlencode({"objectives": "packing.cpu fragmentation.cpu", "budget": "24", "all": ""}))
    page = visitor.page
    page.wait_for_selector("section[aria-label='What was tried']")
    assert "configurations tried in" in page.get_by_role("region", name="Answer").inner_text()
    assert "What was tried: " in page.get_by_role("region", name="What was tried").locator(".plot").get_attribute(
        "aria-label"
    )
    visitor.check(tmp_path / "tune")
    visitor.open("/tune?objectives=nonsense")
    page.wait_for_selector("[role=alert]")
    assert "nonsense" in page.inner_text("[role=alert]")


def everything_is_searched(visitor):
    visitor.open("/workloads")
    page = visitor.page
    page.keyboard.press("/")
    page.keyboard.type("node-1")
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("option").first.inner_text().split() == ["Node", "node-10"]
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(lambda url: url.endswith("/map?node=node-11"))
    visitor.open("/workloads")
    page.keyboard.press("/")
    page.keyboard.type("img src")
    page.get_by_role("option").first.wait_for()
    assert HOSTILE in " ".join(page.get_by_role("option").all_inner_texts())
    page.keyboard.press("Escape")
    visitor.open("/workloads")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("2")
    page.wait_for_url(lambda url: url.endswith("/map"))


def two_configurations(visitor, tmp_path):
    visitor.open("/compare")
    page = visitor.page
    visitor.until("document.querySelector('.verdict')?.innerText.includes('of 6 pods decided differently')")
    decided = page.get_by_role("region", name="Pods that are decided differently").inner_text()
    assert "default/small" in decided and "NodeResourcesFit" in decided
    assert "CPU requested on used nodes" in page.get_by_role("region", name="Each on its own").inner_text()
    visitor.check(tmp_path / "compare")
    typed = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    wrong = f"{typed}'<img src=x onerror=alert(3)>': 5"
    changed(visitor, "the configuration in use", lambda editor: editor.get_by_label("Configuration A").last.fill(wrong))
    page.wait_for_selector("[role=alert]")
    assert "<img src=x onerror=alert(3)>" in page.inner_text("[role=alert]")


def the_time_line(visitor, tmp_path):
    visitor.open("/time-line")
    painted(visitor)
    page = visitor.page
    canvas = page.locator("canvas.map")
    assert "each of 2 nodes, day 1, 00:00" in canvas.get_attribute("aria-label")
    page.get_by_label("Time", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "each of 3 nodes, day 1, 02:00" in canvas.get_attribute("aria-label")
    visitor.until("document.querySelector('.chart .time').textContent === 'day 1, 02:00'")
    canvas.focus()
    page.keyboard.press("End")
    assert (
        page.locator(".time-line [aria-live=polite]").text_content()
        == f"{HOSTILE}: 100% of its scarcest resource requested"
    )
    visitor.check(tmp_path / "time-line")
    page.get_by_role("button", name="Play").click()
    visitor.until("document.querySelector('.when').textContent === 'day 1, 03:00'")


def the_theme_is_kept(visitor):
    visitor.page.get_by_role("button", name="Theme: as the system has it").click()
    visitor.page.get_by_role("button", name="Theme: light").click()
    visitor.page.wait_for_selector("body.body--dark")
    visitor.open("/workloads")
    visitor.page.wait_for_selector("body.body--dark")
    visitor.page.get_by_role("button", name="Theme: dark").click()
    visitor.page.wait_for_selector("body.body--light")


def signing_out(visitor):
    assert visitor.problems == []
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.wait_for_selector("text=You have signed out.")
    visitor.page.goto(visitor.url + "/workloads")
    assert visitor.page.get_by_label("Token").is_visible()
