"""The tutorial in docs/tutorial.md, done as it says: its files written, every command typed, every sentence looked at.

Each sentence of the page is either in `CLAIMS`, with what has to be true for it, or in `NO_CLAIMS`. Who changes a
sentence, changes its claim here; figures of the page are held against what the commands put out when they are typed.
"""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from berth.api.quantity import milli_value
from berth_workbench.snapshot.snapshot import read_cluster
from packages.workbench.tests import pages
from tests.e2e.kubectl import KUBECTL
from tests.e2e.processes import BERTH, Process
from tests.paths import ROOT

TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
NODES, CPUS = 12, 8
SNAPSHOT = "--cluster shop.snapshot.gz"
LIVE = "berth explain model"
"""The one command after the snapshot that asks the cluster."""
pytestmark = pytest.mark.timeout(900)


# --- the page ---------------------------------------------------------------------------------------------------------


def files():
    return pages.files(TUTORIAL)


def commands():
    return pages.commands(TUTORIAL)


def printed_on_the_page():
    return pages.printed(TUTORIAL)


def sentences():
    return pages.sentences(TUTORIAL)


# --- what was typed ---------------------------------------------------------------------------------------------------


class Typed:
    """What the page's commands put out, and answers to the same questions for programs."""

    def __init__(self, directory, environment):
        self.directory = directory
        self.printed = {}
        self._environment = environment
        self.ask = cache(lambda command: json.loads(self.run(f"{command} -o json")))

    def run(self, command):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        self._last = done.stdout + done.stderr
        return done.stdout

    def type(self, command):
        self.run(command)
        self.printed[command] = self._last

    def forget_the_cluster(self):
        self._environment = {**self._environment, "KUBECONFIG": "/nowhere", "BERTH_SCHEDULER": ""}

    # -- the answers that the page speaks of --

    @property
    def explained(self):
        return self.printed[LIVE]

    @property
    def helped(self):
        return self.ask(f"berth explain model --what-would-help {SNAPSHOT}")

    @property
    def capacity(self):
        return self.ask(f"berth capacity -f model.yaml {SNAPSHOT}")

    @property
    def plan(self):
        return self.ask(f"berth rebalance --goal free-shape -f model.yaml {SNAPSHOT}")

    @property
    def replaced(self):
        return measures(self.ask(f"berth compare default packed.yaml {SNAPSHOT} --replace-all"))

    @property
    def day(self):
        return measures(self.ask("berth compare default packed.yaml --trace day.jsonl.gz"))

    def whatif(self, changes):
        return self.ask(f"berth whatif {SNAPSHOT} {changes}")

    def documents(self, kind):
        return [each.manifest for each in read_cluster([self.directory / "shop.snapshot.gz"]).of(kind)]

    @property
    def free_cpu(self):
        return NODES * CPUS - requested(self.documents("Pod"))


def measures(compared):
    return {measure["name"]: measure for measure in compared["measures"]}


def requested(pods):
    """The CPUs that pods on nodes request."""
    containers = [each for pod in pods if pod["spec"].get("nodeName") for each in pod["spec"]["containers"]]
    return sum(milli_value(each["resources"]["requests"]["cpu"]) for each in containers) / 1000


@pytest.fixture(scope="module")
def typed(tmp_path_factory, default_port):
    """Everything typed."""
    return type_all(tmp_path_factory.mktemp("tutorial"))


def type_all(directory):
    """Type everything in a directory; what works on files is typed when the cluster is gone."""
    for name, text in files().items():
        (directory / name).write_text(text)
    up, *others = commands()
    assert up == f"berth up --nodes {NODES}"
    process = Process(directory / "up.log", *up.split()[1:], "--dir", directory / ".berth")
    try:
        process.wait_until_it_says("Ctrl-C")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(BERTH.parent), str(Path(KUBECTL).parent), os.environ["PATH"])),
            "KUBECONFIG": str(directory / ".berth/kubeconfig"),
        }
        if served := re.search(r"--server (\S+)", process.said()):  # another scheduler has the usual port
            environment["BERTH_SCHEDULER"] = served[1]
        typed = Typed(directory, environment)
        live = others[: others.index(LIVE) + 1]
        for command in live:
            typed.type(command)
    finally:
        process.end()
    typed.forget_the_cluster()
    for command in others[len(live) :]:
        typed.type(command)
    return typed


# --- the claims -------------------------------------------------------------------------------------------------------


def it_is_pending_with_more_than_a_third_free(t):
    assert t.explained.startswith("default/model could not be scheduled: ")
    assert t.free_cpu > NODES * CPUS / 3


def the_model_needs_7_cpus(t):
    assert 'cpu: "7"' in files()["model.yaml"]


def only_the_first_command_needs_the_cluster(t):
    at = commands().index("berth snapshot -o shop.snapshot.gz")
    assert commands()[at + 1] == LIVE
    assert all(command in t.printed for command in commands()[at + 2 :])  # `typed` ran them without a cluster


def there_are_three_workloads(t):
    assert files()["shop.yaml"].count("kind: Deployment") == 3


def the_cluster_is_as_described(t):
    nodes = t.documents("Node")
    assert len(nodes) == NODES and {node["status"]["allocatable"]["cpu"] for node in nodes} == {str(CPUS)}
    assert len({node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}) == 3


def the_snapshot_has_no_secrets(t):
    assert t.documents("Secret") == []


def every_node_lacks_cpus_and_half_of_them_memory(t):
    said = " ".join(t.explained.split())
    assert f"0/{NODES} nodes are available: {NODES} Insufficient cpu, {NODES // 2} Insufficient memory." in said


def each_change_was_tried(t):
    assert t.helped["trials"] > len(t.helped["changes"])
    assert all(change["fitsOn"] for change in t.helped["changes"])


def a_node_would_do(t):
    assert any("node like node-" in change["what"] for change in t.helped["changes"])
    assert t.helped["never"] is False


def moves_would_do(t):
    assert any(change["kind"] == "podsMoved" for change in t.helped["changes"])


def none_fits_and_36_cpus_are_free_in_small_pieces(t):
    free = t.capacity["fragmentation"]["cpu"]
    assert (t.capacity["fits"], free["free"], free["largestHole"]) == (0, 36.0, 4.0)
    assert t.free_cpu == 36


def the_default_spreads_evenly(t):
    assert t.capacity["fragmentation"]["cpu"]["stranded"] == 36.0
    taken = [fill["cpuBefore"] * CPUS for fill in t.plan["fills"]]
    assert len(taken) == NODES and max(taken) - min(taken) <= 2


def only_the_model_moves(t):
    (moved,) = t.whatif("--add-nodes 1=node-0")["pods"]
    known = {node["metadata"]["name"] for node in t.documents("Node")}
    assert moved["pod"] == "default/model" and moved["node"] and moved["node"] not in known


def without_a_node_more_there_is_room_for_all_but_the_model(t):
    lost = t.whatif("--lose-zone zone-a")
    assert lost["broken"] == []
    assert [each["pod"] for each in lost["pods"] if each["node"] is None] == ["default/model"]
    assert [lost[at]["utilisation"]["cpu"] for at in ("before", "after")] == [0.625, 0.9375]
    line = next(
        line
        for line in t.printed[f"berth whatif {SNAPSHOT} --lose-zone zone-a"].splitlines()
        if "CPU requested " in line
    )
    assert line.split()[-2:] == ["62.5%", "93.8%"]
    assert round(lost["after"]["nodes"] * CPUS * (1 - lost["after"]["utilisation"]["cpu"])) == 4


def with_a_node_more_all_survive_zone_b(t):
    lost = t.whatif("--add-nodes 1=node-0 --lose-zone zone-b")
    assert lost["broken"] == [] and lost["after"]["pending"] == 0
    assert all(each["node"] for each in lost["pods"])
    assert "default/model" in {each["pod"] for each in lost["pods"]}


def the_model_goes_with_zone_a(t):
    (broken,) = t.whatif("--add-nodes 1=node-0 --lose-zone zone-a")["broken"]
    assert (broken["name"], broken["reason"]) == ("default/model", "PodLost")


def two_moves_are_enough(t):
    evicted = [step for step in t.plan["steps"] if step["action"] == "evict"]
    assert len(evicted) == t.plan["moves"] == 2
    assert t.plan["provenBest"]
    assert [each["node"] is not None for each in t.plan["shapes"]] == [True]


def each_step_is_in_order_and_cordons_are_taken_back(t):
    closed = set()
    for step in t.plan["steps"]:
        if step["action"] == "cordon":
            closed.add(step["node"])
        elif step["action"] == "uncordon":
            closed.remove(step["node"])
        else:
            assert step["to"] not in closed
    assert closed == set()
    # The cache's budget allows one to be away, and every eviction waits for the one before.
    assert files()["shop.yaml"].count("maxUnavailable: 1") == 1


def the_plan_can_be_printed_for_kubectl(t):
    printed = t.run(f"berth rebalance --goal free-shape -f model.yaml {SNAPSHOT} --commands")
    assert printed.count("/eviction") == 2


def the_default_leaves_the_model_pending(t):
    pending, placed = t.replaced["pending"], t.replaced["pods"]
    assert (pending["a"], pending["b"], pending["better"]) == (1, 0, "b")  # better in each of the seeds
    assert "mean of 3 seeds" in t.printed[f"berth compare default packed.yaml {SNAPSHOT} --replace-all"]
    assert placed["b"] == 43 == len(t.documents("Pod"))
    first = [pod for pod in t.documents("Pod") if pod["metadata"].get("labels", {}).get("app") in ("shop", "cache")]
    assert len({pod["spec"]["nodeName"] for pod in first}) == NODES
    assert all(requested([pod]) > CPUS - 7 for pod in first)


def no_more_cpu_is_lost(t):
    found = t.replaced["fragmentation.cpu"]
    assert found["b"] <= found["a"]


def packing_costs_spread_over_nodes(t):
    nodes = t.replaced["spread.node.maxSkew"]
    assert (nodes["a"], nodes["b"], nodes["better"]) == (1, 4, "a")
    for name in ("maxSkew", "meanSkew", "evenness"):
        zones = t.replaced[f"spread.zone.{name}"]
        assert zones["a"] == zones["b"], name


def packing_costs_memory(t):
    found = t.replaced["fragmentation.memory"]
    assert (round(100 * found["a"]), round(100 * found["b"])) == (2, 7)


def all_costs_are_told(t):
    packing_costs_spread_over_nodes(t)
    packing_costs_memory(t)
    no_more_cpu_is_lost(t)


def the_day_has_the_clusters_size(t):
    (command,) = (each for each in commands() if each.startswith("berth trace generate"))
    assert f"--nodes {NODES} --node-cpu {CPUS} --node-memory-gib 32" in command
    assert "over 24.0 hours" in t.printed[command]


def over_the_day_all_are_placed_and_nobody_waits_longer(t):
    for name in ("pending", "neverPlaced"):
        assert t.day[name]["a"] == t.day[name]["b"] == 0
    assert t.day["bound"]["a"] == t.day["bound"]["b"]
    waits = [each for name, each in t.day.items() if name.startswith("waiting.")]
    assert waits and all(each["b"] <= each["a"] for each in waits)


def packing_needs_about_half_of_the_nodes(t):
    used = t.day["nodesUsed"]
    assert used["a"] == NODES
    assert 0.45 < used["b"] / used["a"] < 0.55
    assert used["better"] == "b"  # in each of the seeds
    assert "mean of 3 seeds" in t.printed["berth compare default packed.yaml --trace day.jsonl.gz --plot day.svg"]


def the_last_two_commands_exist(t):
    assert {"--from", "--config"} <= set(re.findall(r"--[a-z-]+", t.run("berth up --help")))
    assert "--cluster" in t.run("berth ui --help")


CLAIMS = {
    "A team wants to run a model that needs 7 CPUs.": the_model_needs_7_cpus,
    "It does not fit, though more than a third of the cluster's CPUs are free.":
        it_is_pending_with_more_than_a_third_free,
    "After the snapshot, all but the first command works on a file: it touches no cluster, and needs none.":
        only_the_first_command_needs_the_cluster,
    "Three workloads and the pod in question:": there_are_three_workloads,
    "In one terminal, a cluster of twelve nodes with 8 CPUs each, in three zones:": the_cluster_is_as_described,
    "`shop.snapshot.gz` has everything that scheduling depends on and no secrets ([what exactly](snapshots.md)).":
        the_snapshot_has_no_secrets,
    "tells what the scheduler found: every node lacks CPUs, and half of them memory, too.":
        every_node_lacks_cpus_and_half_of_them_memory,
    "Each of these was tried: the change was made on the cluster in memory, and the scheduler's own filters let the "
    "pod pass.": each_change_was_tried,
    "So a node would do.": a_node_would_do,
    "Moves would do as well.": moves_would_do,
    "None more of this shape fit, although 36 CPUs are free: they are free in pieces of at most 4.":
        none_fits_and_36_cpus_are_free_in_small_pieces,
    "The cluster is not full, it is fragmented, because the default configuration spreads pods evenly.":
        the_default_spreads_evenly,
    "The model goes to the new node, and nothing else moves.": only_the_model_moves,
    "Without it, everything that ran in zone-a finds a place, and CPU requests go from 62.5 % to 93.8 %: the shop "
    "survives a zone, but with 4 CPUs left there is none for the model.":
        without_a_node_more_there_is_room_for_all_but_the_model,
    "With it, the shop and the model survive the loss of zone-b.": with_a_node_more_all_survive_zone_b,
    "(Of zone-a, where the new node is, they would not: the model is a bare pod, which nobody makes anew.)":
        the_model_goes_with_zone_a,
    "Two moves are enough.": two_moves_are_enough,
    "The plan is in order, each step was proven by the scheduler's filters *and* scores (nodes where the scheduler "
    "would rather put the pod are cordoned meanwhile), and no disruption budget is exceeded on the way.":
        each_step_is_in_order_and_cordons_are_taken_back,
    "`--commands` prints it for kubectl.":
        the_plan_can_be_printed_for_kubectl,
    "The default configuration leaves the model pending with each of three seeds: it puts one pod of the shop or the "
    "cache on every node before any node gets a second one, and so does not leave 7 CPUs together anywhere.":
        the_default_leaves_the_model_pending,
    "`packed.yaml` places all 43 pods, the model too.": the_default_leaves_the_model_pending,
    "What CPU is free is of as much use as before (`fragmentation.cpu`).": no_more_cpu_is_lost,
    "It pays with spread: replicas of a workload share nodes (`spread.node.maxSkew` goes from 1 to 4), while their "
    "spread over zones stays as it was.": packing_costs_spread_over_nodes,
    "And it pays with memory: of what is free, 7 % is of no use to these pods, where it was 2 % "
    "(`fragmentation.memory`).": packing_costs_memory,
    "Draw a day of this cluster's size, with services that follow the sun and jobs that come and go, and let both "
    "configurations live through it:": the_day_has_the_clusters_size,
    "Both place everything, and nobody waits longer.": over_the_day_all_are_placed_and_nobody_waits_longer,
    "Packed, the day needs about half of the nodes on average, in every run of three seeds.":
        packing_needs_about_half_of_the_nodes,
    "| The model does not fit because free CPUs are in small pieces, not because there are none. | `berth capacity` |":
        none_fits_and_36_cpus_are_free_in_small_pieces,
    "| Two moves make room today, within the cache's budget. | `berth rebalance` |": two_moves_are_enough,
    "| Packing would have placed it, and the default does not. | `berth compare --replace-all` |":
        the_default_leaves_the_model_pending,
    "| Packing needs about half of the nodes over a day. | `berth compare --trace` |":
        packing_needs_about_half_of_the_nodes,
    "| Packing costs spread over nodes, and memory; zones stay even, and no more CPU is lost. | "
    "`berth compare --replace-all` |": all_costs_are_told,
    "| The shop survives the loss of a zone, but leaves no room for the model then. | `berth whatif --lose-zone` |":
        without_a_node_more_there_is_room_for_all_but_the_model,
    "| With a node more, both survive the loss of another zone than the model's. | "
    "`berth whatif --add-nodes --lose-zone` |": with_a_node_more_all_survive_zone_b,
    "Before it is switched, `berth up --from shop.snapshot.gz --config packed.yaml` lets everybody look at it running, "
    "and `berth ui --cluster shop.snapshot.gz` shows the nodes as they are.": the_last_two_commands_exist,
}  # fmt: skip

NO_CLAIMS = {
    "Should you buy a node, make room, or place pods in another way from now on?",
    (
        "This page takes you from the question to an answer that you can defend, in about ten minutes, on a cluster "
        "that Berth brings up on your machine."
    ),
    "You need Berth with the extra `plot`, and kubectl.",
    "With a cluster of your own, begin with `berth snapshot`; names and numbers will be others.",
    "In another one, the workloads, then the pod, then the snapshot:",
    "With `--anonymize` it has no names either, and may be sent to somebody else.",  # tests/snapshot shows that
    "What would have to change?",
    "One question more: what if a zone is lost, without that node and with it?",
    "Keep that in mind.",
    "Moves help once.",
    "If models keep coming, the scheduler should leave whole nodes free instead:",
    "What would that configuration have done with the same pods?",
    "A snapshot is one moment.",
    "If your cluster has an autoscaler, that is the bill.",
    "What you can say in the meeting, with the command behind each sentence:",
    (
        "So: move two pods today, switch to `packed.yaml` this week, and buy one node if the model has to run when "
        "another zone is lost."
    ),
    (
        "[What if](whatif.md) and capacity, [rebalancing](rebalance.md), [comparing, tuning and sweeps](compare.md), "
        "[simulated days](simulation.md), [the page](page.md), [recordings](recording.md), "
        "[plugins of your own, and what they cost on such a cluster](plugins.md), [all outputs](outputs.md)."
    ),
}


def test_every_sentence_of_the_page_is_accounted_for():
    said = set(sentences())
    assert said - CLAIMS.keys() - NO_CLAIMS == set(), "say what has to be true for these"
    assert (CLAIMS.keys() | NO_CLAIMS) - said == set(), "these are not on the page any more"


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS)
def test_the_claim_holds(claim, typed):
    CLAIMS[claim](typed)


@pytest.mark.long
def test_the_conclusion_follows_from_the_claims(typed):
    """Two moves today; packing from now on, which places what the default does not; a node for another zone's loss."""
    two_moves_are_enough(typed)
    the_default_leaves_the_model_pending(typed)
    assert requested(typed.documents("Pod")) + 7 > NODES * CPUS * 2 / 3  # without it, not all have a place
    with_a_node_more_all_survive_zone_b(typed)


@pytest.mark.long
def test_what_the_page_shows_is_what_is_printed(typed):
    """Lines below a command are its output; names of nodes that differ from run to run are left out."""
    shown, command = 0, ""
    for line in printed_on_the_page():
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
        elif line.strip() != "...":
            expected = re.sub(r"node-\d+", "NODE", re.sub(r"(on )(node-\d+, )+node-\d+ and", r"\1several and", line))
            printed = re.sub(r"(on )(node-\d+, )+node-\d+ and", r"\1several and", typed.printed[command])
            assert expected in re.sub(r"node-\d+", "NODE", printed), line
            shown += 1
    assert shown == 6


@pytest.mark.long
def test_every_picture_is_drawn(typed):
    pictures = re.findall(r"!\[[^\]]+\]\(pictures/([\w.]+)\)", TUTORIAL)
    assert pictures == re.findall(r"--plot ([\w.]+)", TUTORIAL)
    for name in pictures:
        assert "<svg" in (typed.directory / name).read_text()
        assert "<svg" in (ROOT / "docs/pictures" / name).read_text()
