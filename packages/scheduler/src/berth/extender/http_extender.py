"""One configured extender, without its connection: which pods concern it, what it is asked, what its answers mean.

Rules and messages are those of pkg/scheduler/extender.go. Pods and nodes are sent whole, as the `whole` function that
the extender was made with writes them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.node import Node
from berth.api.pod import Container, Pod
from berth.api.redaction import redact_url
from berth.config.types import ExtenderConfig
from berth.extender import wire
from berth.framework.effects import CallExtender
from berth.framework.extenders import ExtenderError, Filtered, NodeVictims, Verb, VictimIds
from berth.state.pod_info import PodInfo

Whole = Callable[[Pod | Node], bytes]
"""Returns the JSON of an object."""


def as_known(obj: Pod | Node) -> bytes:
    """Return the fields that the scheduler reads, for when the whole object is not kept."""
    return msgspec.json.encode(obj)


class HttpExtender:
    """An extender; `place` is where the configuration lists it."""

    __slots__ = ("_config", "_managed", "_name", "_place", "_verbs", "_whole")

    def __init__(self, config: ExtenderConfig, place: int, whole: Whole = as_known) -> None:
        self._config = config
        self._name = redact_url(config.url_prefix)
        self._place = place
        self._whole = whole
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._verbs: Mapping[Verb, str] = {
            "filter": config.filter_verb,
            "prioritize": config.prioritize_verb,
            "preempt": config.preempt_verb,
            "bind": config.bind_verb,
        }

    @property
    def name(self) -> str:
        """Its URL without a password, by which extenders are identified."""
        return self._name

    @property
    def weight(self) -> int:
        """What its scores are multiplied by."""
        return self._config.weight

    @property
    def is_ignorable(self) -> bool:
        """Whether pods are scheduled without it when it fails."""
        return self._config.ignorable

    def does(self, verb: Verb) -> bool:
        """Say whether it takes part in this."""
        return bool(self._verbs[verb])

    def is_interested(self, pod: PodInfo) -> bool:
        """Say whether a container asks for a resource that it manages, by request or limit; all pods if it has none."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return not self._managed or any(map(self._concerns, containers))

    def _concerns(self, container: Container) -> bool:
        resources = container.resources
        return not self._managed.isdisjoint(resources.requests) or not self._managed.isdisjoint(resources.limits)

    def filter_call(self, pod: PodInfo, nodes: Sequence[Node]) -> CallExtender:
        """Ask which of the nodes the pod fits on."""
        return self._call("filter", self._args(pod, nodes))

    def read_filter(self, answer: bytes, given: Sequence[Node]) -> Filtered:
        """Return the nodes that are left, all of which must be among those given. No list at all leaves none."""
        result = self._read(answer, wire.ExtenderFilterResult)
        if result.error:
            raise ExtenderError(result.error)
        kept: tuple[str, ...] = ()
        if self._config.node_cache_capable and result.node_names is not None:
            kept = result.node_names
        elif result.nodes is not None:
            kept = tuple(map(self._name_of, result.nodes.items))
        names = {node.metadata.name for node in given}
        for name in kept:
            if name not in names:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return Filtered(kept, result.failed_nodes, result.failed_and_unresolvable_nodes)

    def prioritize_call(self, pod: PodInfo, nodes: Sequence[Node]) -> CallExtender:
        """Ask how good each of the nodes is."""
        return self._call("prioritize", self._args(pod, nodes))

    def read_prioritize(self, answer: bytes) -> Sequence[tuple[str, int]]:
        """Return names and scores as the extender gave them."""
        found: list[wire.HostPriority] = self._read(answer, list[wire.HostPriority])
        return [(one.host, one.score) for one in found or ()]

    def preempt_call(self, pod: PodInfo, victims: Mapping[str, NodeVictims]) -> CallExtender:
        """Ask which of the nodes may be freed."""
        whole = self._raw(pod.pod)
        if self._config.node_cache_capable:
            by_uid = {name: _meta(found) for name, found in victims.items()}
            return self._call("preempt", wire.ExtenderPreemptionArgs(whole, node_name_to_meta_victims=by_uid))
        by_node = {
            name: wire.Victims(tuple(self._raw(pod.pod) for pod in found.pods), found.violations)
            for name, found in victims.items()
        }
        return self._call("preempt", wire.ExtenderPreemptionArgs(whole, by_node))

    def read_preempt(self, answer: bytes) -> Mapping[str, VictimIds]:
        """Return the nodes that are left with their victims."""
        result = self._read(answer, wire.ExtenderPreemptionResult)
        return {
            name: VictimIds(tuple(pod.uid for pod in found.pods), found.num_pdb_violations)
            for name, found in result.node_name_to_meta_victims.items()
        }

    def bind_call(self, pod: PodInfo, node_name: str) -> CallExtender:
        """Have it bind the pod."""
        asked = self._call("bind", wire.ExtenderBindingArgs(pod.name, pod.namespace, pod.uid, node_name))
        return msgspec.structs.replace(asked, writes_in=pod.namespace)

    def read_bind(self, answer: bytes) -> None:
        """Return where the pod is bound; raises where the extender refused."""
        result = self._read(answer, wire.ExtenderBindingResult)
        if result.error:
            raise ExtenderError(result.error)

    def _args(self, pod: PodInfo, nodes: Sequence[Node]) -> wire.ExtenderArgs:
        whole = self._raw(pod.pod)
        if self._config.node_cache_capable:
            return wire.ExtenderArgs(whole, node_names=tuple(node.metadata.name for node in nodes))
        return wire.ExtenderArgs(whole, wire.NodeList(items=tuple(map(self._raw, nodes))))

    def _raw(self, obj: Pod | Node) -> msgspec.Raw:
        return msgspec.Raw(self._whole(obj))

    def _call(self, verb: Verb, document: wire.GoStruct) -> CallExtender:
        return CallExtender(self._place, self._verbs[verb], wire.encode(document))

    def _read(self, answer: bytes, wanted: Any) -> Any:
        try:
            return wire.read(answer, wanted)
        except wire.WireError as error:
            raise ExtenderError(f'extender "{self.name}": {error}') from None

    def _name_of(self, node: msgspec.Raw) -> str:
        try:
            return wire.object_name(node)
        except wire.WireError as error:
            raise ExtenderError(f'extender "{self.name}": {error}') from None


def _meta(victims: NodeVictims) -> wire.MetaVictims:
    return wire.MetaVictims(tuple(wire.MetaPod(pod.uid) for pod in victims.pods), victims.violations)


def build_extenders(configured: Sequence[ExtenderConfig], whole: Whole = as_known) -> tuple[HttpExtender, ...]:
    """Return the extenders in the order in which they are asked: as listed, those that may be ignored last."""
    made = [HttpExtender(config, place, whole) for place, config in enumerate(configured)]
    return tuple(sorted(made, key=lambda extender: extender.is_ignorable))


def kinds_sent_whole(configured: Sequence[ExtenderConfig]) -> frozenset[str]:
    """Return the kinds of objects to keep whole: pods if any extender is sent them, nodes where one asks for them."""
    asked = [one for one in configured if one.filter_verb or one.prioritize_verb or one.preempt_verb]
    nodes = any(not one.node_cache_capable for one in asked)
    return frozenset((("Pod",) if asked else ()) + (("Node",) if nodes else ()))
