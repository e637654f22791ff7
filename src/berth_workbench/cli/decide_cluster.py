"""`berth decide --cluster`: where the pods of a snapshot would go, in the shape of recorded decisions."""

import random
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from berth.cli.setup import BadConfigurationError, warn
from berth_workbench.cli.cluster_input import read_cluster_given, read_manifests
from berth_workbench.cli.progress import working

if TYPE_CHECKING:
    from berth.api.meta import Struct
    from berth.api.pod import Pod
    from berth.cli.setup import Setup
    from berth.core.core import Core

FINISHED = frozenset({"Succeeded", "Failed"})


class _Objects(NamedTuple):
    """A cluster, and the pods to decide about."""

    others: "list[Struct]"
    pods: "list[Pod]"


def decide_cluster(cluster: Sequence[str], manifests: Sequence[str], setup: "Setup", *, memos: bool) -> None:
    """Print a line for each pod: {"name": "namespace/name", "steps": [decision]}."""
    from berth.config.errors import ConfigError
    from berth_workbench.cases.decide import decisions_about

    try:
        found = _objects(cluster, manifests)
        core = _core(found.others, setup, memos=memos)
        with working("deciding", len(found.pods)) as work:
            for decision in decisions_about(found.pods, core):
                line = msgspec.json.encode({"name": decision["pod"], "steps": [decision]})
                sys.stdout.buffer.write(line + b"\n")
                work.advance()
                if work.is_stopped:
                    break
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None


def _objects(cluster: Sequence[str], manifests: Sequence[str]) -> _Objects:
    """Read the cluster, and tell its pending pods from the others; where there are manifests, theirs are decided."""
    from berth.api.node import PriorityClass
    from berth.api.pod import Pod
    from berth_workbench.simulation.admission import with_priority

    structs = list(read_cluster_given(cluster).structs())
    classes = {each.metadata.name: each for each in structs if isinstance(each, PriorityClass)}
    others: list[Struct] = []
    pending: list[Pod] = []
    gated = 0
    for each in structs:
        if not isinstance(each, Pod) or each.spec.node_name:
            others.append(each)
        elif each.spec.scheduling_gates:
            gated += 1
        elif each.status.phase not in FINISHED and each.metadata.deletion_timestamp is None:
            pending.append(each)
    given = list(_given(manifests)) if manifests else pending
    if manifests:  # pods that preempted hold on to their room, as nominated pods do
        others += [each for each in pending if each.status.nominated_node_name]
    elif gated:
        warn(f"{gated} pod{'s are' if gated > 1 else ' is'} gated, and not decided about")
    pods = [with_priority(each, classes) for each in given]
    if not manifests:
        pods.sort(key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or ""))
    return _Objects(others, pods)


def _given(manifests: Sequence[str]) -> "Iterator[Pod]":
    from berth.api.codec import ObjectError
    from berth_workbench.simulation.admission import admitted
    from berth_workbench.snapshot.documents import UnreadableObject

    for document in read_manifests(manifests):
        if document.kind != "Pod":
            raise click.ClickException(
                f"{document.where}: {document.kind}: only pods are decided about; `berth whatif` takes workloads"
            )
        try:
            pod: Pod = admitted({**document.manifest, "kind": "Pod"})  # type: ignore[assignment]
        except ObjectError as error:
            raise UnreadableObject(document.where, error) from None
        yield pod


def _core(objects: "Sequence[Struct]", setup: "Setup", *, memos: bool) -> "Core":
    """Return a core that knows these objects, searches all nodes, and breaks ties as the records do."""
    from berth.core.assembly import build_core
    from berth.core.intake import ObjectEvent
    from berth_workbench.cases.cases import smallest_name

    config = msgspec.structs.replace(setup.config, percentage_of_nodes_to_score=None)
    core = build_core(
        config, setup.registry, rng=random.Random(0), memos=memos, break_ties=smallest_name, score_single_node=True
    )
    with working("reading the cluster", len(objects)) as work:
        for each in objects:
            core.handle(ObjectEvent("ADDED", type(each).__name__, each), 0.0)
            work.advance()
    return core
