"""Every question has an answer, or an error for people, whatever does not fit together in the cluster.

A snapshot is not taken at one moment, and objects come and go one by one: see `ill_fitting`.
"""

import asyncio
import random
from typing import get_args

import msgspec
import pytest

from berth.api.user_error import UserError
from berth.framework.setup import Setup
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.planning.help.search import help_for_all, what_would_help
from berth_workbench.planning.help.words import lines_of
from berth_workbench.planning.node_groups import read_groups
from berth_workbench.planning.quotas import quotas_of
from berth_workbench.planning.rebalance.request import GoalName, RebalanceRequest
from berth_workbench.planning.upgrade.search import UpgradeRequest
from berth_workbench.planning.usage import Used
from berth_workbench.questions.autoscale import AutoscaleRequest
from berth_workbench.questions.capacity import CapacityRequest
from berth_workbench.questions.check import CheckRequest
from berth_workbench.questions.compare import CompareRequest
from berth_workbench.questions.shrink import ShrinkRequest
from berth_workbench.questions.survive import SurviveRequest
from berth_workbench.questions.tune import TuneRequest
from berth_workbench.questions.wait import WaitRequest
from berth_workbench.questions.whatif import WhatIfRequest
from berth_workbench.simulation.changes import UNSCALABLE, parse_flag
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests
from berth_workbench.simulation.watch import UNWATCHED
from berth_workbench.snapshot.documents import Document, parse_manifests
from berth_workbench.sources.cluster_file import ClusterFileSource
from packages.workbench.tests.planning.mixed_worlds import looks_at_groups, registry
from packages.workbench.tests.questions.every import QUESTIONS
from packages.workbench.tests.questions.ill_fitting import OWNERS, IllFittingWorld
from tests.effort import worlds_of

WORLDS, A_CASE, QUICK = worlds_of(1000, in_all=80), 20, 24
NOT_OF_A_CLUSTER = {"simulate"}
WEB = b"""
apiVersion: apps/v1
kind: Deployment
metadata: {name: more, namespace: t0}
spec:
  replicas: 3
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: main, image: more, resources: {requests: {cpu: 700m}}}]}
"""
GROUPS = [{"name": "p", "nodes": "pool=p", "spot": True}, {"name": "q", "nodes": "pool=q"}]
DEFAULT = ConfigurationSource("default")


@pytest.mark.parametrize(
    ("seeds", "every"),
    [
        (range(QUICK), 20),
        *(pytest.param(range(at, at + A_CASE), 1, marks=pytest.mark.long) for at in range(0, WORLDS, A_CASE)),
    ],
    ids=lambda given: f"{given.start}-{given.stop}" if isinstance(given, range) else f"one in {given}",
)
def test_every_question_of_clusters_that_do_not_fit_together(seeds, every):
    """Of some worlds one question in twenty, of the long cases' all of them."""
    for seed in seeds:
        for what, ask in list(asked(seed))[seed % every :: every]:
            try:
                ask()
            except UserError:
                continue
            except Exception as error:
                error.add_note(f"seed {seed}, {what}")
                raise


def test_every_question_about_a_cluster_is_asked():
    about = {what.split()[0] for seed in range(3) for what, _ in asked(seed)}
    assert about >= QUESTIONS.keys() - NOT_OF_A_CLUSTER


def asked(seed):
    """Yield what is asked about a world, in words, and how; each question begins with the cluster as it was."""
    world = IllFittingWorld(seed)
    rng = random.Random(seed)
    snapshot = world.snapshot()
    setup = None if rng.random() < 0.5 else Setup(looks_at_groups(), registry())

    def question(name, request, *steps):
        def ask():
            found = QUESTIONS[name].answer(Situation(snapshot, setup, steps), request, UNWATCHED)
            assert list(QUESTIONS[name].told(found))
            msgspec.json.encode(QUESTIONS[name].document(found))

        return f"{name} {', '.join(map(str, steps)) or request}"[:200], ask

    for change in changes(world, rng):
        yield question("whatif", WhatIfRequest(), change)
    yield question("whatif", WhatIfRequest(), Manifests(parse_manifests(WEB, "web"), "apply"))
    yield question("survive", SurviveRequest(pairs=rng.random() < 0.3))
    yield question("upgrade_plan", UpgradeRequest())
    yield question("autoscale", AutoscaleRequest(read_groups({"groups": GROUPS})))
    yield question("capacity", CapacityRequest(tuple(parse_manifests(WEB, "web")), pending_first=rng.random() < 0.5))
    given = tuple(parse_manifests(WEB, "web"))
    some = [Document(each["kind"], each, "", "", each["metadata"].get("namespace") or "", each["metadata"]["name"])
            for each in world.documents if each["kind"] in OWNERS]  # fmt: skip
    yield question("check", CheckRequest(given))
    yield question("check", CheckRequest((*given, *some[1::2]), tuple(some)))
    yield question("wait", WaitRequest(durations={f"t0/w{at}": 600.0 for at in range(3)}))
    yield question("shrink", ShrinkRequest({f"t0/w{at}": {"": Used(10, 10)} for at in range(7)}))
    for goal in get_args(GoalName):
        manifests = tuple(parse_manifests(WEB, "web")) if goal == "free-shape" else ()
        yield question("rebalance", RebalanceRequest(goal, manifests=manifests, method="greedy", also_move=("bare",)))
    yield from about_a_load(snapshot, question, rng)
    yield from about_pods(world, snapshot, setup)


def changes(world, rng):
    """Each kind of change once."""
    node = rng.choice(world.node_names)
    texts = dict.fromkeys(("drain", "cordon", "uncordon", "removeNodes", "upgrade"), node)
    texts |= {"addNodes": f"2={node}", "loseZone": rng.choice("abc"), "taint": f"{node}:k=v:NoExecute"}
    texts |= {"untaint": f"{node}:team", "label": f"{node}:pool=q"}
    owners = [each for each in world.documents if each["kind"] in OWNERS]
    if owners:
        of = rng.choice(owners)
        workload = f"{of['kind']}/{of['metadata']['namespace']}/{of['metadata']['name']}"
        texts |= {"delete": workload}
        texts |= {"scale": f"{workload}={rng.choice([0, 1, 8])}"} if of["kind"] not in UNSCALABLE else {}
    pods = world.named("Pod")
    if pods:
        pod = rng.choice(pods)["metadata"]
        texts["evict"] = f"{pod['namespace'] or 'default'}/{pod['name']}"
    return [parse_flag(step, text) for step, text in texts.items()]


def about_a_load(snapshot, question, rng):
    """Yield what is asked of two configurations, or many."""
    load = ClusterLoad.of(snapshot, replaces_all=rng.random() < 0.5)
    yield question("compare", CompareRequest(DEFAULT, DEFAULT, load, seeds=1))
    yield question("tune", TuneRequest(("packing.cpu",), DEFAULT, load, budget=4, seeds=1))


def about_pods(world, snapshot, setup):
    """Yield what is asked of pods: why each is where it is, and what would help those that have no node."""

    def help_one(key):
        cluster = Site.of(snapshot, setup).cluster
        found = what_would_help(cluster, cluster.pods[key], documents=snapshot.documents)
        assert lines_of(found, 80)

    def page():
        source = ClusterFileSource("a test", snapshot)

        async def ask():
            for each in (source.nodes, source.pods, source.pending, source.recent, source.plugins, source.sample):
                await each()
            for name in ("gone", "", *world.node_names):
                await source.node(name)
            await source.fit(WEB)
            for pod in world.named("Pod"):
                await source.story(pod["metadata"]["namespace"], pod["metadata"]["name"])

        asyncio.run(ask())

    yield "quotas", lambda: quotas_of(snapshot)
    yield "explain all", lambda: [lines_of(each, 80) for each in help_for_all(Situation(snapshot, setup))]
    yield "page", page
    for pod in world.named("Pod"):
        if not pod["spec"].get("nodeName"):
            key = f"{pod['metadata']['namespace'] or 'default'}/{pod['metadata']['name']}"
            yield f"explain {key}", lambda key=key: help_one(key)
