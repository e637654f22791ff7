"""Scheduling cases as `berth decide` and `berth impact` read them: a small cluster, and the pods to place in turn.

A case becomes a core of its generation, with the case's configuration and objects. `tests/conformance/README.md` says
what each key means.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.codec import KINDS, decode
from berth.api.user_error import UserError
from berth.config.errors import unsupported
from berth.config.feature_gates import feature_gates
from berth.config.legacy.documents import AlgorithmSource
from berth.config.legacy.providers import PROVIDERS
from berth.config.load import default_config, legacy_default_config, load_config
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core
from berth.core.generation import GENERATIONS
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions, DecisionOptions
from berth.engine.sums import BestRows
from berth.framework.registry import Registry
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Json = dict[str, Any]

_OF_ONE_GENERATION = frozenset({"config", "policy", "provider", "featureGates", "decisions"})
"""The keys of a case that have a meaning in its own generation only."""


class CaseError(UserError, ValueError):
    """A case that cannot be replayed; the message says which, and what is wrong with it."""


def case_for(case: Mapping[str, Any], generation: str) -> Mapping[str, Any]:
    """Return a case as another generation gets it: the same cluster and pods, that generation's default profile."""
    if case.get("generation", "v1.36") == generation:
        return case
    return {key: value for key, value in case.items() if key not in _OF_ONE_GENERATION} | {"generation": generation}


def core_of(
    case: Mapping[str, Any], registry: Registry, *, memos: bool = True, score_single_node: bool = False
) -> Core:
    """Return a core with the case's configuration and objects, which breaks ties as the records do.

    Raises `CaseError`, `ConfigError` or `ObjectError`.
    """
    decisions = DecisionOptions(memos=memos, break_ties=smallest_name, score_single_node=score_single_node)
    core = build_core(config_of(case), registry, CoreOptions(rng=random.Random(0), decisions=decisions))
    for document in documents(case, "objects"):
        for event in _events_of(core, document):
            core.handle(event, 0.0)
    if (load := case.get("loadWatcher")) is not None:
        for resource in core.resources.polled:
            core.handle(ObjectEvent("ADDED", resource.name, resource.read(load)), 0.0)
    return core


def documents(case: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects that a case lists under `key`, none where it has no such list. Raises `CaseError`.

    A pod that was written by hand has no uid, which the cache needs; it gets one made of namespace and name.
    """
    listed = case.get(key)
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise CaseError(f"case {case.get('name')!r}: {key} must be a list of objects, not {listed!r}")
    for number, document in enumerate(listed):
        if not isinstance(document, Mapping):
            raise CaseError(f"case {case.get('name')!r}: {key}[{number}] must be an object, not {document!r}")
    return [_with_uid(document) if key == "pods" or document.get("kind") == "Pod" else document for document in listed]


def _with_uid(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = pod.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("uid"):
        return pod
    made_up = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return {**pod, "metadata": {**metadata, "uid": made_up}}


def check_new(core: Core, pod: PodInfo) -> None:
    """Raise `CaseError` where a pod that is to be placed is on a node already."""
    if core.cache.state_of(pod.uid) is not None:
        raise CaseError(f"pod {pod.key}: a pod with its uid {pod.uid!r} is on a node already")


def is_sampled(case: Mapping[str, Any]) -> bool:
    """Say whether the case honours its percentage of nodes."""
    return bool(case.get("search") == "sampled")


def config_of(case: Mapping[str, Any]) -> SchedulerConfiguration:
    """Return the configuration of a case. Raises `CaseError` or `ConfigError`."""
    name, generation = case.get("name"), case.get("generation", "v1.36")
    if not isinstance(generation, str) or generation not in GENERATIONS:
        known = ", ".join(GENERATIONS)
        raise CaseError(f"case {name!r}: generation {generation!r} is not known; the known ones: {known}")
    given = [key for key in ("config", "policy", "provider") if case.get(key) is not None]
    if len(given) > 1 or (generation != "v1.20" and given not in ([], ["config"])):
        raise CaseError(f"case {name!r}: {' and '.join(given)} given: v1.36 takes config, v1.20 one of all three")
    if case.get("provider") is not None and case["provider"] not in PROVIDERS:
        raise CaseError(f"case {name!r}: {unsupported('provider', case['provider'], PROVIDERS)}")
    switched = case.get("featureGates") or {}
    if not isinstance(switched, dict) or not all(isinstance(value, bool) for value in switched.values()):
        raise CaseError(f"case {name!r}: featureGates must be an object of true and false, not {switched!r}")
    gates = feature_gates(switched, generation)
    if generation == "v1.20" and given in ([], ["provider"]):
        return legacy_default_config(gates, AlgorithmSource(case["provider"]) if given else None)
    if not given:
        return default_config(gates)
    config = load_config(case[given[0]], f"{given[0]} of case {name!r}", gates)
    if config.generation != generation:
        raise CaseError(f"case {name!r}: its {given[0]} is of generation {config.generation}, the case of {generation}")
    # The records were made with every node searched, except for those of sampling.
    return config if is_sampled(case) else msgspec.structs.replace(config, percentage_of_nodes_to_score=None)


def _events_of(core: Core, document: Mapping[str, Any]) -> Iterator[ObjectEvent]:
    """Yield what a core is told of an object: as a plugin reads it that follows its resource, and as the core does."""
    custom = core.resources.of_manifest(document)
    if custom is not None:
        yield ObjectEvent("ADDED", custom.name, custom.read(document))
    if custom is None or not custom.group:
        yield ObjectEvent("ADDED", _kind_of(document), decode(_kind_of(document), document))


def _kind_of(document: Mapping[str, Any]) -> str:
    kind = str(document.get("kind", ""))
    if kind not in KINDS:
        raise CaseError(f"object of kind {kind!r}: known kinds are {', '.join(sorted(KINDS))}")
    return kind


def smallest_name(table: NodeTable) -> Callable[[BestRows], int]:
    """Return a tie breaker that chooses as the records do."""
    return lambda rows: min(map(int, rows), key=table.names.__getitem__)
