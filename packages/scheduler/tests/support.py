"""What tests of the engine share: a profile of few plugins, and plugins that do as they are told."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Request
from berth.framework.events import ClusterEventWithHint
from berth.framework.promises import Promises
from berth.framework.status import Status, unschedulable


def document(*names: str, **fields: Any) -> dict[str, Any]:
    """A configuration whose only profile has these plugins beside the default ones."""
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    return with_profiles({"plugins": plugins}, **fields)


def with_profiles(*profiles: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A configuration of these profiles."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, "profiles": list(profiles), **fields}


def plugin(name: str, *, events: Sequence[ClusterEventWithHint] = (), **methods: Any) -> type:
    """A plugin class of these methods; each is called without `self`, and calls are noted in `calls`.

    No event wakes the pods it rejects, unless they are given. Fields of `Promises` are what the class promises.
    """
    made: dict[str, Any] = {"name": name, "calls": [], "handle": None, "__init__": _remember_handle}
    made["events_to_register"] = lambda _self: events
    names = {field.name for field in msgspec.structs.fields(Promises)}
    made["promises"] = Promises(**{name: methods.pop(name) for name in names & methods.keys()})
    for method, act in methods.items():
        made[method] = _noting(method, act) if callable(act) else act
    return type(name, (), made)


def once(answer: Any) -> Any:
    """A method that answers this the first time it is called, and nothing from then on."""
    answers = [answer]
    return lambda *_: answers.pop() if answers else None


def _remember_handle(self: Any, args: Any, handle: Any) -> None:
    type(self).handle = handle


def _noting(method: str, act: Any) -> Any:
    def call(self: Any, *args: Any) -> Any:
        type(self).calls.append(method)
        return act(*args)

    return call


class Picky:
    """Rejects every node until told otherwise."""

    name: ClassVar[str] = "Picky"

    def __init__(self, args: None, handle: Any) -> None:
        type(self).handle = handle

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None if node.labels.get("picked") else unschedulable("not picked")


def node(name="n1", cpu="1"):
    return make_node(name).capacity(cpu=cpu, memory="8Gi")


def pod(name, cpu="600m"):
    return make_pod(name).request(cpu=cpu)


def cluster(*objects, **options):
    """A core in virtual time over these objects."""
    return VirtualCluster(*objects, **options)


def requests_of(found, kind):
    return [
        effect.effect for effect in found.effects if isinstance(effect, Request) and isinstance(effect.effect, kind)
    ]


def boom(*_):
    raise RuntimeError("boom")


BOOM = f"RuntimeError: boom (packages/scheduler/tests/support.py:{boom.__code__.co_firstlineno + 1})"
"""What is told of the exception, with its place."""


def reserving(**more):
    return plugin("Keeper", reserve=lambda *_: None, unreserve=lambda *_: None, **more)
