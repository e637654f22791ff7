"""`berth decide --cluster`: where the pods of a snapshot would go, in the shape of recorded decisions."""

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from berth.cli.setup import warn
from berth_workbench.cli.cluster_input import read_manifests
from berth_workbench.cli.progress import EndedEarly, found_by_then, working
from berth_workbench.simulation.measures import is_pending

if TYPE_CHECKING:
    from berth.api.meta import Struct
    from berth.api.pod import Pod
    from berth.core.core import Core
    from berth.framework.setup import Setup
    from berth_workbench.simulation.admission import Admission
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot


def decide_cluster(snapshot: "Snapshot", manifests: Sequence[str], setup: "Setup", *, memos: bool) -> None:
    """Print a line for each pod: {"name": "namespace/name", "steps": [decision]}."""
    from berth_workbench.cases.decide import decisions_about

    core = _core(setup, memos=memos)
    pods = _taken_in(core, snapshot, manifests)
    grouped = sum(pod.spec.scheduling_group is not None for pod in pods)
    if grouped and any(profile.plugins_that_permit_groups for profile in core.profiles.values()):
        warn(f"{grouped} pod{'s belong' if grouped > 1 else ' belongs'} to a group, and each is decided by itself")
    with working("deciding", len(pods)) as work:
        for number, decision in enumerate(decisions_about(pods, core), 1):
            line = msgspec.json.encode({"name": decision["pod"], "steps": [decision]})
            sys.stdout.buffer.write(line + b"\n")
            work.advance()
            if work.is_stopped and number < len(pods):
                raise EndedEarly(found_by_then())


def _core(setup: "Setup", *, memos: bool) -> "Core":
    """Return a core that searches all nodes, and breaks ties as the records do."""
    from berth.core.assembly import build_core
    from berth.core.options import CoreOptions, DecisionOptions
    from berth_workbench.cases.cases import smallest_name

    config = msgspec.structs.replace(setup.config, percentage_of_nodes_to_score=None)
    decisions = DecisionOptions(memos=memos, break_ties=smallest_name, score_single_node=True)
    return build_core(config, setup.registry, CoreOptions(rng=random.Random(0), decisions=decisions))


def _taken_in(core: "Core", snapshot: "Snapshot", manifests: Sequence[str]) -> "list[Pod]":
    """Tell a core of a cluster, and return the pods to decide about: those of the manifests, or else the pending."""
    from berth.api.node import PriorityClass
    from berth.api.pod import Pod
    from berth.core.intake import ObjectEvent
    from berth_workbench.planning.dynamic_admission import unasked_about
    from berth_workbench.simulation.admission import OF_ADMISSION, admission_over, with_priority
    from berth_workbench.simulation.followed import take_followed

    def take(obj: object) -> None:
        core.handle(ObjectEvent("ADDED", core.resources.name_of(obj), obj), 0.0)

    classes: dict[str, PriorityClass] = {}
    pending: list[Pod] = []
    there: list[Struct] = []
    gated = 0
    with working("reading the cluster", len(snapshot.documents)) as work:
        for each in snapshot.structs():
            work.advance()
            there.append(each)
            if isinstance(each, PriorityClass):
                classes[each.metadata.name] = each
            if not isinstance(each, Pod) or each.spec.node_name:
                take(each)
            elif each.spec.scheduling_gates:
                gated += 1
            elif is_pending(each):
                pending.append(each)
        take_followed(snapshot.documents, core.resources, take)
    documents = read_manifests(manifests)
    given = take_followed(documents, core.resources, take)
    if manifests:
        for each in pending:  # pods that preempted hold on to their room, as nominated pods do
            if each.status.nominated_node_name:
                take(each)
        admission = admission_over(there, snapshot.of(*OF_ADMISSION))
        asked = [_completed(admission, each) for each in _pods(given)]
        for note in unasked_about(snapshot, documents):
            warn(note)
        return asked
    if gated:
        warn(f"{gated} pod{'s are' if gated > 1 else ' is'} gated, and not decided about")
    asked = [with_priority(each, classes, is_stored=True) for each in pending]
    return sorted(asked, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or ""))


def _completed(admission: "Admission", pod: "Pod") -> "Pod":
    """Return a pod as the API server would make it. Quotas are not asked: the pods are decided about one by one."""
    found, why = admission.complete(pod)
    if why:
        raise click.ClickException(f"-f: the API server refuses pod {pod.key}: {why}")
    return found


def _pods(documents: "Iterable[Document]") -> "Iterator[Pod]":
    from berth.api.codec import ObjectError
    from berth_workbench.simulation.admission import admitted
    from berth_workbench.snapshot.documents import UnreadableObject

    for document in documents:
        if document.kind != "Pod":
            raise click.ClickException(
                f"{document.where}: {document.kind}: only pods are decided about; `berth whatif` takes workloads"
            )
        try:
            pod: Pod = admitted({**document.manifest, "kind": "Pod"})  # type: ignore[assignment]
        except ObjectError as error:
            raise UnreadableObject(document.where, error) from None
        yield pod
