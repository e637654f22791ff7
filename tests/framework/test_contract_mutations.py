"""The contract is code: a plugin that breaks it is stopped by the type checker, or by the loader.

The sources are copied, the copy is broken in many places at once, each in a plugin of its own, and each place must be
reported. The copy as it was must pass both.
"""

import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.paths import ROOT, SCHEDULER
from tests.test_plugin_forms import code_of_the_page

pytestmark = pytest.mark.long

LOAD_ALL = """
from berth.framework.loader import misfits
from berth.plugins.legacy.registry import with_legacy_plugins
from berth.plugins.registry import in_tree_registry

todays = in_tree_registry()
for registry in (todays, with_legacy_plugins(todays)):
    for name in registry.names:
        kind = registry.factory(name)
        for fault in misfits(kind):
            print(f"{kind.__name__}: {fault}")
"""


PAGE = "from_the_page.py"


class Mutation(NamedTuple):
    """One edit of a plugin's file, and a part of what is said about it."""

    file: str
    before: str
    after: str
    told: str
    told_of: str = ""
    """The file it is said about, where that is another: that of a subclass, as its base is not final."""


TOLD_BY_THE_TYPE_CHECKER = {
    "a plugin that takes a node out of the cache": Mutation(
        "preemption/groups.py",
        "        self._nominator = nominator\n",
        '        self._nominator = nominator\n        cache.remove_node("node-1")\n',
        "remove_node",
    ),
    "a plugin that writes an object": Mutation(
        "preemption/budgets.py",
        "        self._objects = objects\n",
        '        self._objects = objects\n        objects.put("Service", None)\n',
        '"put"',
    ),
    "a plugin that takes a node out of the table": Mutation(
        "legacy/node_prefer_avoid_pods.py",
        "        self._table = handle.cache.table\n",
        '        self._table = handle.cache.table\n        self._table.remove_node("node-1")\n',
        '"NodeTable" has no attribute "remove_node"',
    ),
    "a plugin that forgets a namespace": Mutation(
        "pod_topology_spread/plugin.py",
        "        self._index = handle.cache.index\n",
        '        self._index = handle.cache.index\n        self._index.set_namespace("default", None)\n',
        '"PodIndexReader" has no attribute "set_namespace"',
    ),
    "a plugin that lets a waiting pod drop": Mutation(
        "legacy/resource_limits.py",
        "        pass\n",
        '        handle.waiting.remove("uid")\n',
        '"WaitingPodsView" has no attribute "remove"',
    ),
    "on the page about forms, a column of names": Mutation(
        PAGE,
        "def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:",
        "def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: str) -> FilterColumn:",
        "filter_columns",
    ),
    "a column filter that takes a name": Mutation(
        "node_ports.py",
        "def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:",
        "def filter_columns(self, pod: str) -> str:",
        "filter_columns",
    ),
    "a what-if that takes a number and returns bytes": Mutation(
        "volumes/limits.py",
        "def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:",
        "def is_affected_by(self, other: int) -> bytes:",
        "is_affected_by",
    ),
    "a filter that has lost a parameter": Mutation(
        "taint_toleration.py",
        "def filter(self, state: CycleState, pod: PodInfo, node: NodeView)",
        "def filter(self, pod: PodInfo, node: NodeView)",
        "filter",
    ),
    "a score that is a text": Mutation(
        "node_affinity.py",
        "def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:",
        "def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> str:",
        "score",
    ),
    "a misspelt method": Mutation(
        "image_locality.py",
        "def score_columns(",
        "def score_colums(",
        'LegacyImageLocality has abstract attributes "score_columns"',
        "legacy/image_locality.py",
    ),
    "a Filter that is gone": Mutation(
        "legacy/node_label.py", "def filter(", "def _filter(", 'NodeLabel has abstract attributes "filter"'
    ),
    "a column form that is gone": Mutation(
        "legacy/service_affinity.py",
        "def filter_columns(",
        "def _filter_columns(",
        'ServiceAffinity has abstract attributes "filter_columns"',
    ),
    "events that are gone": Mutation(
        "dra/plugin.py",
        "def events_to_register(",
        "def _events_to_register(",
        'DynamicResources has abstract attributes "events_to_register"',
    ),
    "a plugin without a name": Mutation(
        "legacy/selector_spread.py",
        '    name: ClassVar[str] = "SelectorSpread"\n',
        "",
        'SelectorSpread has abstract attributes "name"',
    ),
    "a method that only an older generation has": Mutation(
        "volumes/zone.py",
        "def filter(",
        "def _filter(",
        "Only concrete class can be given",
        "registry.py",
    ),
    "a PreFilter that says yes or no": Mutation(
        "node_name.py",
        "def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:",
        "def pre_filter(self, state: CycleState, pod: PodInfo) -> bool:",
        "pre_filter",
    ),
    "a Bind that returns a text in the end": Mutation(
        "default_binder.py", "-> Steps[Status | None]:", "-> Steps[str]:", "bind"
    ),
    "a PostFilter that forgets the status": Mutation(
        "preemption/plugin.py",
        ") -> PostFilterAnswer | Steps[PostFilterAnswer]:",
        ") -> PostFilterResult | None:",
        "post_filter",
    ),
    "a Permit without a timeout": Mutation(
        "gang_scheduling.py", "-> tuple[Status | None, float]:", "-> Status | None:", "permit"
    ),
    "an Unreserve that is gone": Mutation(
        "volumes/volume_binding.py", "def unreserve(", "def _unreserve(", '"unreserve"', "legacy/volumes.py"
    ),
    "a sort key of two pods": Mutation(
        "priority_sort.py",
        "def sort_key(self, queued: QueuedPod)",
        "def sort_key(self, queued: QueuedPod, other: QueuedPod)",
        "sort_key",
    ),
    "a single placement": Mutation(
        "topology_placement.py", "-> Sequence[Placement] | Status:", "-> Placement:", "placement_generate"
    ),
    "a placement's score with a fraction": Mutation(
        "pod_group_pods_count.py", "-> int:", "-> float:", "placement_score"
    ),
    "a pod that comes to no node": Mutation(
        "inter_pod_affinity/plugin.py",
        "def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView)",
        "def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo)",
        "add_pod",
    ),
    "events as texts": Mutation(
        "node_unschedulable.py", "-> Sequence[ClusterEventWithHint]:", "-> Sequence[str]:", "events_to_register"
    ),
    "a row form without the row": Mutation(
        "resources/node_resources_fit.py",
        "def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int:",
        "def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable) -> int:",
        "filter_row",
    ),
    "a promise that nobody knows": Mutation(
        "node_declared_features.py", "pre_filter_is_pure=True", "pre_filter_is_clean=True", "pre_filter_is_clean"
    ),
    "a label that a plugin writes": Mutation(
        "scheduling_gates.py",
        "gates = pod.spec.scheduling_gates",
        'gates = pod.spec.scheduling_gates; pod.labels["seen"] = "yes"',
        "Unsupported target for indexed assignment",
    ),
    "a legacy filter that overrides its base with another signature": Mutation(
        "legacy/node_volume_limits.py",
        "def filter(self, state: CycleState, pod: PodInfo, node: NodeView)",
        "def filter(self, state: CycleState, pod: PodInfo)",
        "filter",
    ),
}

TOLD_BY_THE_LOADER = {
    "a Protocol whose method is gone": Mutation(
        "gang_scheduling.py", "def permit(", "def _permit(", "GangScheduling: inherits PermitPlugin, but has no method"
    ),
    "a promise whose method is gone": Mutation(
        "node_ports.py", "def filter_row(", "def _filter_row(", "NodePorts: promises filters_by_row, but has no method"
    ),
    "a method whose promise is gone": Mutation(
        "volumes/restrictions.py",
        "        filters_by_affecting_pods=True,\n",
        "",
        "VolumeRestrictions: has the method is_affected_by, which is not called",
    ),
    "a subclass that inherits the column form of other answers": Mutation(
        "legacy/volumes.py",
        '''    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Say the same of many rows."""''',
        '''    def _filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Say the same of many rows."""''',
        "LegacyVolumeBinding: has its own filter, but inherits filter_columns",
    ),
    "a subclass that vouches for the row form of other answers": Mutation(
        "legacy/node_resources_fit.py",
        "    def _needs_of(",
        "    def filter(self, state, pod, node): ...\n\n"
        "    def filter_columns(self, state, pod, table, rows): ...\n\n"
        "    def _needs_of(",
        "LegacyNodeResourcesFit: has its own filter_columns, but inherits filter_row",
    ),
    "promises of another kind": Mutation(
        "taint_toleration.py",
        "promises: ClassVar[Promises] = Promises(",
        "promises: ClassVar[dict] = dict(",
        "TaintToleration: has something else under the name of its promises",
    ),
    "an Unreserve that is gone": Mutation(
        "dra/plugin.py",
        "def unreserve(",
        "def _unreserve(",
        "DynamicResources: has the method reserve but not unreserve",
    ),
    "a misspelt method": Mutation(
        "node_affinity.py",
        "def normalize_score(",
        "def normalise_score(",
        "NodeAffinityPlugin: has a method normalise_score",
    ),
    "a parameter that is gone": Mutation(
        "image_locality.py",
        "def score(self, state: CycleState, pod: PodInfo, node: NodeView)",
        "def score(self, pod: PodInfo, node: NodeView)",
        "ImageLocality: has the method score(self, pod, node), but it is called as",
    ),
}


SOURCES = SCHEDULER.parent.relative_to(ROOT)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the sources, with the plugins of the page about forms beside the others: it says that they are held."""
    copy = tmp_path_factory.mktemp("copied")
    shutil.copytree(SCHEDULER.parent, copy / SOURCES, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / SOURCES / "berth/plugins" / PAGE).write_text(code_of_the_page())
    return copy


def type_check(copy):
    """Return what the type checker says of the plugins, by file."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", "cache"]
    done = subprocess.run([*command, "-p", "berth.plugins"], cwd=copy, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    told = {}
    for line in done.stdout.splitlines():
        found = re.match(r"packages/scheduler/src/berth/plugins/([\w/]+\.py):\d+: (?:error|note): (.*)", line)
        if found:
            told.setdefault(found[1], []).append(found[2])
    assert told or "Success" in done.stdout, done.stdout
    return told


def load_all(copy):
    """Return what the loader says of all plugins."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL],
        cwd=copy,
        env={"PYTHONPATH": str(copy / SOURCES), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def broken(copied):
    """Break a copy; afterwards it is whole again."""
    kept = {}

    def break_it(mutations):
        for mutation in mutations:
            path = copied / SOURCES / "berth/plugins" / mutation.file
            text = kept.setdefault(path, path.read_text())
            assert mutation.before in text, f"{mutation.file} has changed: adapt the mutation"
            path.write_text(text.replace(mutation.before, mutation.after, 1))

    def mend():
        for path, text in kept.items():
            path.write_text(text)
        kept.clear()

    return break_it, mend


@pytest.mark.parametrize("mutations", [TOLD_BY_THE_TYPE_CHECKER, TOLD_BY_THE_LOADER])
def test_mutations_are_in_files_of_their_own(mutations):
    assert len({mutation.file for mutation in mutations.values()}) == len(mutations)


def test_the_type_checker_tells_of_every_broken_promise_of_a_signature(copied, broken):
    assert type_check(copied) == {}, "the sources as they are pass"
    break_it, mend = broken
    break_it(TOLD_BY_THE_TYPE_CHECKER.values())
    told = type_check(copied)
    mend()
    untold = {
        what
        for what, mutation in TOLD_BY_THE_TYPE_CHECKER.items()
        if not any(mutation.told in line for line in told.get(mutation.told_of or mutation.file, ()))
    }
    assert not untold


def test_the_loader_tells_of_every_class_that_contradicts_itself(copied, broken):
    assert load_all(copied) == [], "the sources as they are pass"
    break_it, mend = broken
    break_it(TOLD_BY_THE_LOADER.values())
    told = load_all(copied)
    mend()
    untold = {
        what
        for what, mutation in TOLD_BY_THE_LOADER.items()
        if not any(line.startswith(mutation.told) for line in told)
    }
    assert not untold, told
