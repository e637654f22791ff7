"""Plugins that keep state of their own, made of what they are told of pods."""

from berth.framework.status import unschedulable


class Heard:
    """Writes down what it is told of pods and of places for them; it has no say."""

    name = "Heard"

    def __init__(self, args, handle):
        self.story = []

    def pod_added(self, pod):
        self.story.append(("added", pod.uid, pod.node_name))

    def pod_updated(self, old, new):
        if new.node_name and not old.node_name:
            self.story.append(("bound", new.uid, new.node_name))

    def pod_removed(self, pod):
        self.story.append(("removed", pod.uid, pod.node_name))

    def reserve(self, state, pod, node_name):
        self.story.append(("reserved", pod.uid, node_name))

    def unreserve(self, state, pod, node_name):
        self.story.append(("unreserved", pod.uid, node_name))

    def post_bind(self, state, pod, node_name):
        self.story.append(("postBound", pod.uid, node_name))


class Steered:
    """Prefers the nodes with the most pods that it has been told of; closes those that have three of them."""

    name = "Steered"

    def __init__(self, args, handle):
        self.node_of = {}

    def pod_added(self, pod):
        if pod.node_name:
            self.node_of[pod.uid] = pod.node_name

    def pod_updated(self, old, new):
        self.pod_added(new)

    def pod_removed(self, pod):
        self.node_of.pop(pod.uid, None)

    def _pods_on(self, node):
        return list(self.node_of.values()).count(node.name)

    def filter(self, state, pod, node):
        return unschedulable("three are enough") if self._pods_on(node) >= 3 else None

    def score(self, state, pod, node):
        return self._pods_on(node) * 10
