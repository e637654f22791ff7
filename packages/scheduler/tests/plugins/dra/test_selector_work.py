"""What an attempt spends on selectors: on what is written, not on how, and never so much that other pods wait.

Rule: the expressions are those that a stock API server takes (a cost of a million at most, 10 KiB), and the scheduler's
budget of work is spent by what they do.
"""

import subprocess
import sys

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from packages.scheduler.tests.plugins.dra.support import (
    DRIVER,
    World,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)

GAPS = ["", " ", "\n\t", "// .replace( cel.bind( .map(\n"]


def growing(levels, gap=""):
    """An expression that makes a text ten times as long, again and again."""
    dot = f"{gap}.{gap}"
    made = f"v{levels}{dot}size() >= 0"
    for level in range(levels, 0, -1):
        made = f'cel{dot}bind(v{level}, v{level - 1}{dot}replace("x", "xxxxxxxxxx"), {made})'
    return f'cel{dot}bind(v0, "xxxxxxxxxx", {made})'


def world(text, devices):
    return World(
        device_class(),
        resource_slice("s", *(device(f"d{n}") for n in range(devices))),
        claim("c", request("r0", "gpu", f"{text} && false")),
    )


def steps_for_a_device(text):
    spent = []
    for devices in (1, 2):
        w = world(text, devices)
        w.look(pod_with("c"))
        spent.append(w.state.work.spent)
    return spent[1] - spent[0]


@pytest.mark.parametrize("gap", GAPS[1:])
def test_blanks_and_comments_spend_as_much_as_the_expression_without(gap):
    assert steps_for_a_device(growing(3, gap)) == steps_for_a_device(growing(3)) > 20


def test_ten_times_as_long_texts_spend_ten_times_as_much():
    assert 9 < steps_for_a_device(growing(5)) / steps_for_a_device(growing(4)) < 11


def test_ordinary_selectors_spend_little():
    own = f'device.attributes["{DRIVER}"]'
    ordinary = f'device.driver == "{DRIVER}" && {own}.?model.orValue("").startsWith("h") && {own}.?slot.orValue(0) > 1'
    assert steps_for_a_device(ordinary) < 20


def peak_mb(levels, devices):
    """The most memory that a process has used which looked at so many devices, and still has them."""
    code = (
        "import resource; from packages.scheduler.tests.plugins.dra.test_selector_work import growing, world, pod_with;"
        f"worlds = [world(growing({levels}), 1) for _ in range({devices})];"
        "[each.look(pod_with('c')) for each in worlds];"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_what_an_evaluation_takes_is_given_back_with_it():
    """One evaluation takes ten megabytes."""
    assert peak_mb(6, 12) - peak_mb(6, 2) < 50


def test_a_dear_claim_costs_other_pods_nothing_and_gets_its_devices_attempt_by_attempt():
    """What a selector says of a device is kept when the attempt's budget ends, so that the next attempt goes on."""
    text, devices = growing(5), [device(f"d{n}") for n in range(30)]
    c = VirtualCluster(make_node("a").capacity(cpu="8", pods=110), seed=1, work_limit=100_000)
    c.put(device_class())
    c.put(resource_slice("s", *devices))
    c.put(claim("c", request("r0", "gpu", text, count=len(devices))))
    c.put(make_pod("dear").request(cpu="1").resource_claim("gpu", "c"))
    c.put(make_pod("innocent").request(cpu="1"))
    c.run()
    assert c.nodes_of() == {"dear": "", "innocent": "a"}
    said = [patch.message for patch in c.patches("dear")]
    assert any("steps of work" in each for each in said), said
    c.advance(60)
    assert c.patches("dear")[-1].nominated_node_name == "a"
