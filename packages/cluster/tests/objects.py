"""A store on a clock that stands still until it is moved, and the smallest objects it accepts."""

import itertools
import random
from datetime import UTC, datetime, timedelta

from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.storage.namespace_contents import NamespaceContents
from berth_cluster.storage.store import Store

PODS = BY_KEY["", "pods"]
NODES = BY_KEY["", "nodes"]
NAMESPACES = BY_KEY["", "namespaces"]
CONFIG_MAPS = BY_KEY["", "configmaps"]
EVENTS = BY_KEY["", "events"]
NEW_EVENTS = BY_KEY["events.k8s.io", "events"]
LEASES = BY_KEY["coordination.k8s.io", "leases"]
DEPLOYMENTS = BY_KEY["apps", "deployments"]
JOBS = BY_KEY["batch", "jobs"]
BUDGETS = BY_KEY["policy", "poddisruptionbudgets"]
PRIORITY_CLASSES = BY_KEY["scheduling.k8s.io", "priorityclasses"]

START = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)


class Clock:
    """Time that moves only when told to."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += timedelta(seconds=seconds)


def make_store(clock=None, **options):
    numbers = itertools.count(1)
    options.setdefault("uid_factory", lambda: f"uid-{next(numbers)}")
    options.setdefault("rng", random.Random(7))
    store = Store(clock or Clock(), **options)
    if store.service_accounts:
        NamespaceContents(store)
    return store


def pod(name="web", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}], **spec}}


def config_map(name="settings", **data):
    return {"metadata": {"name": name}, "data": data}


def deployment(name="web", **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
            },
            **spec,
        },
    }


def names(objects):
    return [obj["metadata"]["name"] for obj in objects]
