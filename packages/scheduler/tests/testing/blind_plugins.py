"""Plugins with faults that are easily overlooked, for the test of `check_plugin`."""

import random
import time
from datetime import UTC, datetime
from typing import ClassVar

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Dependency,
    Promises,
    unschedulable,
)

NODE = frozenset({Dependency.NODE})
BY_PODS = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})


class Base:
    name = "Blind"

    def __init__(self, args, handle):
        pass

    def signature(self, pod):
        return ()


class ForgetsPodsInNodeSignature(Base):
    promises: ClassVar[Promises] = Promises(filter_depends_on=BY_PODS)

    def node_signature(self, node):
        return node.labels.get("zone")

    def filter(self, state, pod, node):
        return unschedulable("full") if node.pods else None


def on(kind, action):
    return lambda self: [ClusterEventWithHint(ClusterEvent(kind, action))]


class DeafToPodLabels(Base):
    """Lets one pod of an application on a node, and hears of no pod whose labels change."""

    def filter(self, state, pod, node):
        there = {other.labels.get("app") for other in node.pods.values()}
        return unschedulable("one is there") if pod.labels.get("app") in there else None

    def events_to_register(self):
        return [
            ClusterEventWithHint(ClusterEvent("Node", Action.ALL)),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE)),
        ]


class DeafToNodeLabels(Base):
    def filter(self, state, pod, node):
        return (
            unschedulable("slow disk") if node.labels.get("disk") == "hdd" or node.labels.get("zone") == "a" else None
        )

    events_to_register = on("Pod", Action.DELETE)


class DeafToDeletions(Base):
    def filter(self, state, pod, node):
        return unschedulable("full") if node.pods else None

    events_to_register = on("Node", Action.ALL)


class LessAgainstKey(Base):
    def less(self, a, b):
        return a.pod.name < b.pod.name

    def sort_key(self, queued):
        return tuple(-ord(letter) for letter in queued.pod.name)


class RandomLess(Base):
    def less(self, a, b):
        return random.random() < 0.5


class AlwaysLess(Base):
    def less(self, a, b):
        return True


class CyclicLess(Base):
    """Names in a circle: 0 before 1, 1 before 2, 2 before 0."""

    def less(self, a, b):
        return (len(a.pod.name) * 7 + ord(a.pod.name[-1]) + 1) % 3 == (len(b.pod.name) * 7 + ord(b.pod.name[-1])) % 3


class MixedKeys(Base):
    def less(self, a, b):
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued):
        return queued.pod.labels["app"] if queued.pod.labels["app"] != "a" else 0


class LessRaises(Base):
    def less(self, a, b):
        return a.pod.labels["due"] < b.pod.labels["due"]


class HintRaises(DeafToDeletions):
    def events_to_register(self):
        return [ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self._hint)]

    def _hint(self, pod, old, new):
        return {}["hint"]


class ReadsTime(Base):
    promises: ClassVar[Promises] = Promises(filter_depends_on=NODE)

    def filter(self, state, pod, node):
        return unschedulable("an odd second") if int(time.time()) % 2 else None


class ReadsDatetime(Base):
    promises: ClassVar[Promises] = Promises(score_depends_on=NODE)

    def score(self, state, pod, node):
        return datetime.now(UTC).second


class Sleeps(Base):
    def pre_bind(self, state, pod, node_name):
        time.sleep(0.12)


class SleepsInSteps(Base):
    def pre_bind(self, state, pod, node_name):
        time.sleep(0.12)
        return None
        yield


class Works(Base):
    def score(self, state, pod, node):
        until = time.thread_time() + 0.51
        while time.thread_time() < until:
            pass
        return 1
