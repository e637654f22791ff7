"""Every question that there is, asked about one small crowded cluster: a new one that is not here fails."""

import importlib
import pkgutil

import berth_workbench.questions
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.planning.node_groups import read_groups
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.planning.upgrade.search import UpgradeRequest
from berth_workbench.questions.autoscale import AutoscaleRequest
from berth_workbench.questions.capacity import CapacityRequest
from berth_workbench.questions.check import CheckRequest
from berth_workbench.questions.compare import CompareRequest
from berth_workbench.questions.explain import HelpRequest
from berth_workbench.questions.shrink import ShrinkRequest
from berth_workbench.questions.simulate import SimulateRequest
from berth_workbench.questions.survive import SurviveRequest
from berth_workbench.questions.tune import TuneRequest
from berth_workbench.questions.wait import WaitRequest
from berth_workbench.questions.whatif import WhatIfRequest
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.situation import Situation
from berth_workbench.snapshot.documents import parse_manifests
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from packages.workbench.tests.planning.test_survival import budget, node, pod, snapshot_of

NODES, APPS, REPLICAS = 8, 6, 4


class Counted:
    """A plugin that counts how often the scheduler is asked about a pod."""

    name = "Counted"
    count = 0

    def __init__(self, args, handle):
        pass

    def pre_filter(self, state, pod):
        Counted.count += 1


SOURCE = ConfigurationSource("counted", plugins=(f"{__name__}:Counted",))
WEB = b"""
apiVersion: apps/v1
kind: Deployment
metadata: {name: more}
spec:
  replicas: 3
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: main, image: more, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: main, image: one, resources: {requests: {cpu: 200m}}}]}
"""


def crowded():
    """Nodes with little room, workloads that are kept apart, and pods that wait for more."""
    objects = [node(f"n{at}", "ab"[at % 2], "4", pool="small" if at % 4 else "large") for at in range(NODES)]
    for app in range(APPS):
        for replica in range(REPLICAS):
            made = pod(f"app{app}-{replica}", f"n{(app + 2 * replica) % NODES}", "1", "web" if not app else f"app{app}")
            objects.append(made.pod_anti_affinity("kubernetes.io/hostname", {"app": "web" if not app else f"app{app}"}))
    objects += [pod(f"wait-{at}", cpu="3", owner="wait") for at in range(4)]
    return snapshot_of([*objects, budget(3)])


def load():
    return ClusterLoad.of(crowded(), replaces_all=True)


def in_the_crowd(request, *changes):
    return lambda: (Situation(crowded(), SOURCE.load(), tuple(changes)), request)


def by_itself(make):
    return lambda: (None, make())


GROUPS = [{"name": "small", "nodes": "pool=small", "spot": True}, {"name": "large", "nodes": "pool=large"}]
ASKED = {
    "autoscale": in_the_crowd(AutoscaleRequest(read_groups({"groups": GROUPS}))),
    "capacity": in_the_crowd(CapacityRequest(tuple(parse_manifests(WEB, "web")))),
    "check": in_the_crowd(CheckRequest(tuple(parse_manifests(WEB, "web")), ())),
    "compare": by_itself(lambda: CompareRequest(SOURCE, SOURCE, load(), seeds=2)),
    "explain": in_the_crowd(HelpRequest(("wait-0",))),
    "rebalance": in_the_crowd(RebalanceRequest("empty-nodes", method="greedy")),
    "shrink": in_the_crowd(ShrinkRequest({})),
    "simulate": by_itself(lambda: SimulateRequest(daily_pattern(DailyPattern(pods=400, nodes=4), 0), SOURCE.load())),
    "survive": in_the_crowd(SurviveRequest(pairs=True)),
    "tune": by_itself(lambda: TuneRequest(("packing.cpu",), SOURCE, load(), budget=12, seeds=2)),
    "upgrade_plan": in_the_crowd(UpgradeRequest()),
    "wait": in_the_crowd(WaitRequest(durations={f"default/app{at}": 600.0 * at for at in range(1, 4)})),
    "whatif": in_the_crowd(WhatIfRequest(), parse_flag("loseZone", "a"), parse_flag("drain", "n1")),
}
QUESTIONS = {
    name: made
    for _, name, _ in pkgutil.iter_modules(berth_workbench.questions.__path__)
    if (made := getattr(importlib.import_module(f"berth_workbench.questions.{name}"), "QUESTION", None)) is not None
}
