"""`check_plugin` finds what is wrong with a plugin, by its name, and nothing wrong with one that is right."""

from typing import ClassVar

import numpy as np
import pytest

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Dependency,
    FilterColumn,
    Promises,
    QueueingHint,
    unschedulable,
)
from berth.testing import PluginFaultError, check_plugin

BY_PODS = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})
BY_NODE = frozenset({Dependency.NODE})
FULL = unschedulable("node(s) had enough pods of the application")
SLOW = unschedulable("node(s) had a slow disk")


class Sound:
    """Lets one pod of an application on a node, none of "c" on slow disks, and prefers nodes with few pods."""

    name = "Sound"
    promises: ClassVar[Promises] = Promises(filter_depends_on=BY_PODS, score_depends_on=BY_PODS)

    def __init__(self, args, handle):
        self.handle = handle

    def signature(self, pod):
        return pod.labels.get("app")

    def filter(self, state, pod, node):
        app = pod.labels.get("app")
        if app == "c" and node.labels.get("disk") == "hdd":
            return SLOW
        return FULL if any(other.labels.get("app") == app for other in node.pods.values()) else None

    def score(self, state, pod, node):
        return max(0, 100 - 5 * len(node.pods))

    def explain_rejection(self, pod):
        return [f"a pod of {pod.labels.get('app')} is on each node that would do"]

    def events_to_register(self):
        return [
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL)),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_LABEL)),
        ]


class Counting(Sound):
    """Lets so many pods run at a time, and counts them itself."""

    name = "Counting"
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.bound, self.reserved = set(), set()

    def pod_added(self, pod):
        if pod.node_name:
            self.bound.add(pod.uid)

    def pod_updated(self, old, new):
        self.pod_added(new)

    def pod_removed(self, pod):
        self.bound.discard(pod.uid)
        self.reserved.discard(pod.uid)

    def pre_filter(self, state, pod):
        return unschedulable("five pods run") if len((self.bound | self.reserved) - {pod.uid}) >= 5 else None

    def reserve(self, state, pod, node_name):
        self.reserved.add(pod.uid)

    def unreserve(self, state, pod, node_name):
        self.reserved.discard(pod.uid)


def broken(base=Sound, /, **methods):
    name = methods.pop("called", "Broken")
    return type(name, (base,), {"name": name, "promises": base.promises, **methods})


def mutates(self, state, pod, node):
    dict.__setitem__(pod.metadata.labels, "seen", "yes")


def never_forgets(self, pod):
    self.reserved.discard(pod.uid)


def other_columns(self, state, pod, table, rows):
    return FilterColumn(np.zeros(len(table.valid[rows]), dtype=np.int32), lambda code: FULL)


def half_explained(self, pod):
    return ["a pod of its application is there"] if pod.labels.get("app") == "a" else []


def deaf(self):
    return [ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), lambda pod, old, new: QueueingHint.SKIP)]


def yields_words(self, state, pod, node_name):
    yield "a word"


def in_turn(self, state, pod, node):
    self.turn = getattr(self, "turn", 0) + 1
    return self.turn % 7


BROKEN = {
    "looks at pods, and promises the node alone": (
        broken(promises=Promises(filter_depends_on=BY_NODE)), "promise", "node.pods (promise Dependency.PODS_ON_NODE)"),
    "has a signature that says too little": (
        broken(signature=lambda self, pod: ()), "promise", "its signature is that of pod default/"),
    "changes what it is given": (
        broken(promises=Promises(), filter=mutates), "inputs", "was changed, which others read as well"),
    "knows nothing of pods that ran before it": (
        broken(Counting, pod_added=lambda self, pod: None), "state", "the scheduler was started anew"),
    "never forgets pods that are gone": (
        broken(Counting, pod_removed=never_forgets), "state", "the scheduler was started anew"),
    "keeps what it has reserved in vain": (
        broken(Counting, unreserve=lambda *_: None, pod_removed=lambda self, pod: self.bound.discard(pod.uid)),
        "state", "the scheduler was started anew"),
    "gives more than a hundred": (
        broken(score=lambda self, state, pod, node: 100 + len(node.pods)), "scores", "not 0 to 100"),
    "says something else in columns": (
        broken(filter_columns=other_columns), "promise", "was said by column, but"),
    "explains some rejections only": (
        broken(explain_rejection=half_explained), "explanations", "nothing explains why pod default/"),
    "lets pods wait that would fit": (
        broken(events_to_register=deaf), "waking", "fits, and was left waiting"),
    "raises where a label is missing": (
        broken(filter=lambda self, state, pod, node: node.labels["rack"] and None), "raises", "KeyError: 'rack'"),
    "answers by how often it was asked": (
        broken(score=in_turn), "promise", "was kept, but now it says"),
    "yields what is no effect": (
        broken(pre_bind=yields_words), "raises",
        f"/test_plugin_check.py:{yields_words.__code__.co_firstlineno + 1}), but an ApiCall or"),
    "has no such method": (
        broken(filter=lambda self, pod, node: None), "contract", "has the method filter(self, pod, node), but it is"),
}  # fmt: skip


@pytest.mark.parametrize("sound", [Sound, Counting])
def test_a_plugin_that_is_right_passes(sound):
    check_plugin(sound, histories=6)


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_wrong_is_found_and_named(fault):
    plugin, kind, words = BROKEN[fault]
    with pytest.raises(PluginFaultError) as told:
        check_plugin(plugin, histories=6)
    assert words in {each.kind: each.what for each in told.value.faults}.get(kind, ""), str(told.value)
    assert str(told.value).startswith("Broken: ")
