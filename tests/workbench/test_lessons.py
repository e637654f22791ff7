"""The lessons in docs/lessons.md, done as they say: files written, every command typed, every answer looked at.

Each sentence of the page is a question, or in `CLAIMS`, with what has to be true for it, or in `NO_CLAIMS`. A claim
names the command that shows it, or the file that has it. A command that is not on the page is asked where the sentence
stands, and for a solution at the end of its lesson. Who changes a sentence, changes its claim here. What the solutions
say of scores and of spreading follows from Kubernetes' documentation of LeastAllocated and of maxSkew.
"""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from packages.workbench.tests import pages
from tests.e2e.kubectl import KUBECTL
from tests.e2e.processes import BERTH, Process
from tests.paths import ROOT
from tests.waiting import eventually

PAGE = (ROOT / "docs/lessons.md").read_text()
LESSONS_TEXT, SOLUTIONS_TEXT = PAGE.split("\n## Solutions\n")
CHANGES = {"cordon", "uncordon", "scale", "delete", "apply", "label", "taint"}
"""What kubectl changes, after which all pods are given the time to be decided about."""
DECIDED = (
    "kubectl get pods -o jsonpath="
    """'{range .items[*]}{.spec.nodeName}{.status.conditions[?(@.type=="PodScheduled")].status}{"\\n"}{end}'"""
)
PODS = "kubectl get pods -o wide"
PATIENCE_S = 30
pytestmark = pytest.mark.timeout(900)


# --- the page ---------------------------------------------------------------------------------------------------------


def lessons():
    """The text of each lesson, by its number."""
    parts = re.split(r"\n## (\d+)\. .*\n", LESSONS_TEXT)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def solutions():
    """The sentences of each solution, by the number of its lesson."""
    parts = re.split(r"\n\*\*(\d+)\.\*\* ", SOLUTIONS_TEXT)
    return {int(number): list(pages.sentences(text)) for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def all_sentences():
    yield from pages.sentences(LESSONS_TEXT)
    for said in solutions().values():
        yield from said


def steps(text):
    """What is read and typed in a lesson, in order: ("read", sentence) or ("type", command)."""
    for piece in re.split(r"(```console\n.*?```)", text, flags=re.DOTALL):
        if piece.startswith("```console"):
            yield from (("type", command) for command in pages.commands(piece))
        else:
            yield from (("read", sentence) for sentence in pages.sentences(piece))


# --- what was typed ---------------------------------------------------------------------------------------------------


class Course:
    """The lessons, done in a directory; `shown` has for each sentence and source what there was to see."""

    def __init__(self, directory):
        self.directory = directory
        self.shown = {}
        self._clusters = 0
        self._up = None
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(BERTH.parent), str(Path(KUBECTL).parent), os.environ["PATH"])),
            "KUBECONFIG": str(directory / ".berth/kubeconfig"),
            "NO_COLOR": "1",
        }
        for name, text in pages.files(PAGE).items():
            (directory / name).write_text(text)

    def do(self, text, solution):
        typed = pages.commands(text)
        assert len(typed) == len(set(typed)), "claims name commands"
        for step, words in steps(text):
            if step == "type":
                about = [said for said in (*pages.sentences(text), *solution) if words in CLAIMS.get(said, ())]
                self._type(words, about)
            else:
                self._look(words, typed)
        for said in solution:
            self._look(said, typed)

    def end(self):
        if self._up is not None:
            code = self._up.end()
            assert code == 0 and "Traceback" not in self._up.said(), self._up.said()
            self._up = None

    def _look(self, said, typed):
        for source in CLAIMS.get(said, ()):
            if source == "berth up":
                self._until_it_holds([said], source, self._up.said)
            elif source in pages.files(PAGE):
                self.shown[said, source] = pages.files(PAGE)[source]
            elif source not in typed:
                self._until_it_holds([said], source, lambda: self._run(source))  # noqa: B023 - asked at once

    def _type(self, command, about):
        if command.startswith("berth up "):
            self._bring_up(command)
        elif about:
            self._until_it_holds(about, command, lambda: self._run(command))
        else:
            self._run(command)
            if command.split()[1] in CHANGES:
                eventually(self._is_decided, PATIENCE_S, every_s=0.1)

    def _until_it_holds(self, about, source, ask):
        """Ask until all claims about the answer hold; that they never did is for their tests to say."""

        def hold():
            self.shown |= {(said, source): answer for answer in (ask(),) for said in about}
            return all(holds(CLAIMS[said][source], self.shown[said, source]) for said in about)

        with contextlib.suppress(AssertionError):
            eventually(hold, PATIENCE_S, every_s=0.2)

    def _bring_up(self, command):
        self.end()
        self._clusters += 1
        log = self.directory / f"up-{self._clusters}.log"
        self._up = Process(log, *command.split()[1:], cwd=self.directory)
        self._up.wait_until_it_says("Ctrl-C")
        self._environment.pop("BERTH_SCHEDULER", None)
        if served := re.search(r"--server (\S+)", self._up.said()):  # another scheduler has the usual port
            self._environment["BERTH_SCHEDULER"] = served[1]

    def _run(self, command):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        survives = command.startswith("berth survive") and done.returncode == 1
        assert done.returncode == 0 or survives, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _is_decided(self):
        return all(self._run(DECIDED).splitlines())


def holds(check, shown):
    try:
        check(shown)
    except AssertionError:
        return False
    return True


@pytest.fixture(scope="module")
def course(tmp_path_factory, default_port):
    """All lessons, done one after the other."""
    made = Course(tmp_path_factory.mktemp("lessons"))
    try:
        for number, text in lessons().items():
            made.do(text, solutions()[number])
    finally:
        made.end()
    return made


# --- the claims -------------------------------------------------------------------------------------------------------


def says(*words):
    """What is shown has these words, wherever its lines break."""

    def check(shown):
        text = " ".join(shown.split())
        assert [each for each in words if each not in text] == [], shown

    return check


def lacks(*words):
    def check(shown):
        assert [each for each in words if each in shown] == [], shown

    return check


def rows(shown):
    heading, *others = [re.split(r"\s{2,}", line.strip()) for line in shown.splitlines()]
    return [dict(zip(heading, row, strict=False)) for row in others]


def pods_on_nodes(**expected):
    def check(shown):
        nodes = {each["NAME"]: each["NODE"] for each in rows(shown)}
        assert nodes == expected, shown

    return check


def node_of(pod, shown):
    found = re.search(rf"^default/{pod} goes to (node-\d)", shown, re.MULTILINE)
    assert found, shown
    return found[1]


def scores_by_node(shown):
    """By node, the scores that each plugin gave it, as `--node` tells them."""
    parts = re.split(r"^(node-\d): fits\n", shown, flags=re.MULTILINE)
    texts = zip(parts[1::2], parts[2::2], strict=True)
    return {
        node: {name: int(score) for name, score in re.findall(r"^  (\w+): (\d+)", text, re.M)} for node, text in texts
    }


def of_both(shown):
    """The scores of the node that has the pod, and of the other one."""
    scores, chosen = scores_by_node(shown), node_of("api", shown)
    assert len(scores) == 2, shown
    return scores.pop(chosen), *scores.values()


def the_higher_score_wins(shown):
    chosen, other = of_both(shown)
    assert chosen["total"] > other["total"]


def the_scores_are_least_allocated(shown):
    """Of 4 CPUs and 8Gi, 1 and 1Gi of which are requested by each pod: shares that stay free, each rounded down."""
    chosen, other = of_both(shown)
    free = [(100 * (4 - pods) // 4, 100 * (8 - pods) // 8) for pods in (1, 2)]
    assert free == [(75, 87), (50, 75)]
    assert (chosen["NodeResourcesFit"], other["NodeResourcesFit"]) == tuple(sum(pair) // 2 for pair in free) == (81, 62)


def the_other_plugins_see_no_difference(shown):
    chosen, other = of_both(shown)
    rest = chosen.keys() - {"NodeResourcesFit", "total"}
    assert rest and all(abs(chosen[name] - other[name]) <= 1 for name in rest)


def api_is_where_web_is_not(shown):
    nodes = {each["NAME"]: each["NODE"] for each in rows(shown)}
    assert set(nodes) == {"web", "api"} and nodes["web"] != nodes["api"] and "<none>" not in nodes.values()


def the_section(pod, *words):
    """Of several pods explained at once, what is said of this one."""

    def check(shown):
        found = [each for each in shown.split("\n\n") if each.startswith(f"default/{pod} ")]
        assert len(found) == 1, shown
        says(*words)(found[0])

    return check


def each_of(*checks):
    def check(shown):
        for each in checks:
            each(shown)

    return check


def zones_of(shown):
    """How many pods of a table are on the nodes of zone-a, and on those of zone-b."""
    nodes = re.findall(r"\bnode-(\d)(?=  )", shown)
    return [sum(int(each) % 2 == zone for each in nodes) for zone in (0, 1)]


def three_in_zone_a_and_two_in_zone_b(shown):
    assert zones_of(shown) == [3, 2], shown


def seven_and_at_most_four_in_a_zone(shown):
    assert sorted(zones_of(shown)) == [3, 4], shown


def count(words, number):
    def check(shown):
        assert shown.count(words) == number, shown

    return check


def the_nominated_node_lost_one(shown):
    node = node_of("urgent", shown)
    says("it was nominated to it, and fits there", f"nominated to {node}")(shown)
    assert len(re.findall(rf"preempts default/batch-\S+ on {node}$", shown, re.MULTILINE)) == 1, shown
    assert shown.count("preempts") == 1


def the_story_tells_of_both(shown):
    node = node_of("urgent", shown)
    says("preempts default/batch-")(shown)
    # How many attempts it takes depends on how soon the victim is gone.
    assert re.search(rf"attempt [2-9]: goes to {node}$", shown, re.MULTILINE), shown


def four_of_batch_and_one_pending(shown):
    batch = [each for each in rows(shown) if each["NAME"].startswith("batch-")]
    assert len(batch) == 4 and [each["NODE"] for each in batch].count("<none>") == 1, shown


def three_of_batch_on_nodes(shown):
    nodes = [each["NODE"] for each in rows(shown) if each["NAME"].startswith("batch-")]
    assert len(nodes) == len(rows(shown)) == len(set(nodes)) == 3 and "<none>" not in nodes, shown


def nobody_is_below_the_pending_one(shown):
    assert sorted(shown.split()) == ["0", "0", "0", "0", "1000"], shown


def four_ways_with_their_commands(shown):
    numbered = re.split(r"^ \d\. ", shown.partition("the cheapest first:")[2], flags=re.MULTILINE)[1:]
    beginnings = (
        "Request at most 2 CPU instead of 3",
        "Run 3 replicas instead of 4",
        "Have the pod default/urgent gone",
    )
    assert len(numbered) == 4, shown
    assert all(text.startswith(words) for text, words in zip(numbered, beginnings, strict=False)), shown
    assert numbered[3].startswith("Add a node like node-"), shown
    assert all("$ kubectl" in text for text in numbered[:3]), shown
    assert all("Then all" in text for text in numbered), shown


def nodes_named(*names):
    def check(shown):
        assert [each["NAME"] for each in rows(shown)] == list(names), shown

    return check


def four_nodes_of_two_zones(shown):
    assert [each["ZONE"] for each in rows(shown)] == ["zone-a", "zone-b"] * 2, shown


def survived(kind, number, of):
    """What the table of `berth survive` says of a kind: how many failures there are, and how many are survived."""

    def check(shown):
        assert re.search(rf"^{kind} +{of} +{number} +{of - number} +0$", shown, re.MULTILINE), shown

    return check


def it_takes_one_node(shown):
    zones = re.findall(r"^zone zone-[ab] +\d +(\d) .* {2}(\d) like node-\d$", shown, re.MULTILINE)
    assert zones == [("1", "1")] * 2, shown


def placed_after_a_rejection(shown):
    says("default/green goes to node-", "2 node(s) belonged to another team")(shown)
    assert re.search(r"attempt \d+: goes to node-", shown), shown


def twenty_lines(shown):
    assert len(shown.splitlines()) <= 20


REQUESTS = "kubectl get pods -o custom-columns=CPU:.spec.containers[0].resources.requests.cpu --no-headers"
EXPLAIN_API = "berth explain api --node node-0 --node node-1"
SHOP = "berth explain deployment/shop"
HELP = "berth explain deployment/batch --what-would-help"
MORE = "berth whatif --add-nodes 1=node-0"
MORE_WITHOUT_B = "berth whatif --add-nodes 1=node-0 --lose-zone zone-b"
SURVIVE = "berth survive --of node --of zone"

CLAIMS = {
    "**Question.** The node has 4 CPUs.": {
        "kubectl get node node-0 -o jsonpath={.status.allocatable.cpu}": says("4")
    },
    "`web` requests 1 of them and uses nothing, since nothing is started.": {
        "web.yaml": says('cpu: "1"'), "kubectl top pod web --no-headers": says("web 0m")
    },
    "`big` requests 3.5.": {"big.yaml": says("cpu: 3500m")},
    "**Question.** Both nodes have room for both pods.": {
        "kubectl get nodes -o jsonpath={.items[*].status.allocatable.cpu}": says("4 4"),
        "web.yaml": says('cpu: "1"'), "api.yaml": says('cpu: "1"'),
    },
    "**Question.** No node has the label `disk=nvme`.": {"kubectl get nodes -l disk=nvme -o name": lacks("node")},
    "**Question.** The label is gone again.": {"kubectl get nodes -l disk=nvme -o name": lacks("node")},
    "**Question.** There is room for many more in zone-a.": {
        "shop.yaml": says("cpu: 500m"),  # of 8 in two nodes
        "kubectl get nodes -L topology.kubernetes.io/zone": four_nodes_of_two_zones,
    },
    "**Question.** Each node has 1 CPU free, and `urgent` requests 2.": {
        "batch.yaml": says("replicas: 4", 'cpu: "3"'), "urgent.yaml": says('cpu: "2"')
    },
    "**Question.** A pod of `batch` has been pending since the last lesson.": {PODS: four_of_batch_and_one_pending},
    "**Question.** Three pods that need 3 CPUs each, on four nodes with 4 CPUs each, in two zones.": {
        PODS: three_of_batch_on_nodes,
        "kubectl get nodes -L topology.kubernetes.io/zone": four_nodes_of_two_zones,
        "kubectl get nodes -o jsonpath={.items[*].status.allocatable.cpu}": says("4 4 4 4"),
    },
    "You change what the scheduler decides, in twenty lines.": {"one_team.py": twenty_lines},
    "**Question.** Three teams, two nodes.": {
        "teams.yaml": each_of(*(count(f"team: {each}}}", 1) for each in ("red", "blue", "green"))),
        "kubectl get nodes": nodes_named("node-0", "node-1"),
    },
    "The field `spec.nodeName` says `node-0`, and the event says that the pod was assigned to it.": {
        "kubectl get pod web -o jsonpath='{.spec.nodeName}{\"\\n\"}'": says("node-0"),
        "kubectl get events --field-selector reason=Scheduled": says("Successfully assigned default/web to node-0"),
    },
    "`berth explain` names who has decided, `default-scheduler`, and says why: of 1 node it is the only "
    "one that fits.": {
        "berth explain web": says("goes to node-0: it is the only node, and the pod fits there", "by default-scheduler")
    },
    "It does not fit, for requests are what is counted, used or not.": {
        "berth explain big": says("default/big could not be scheduled")
    },
    "Of 4 CPUs 3 are free, and the plugin `NodeResourcesFit` rules the node out with `Insufficient cpu`.": {
        "berth explain big": says("has 3 of 4 free", "1 NodeResourcesFit Insufficient cpu node-0")
    },
    "The explanation also says what the pod waits for, a deleted pod among other things.": {
        "berth explain big": says("NodeResourcesFit wakes it after: Pod: deleted")
    },
    "So `big` is tried again when `web` is gone, and is on `node-0`.": {
        "kubectl get pod big -o wide": pods_on_nodes(big="node-0")
    },
    "`api` goes to the other node, for both fit, and the empty one has the higher score.": {
        PODS: api_is_where_web_is_not,
        EXPLAIN_API: each_of(says("2 of 2 nodes fit"), the_higher_score_wins),
    },
    "`NodeResourcesFit` decides it, which scores by how much would be left free: 81 for the empty node (75 % of its "
    "CPUs and 87 % of its memory), 62 for the other one (50 % "
    "and 75 %).": {EXPLAIN_API: the_scores_are_least_allocated},
    "Every other plugin gives both the same, or nearly so.": {EXPLAIN_API: the_other_plugins_see_no_difference},
    "`web` has `node-1` alone, since `TaintToleration` rules out `node-0`.": {
        "berth explain web report": the_section(
            "web", "goes to node-1: it is the only one of 2 nodes that fits",
            "1 TaintToleration node(s) had untolerated taint(s) node-0",
        )
    },
    "`report` has both: a toleration opens a node, and sends nobody there.": {
        "berth explain web report": the_section("report", "2 of 2 nodes fit", "the same for all 2: TaintToleration")
    },
    "`report` goes to `node-0` by its score, because `web` is on `node-1`.": {
        "berth explain web report": the_section("report", "goes to node-0", "it has the highest score"),
        PODS: pods_on_nodes(web="node-1", report="node-0"),
    },
    "`archive` is pending, because `NodeAffinity` rules out both nodes, while `db` is on `node-1`, which "
    "has its label.": {
        "berth explain db cache archive": each_of(
            the_section("archive", "could not be scheduled", "2 NodeAffinity", "node-0, node-1"),
            the_section("db", "goes to node-1: it is the only one of 2 nodes that fits", "1 NodeAffinity"),
        )
    },
    "`cache` has a node, since what is only preferred gives points, and here no node has any of them.": {
        "berth explain db cache archive": the_section("cache", "goes to node-", "2 of 2 nodes fit", "NodeAffinity x2 0")
    },
    "With the label, `archive` is on `node-0`.": {
        "kubectl get pod archive -o wide": pods_on_nodes(archive="node-0")
    },
    "It stays there when the label is gone, which is what `IgnoredDuringExecution` means.": {
        PODS: says("archive 1/1 Running"), "kubectl get pod archive -o jsonpath={.spec.nodeName}": says("node-0"),
        "disks.yaml": says("requiredDuringSchedulingIgnoredDuringExecution"),
    },
    "One new pod gets a node, and two are pending.": {SHOP: says("7 pods: 5 have a node, 2 have none")},
    "Zone-b keeps its two, and zone-a may be one pod ahead of it: two nodes are ruled out for spreading, two because "
    "they are cordoned.": {
        SHOP: each_of(
            three_in_zone_a_and_two_in_zone_b,
            says("2 node(s) didn't match pod topology spread constraints, 2 node(s) were unschedulable."),
        )
    },
    "After `uncordon` all seven have nodes, and neither zone has "
    "more than four.": {PODS: seven_and_at_most_four_in_a_zone},
    "It costs one pod, on the node to which `urgent` was nominated.": {
        "berth explain urgent": the_nominated_node_lost_one
    },
    "The story tells which one was preempted, and that a later attempt put `urgent` onto that node.": {
        "berth explain urgent": the_story_tells_of_both
    },
    "The Deployment has made another pod in its place, and still has four; that one is pending, with nobody of lower "
    "priority to preempt.": {
        PODS: four_of_batch_and_one_pending,
        "kubectl get pods -o custom-columns=P:.spec.priority --no-headers": nobody_is_below_the_pending_one,
    },
    "Requests of 2 CPUs instead of 3, three replicas instead of four, `urgent` gone, or another node: each one is "
    "enough, and the first three come with the command that does it.": {
        HELP: each_of(says("Any one of these would help"), four_ways_with_their_commands)
    },
    "With another node every pod has a place.": {
        MORE: says("Yes: every pod that moves or is new has a place", "1 pod was pending: 1 with a node now.")
    },
    "The cluster still has four nodes, since questions change nothing.": {
        "kubectl get nodes": nodes_named("node-0", "node-1", "node-2", "node-3")
    },
    "Any one of the 4 nodes can be lost, because one node is empty.": {SURVIVE: survived("node", 4, of=4)},
    "Neither of the 2 zones can: two nodes hold two of the pods, and one has no place.": {
        SURVIVE: each_of(survived("zone", 0, of=2), it_takes_one_node)
    },
    "It takes 1 node more, the same answer says.": {SURVIVE: it_takes_one_node},
    "With it in zone-a, nobody is without a place when zone-b is lost.": {
        MORE_WITHOUT_B: each_of(says("Yes: every pod that moves or is new has a place"), lacks("no node")),
        "kubectl get node node-0 -o jsonpath={.metadata.labels}": says('"topology.kubernetes.io/zone":"zone-a"'),
    },
    "`green` is pending, and the reason is the plugin's: both nodes belonged to another team.": {
        "berth explain green": says(
            "could not be scheduled", "2 OneTeam node(s) belonged to another team node-0, node-1"
        )
    },
    "When the file is saved, the first terminal says that the scheduler is started again.": {
        "berth up": says("the scheduler is started again")
    },
    "`green` is then placed, because a new scheduler tries all pending pods.": {
        "kubectl get pod green -o wide": says("Running"),
        "berth explain green --all-nodes": placed_after_a_rejection,
    },
}  # fmt: skip

NO_CLAIMS = {
    "From one pod on one node to a plugin of your own, for a class or for yourself.",
    "In each lesson you type a few commands and meet a question.",
    "Answer it first, and then type the next command, which shows whether you are right.",
    "The [solutions](#solutions) at the end say in words what it shows, and why.",
    "You need Berth with the extra `cluster`, and kubectl.",
    "Type `berth up` in one terminal, and everything else in another one, in the same directory.",
    (
        "Where a lesson begins with `berth up`, end the cluster before it with Ctrl-C; the other lessons go on where "
        "the one before has ended."  # the course is typed so
    ),
    (
        "The nodes are [hollow](embedded-cluster.md#hollow-nodes): pods are bound to them as to real ones, and nothing "
        "is started."
    ),
    "You see what a scheduler does, which is to write one field.",
    "**Question.** The manifest names no node.",
    "You learn what a scheduler counts.",
    "**Question.** Nobody has touched `big`.",
    "You see how one of several nodes is chosen.",
    "You learn what a toleration does, and what it does not do.",
    "You tell apart what a pod demands and what it prefers.",
    "You see what a constraint on spreading costs when a zone takes no pods.",
    "You see who has to go for a pod that matters more.",
    "You ask what would have to change for a pod that fits nowhere.",
    "Write down three changes that would help it.",
    "You find out what a cluster survives, before it has to.",
    (
        "[What if](whatif.md) goes on from here, with [autoscalers](whatif.md#the-autoscalers-part-berth-autoscale) "
        "and more, and [the tutorial](tutorial.md) from a question to a decision."
    ),
    "Let a node have two teams, and save the file, in an editor or like this.",
    "Keep an eye on the terminal of `berth up`.",
    "**Question.** The scheduler is started again, and no pod was changed.",
    "[Writing a plugin](plugins.md) goes on from here, with scores, settings, tests and packages.",
}


def test_there_are_ten_lessons_each_with_a_question_that_a_command_answers_and_a_solution():
    assert list(lessons()) == list(solutions()) == list(range(1, 11))
    for number, text in lessons().items():
        questions = text.split("**Question.**")[1:]
        assert questions, number
        assert all("?" in each.partition("```")[0] and pages.commands(each) for each in questions), number


def test_every_sentence_of_the_page_is_accounted_for():
    said = {each for each in all_sentences() if not each.endswith("?")}
    assert said - CLAIMS.keys() - NO_CLAIMS == set(), "say what has to be true for these"
    assert (CLAIMS.keys() | NO_CLAIMS) - said == set(), "these are not on the page any more"


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS)
def test_the_claim_holds(claim, course):
    for source, check in CLAIMS[claim].items():
        check(course.shown[claim, source])
