"""What plugins say would have them let a pod pass: changes of the objects that they follow, such as a quota."""

from collections.abc import Iterator
from shlex import quote
from typing import Any

from berth.api.codec import ObjectError
from berth.core.api_calls import merged
from berth.decisions.by_plugins import remedies_for
from berth.framework.telling import Remedy
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.proof import Proposal, document_of
from berth_workbench.planning.help.proposals import OTHER_COST
from berth_workbench.planning.help.result import Change
from berth_workbench.planning.help.words import shell_quoted

Json = dict[str, Any]

TRIED = 8
"""So many remedies are tried at most."""


def of_plugins(question: PodQuestion) -> Iterator[Proposal]:
    """Yield the remedies that the plugins of the pod's profile know; each that helps is told."""
    prover = question.prover
    for remedy in remedies_for(question.info, prover.profile(question.info))[:TRIED]:
        resource = remedy.resource
        before = prover.core.objects.get(resource.name, remedy.name, remedy.namespace)
        if before is None:
            continue
        try:
            after = resource.read(merged(_document(before), remedy.patch))
        except ObjectError:
            continue
        yield Proposal(_change(remedy), objects=(after,))


def _document(obj: Any) -> Json:
    """Return an object as JSON values: one without a struct of its own has them beside its metadata."""
    found = document_of(obj)
    return found["content"] if "content" in found and "resource" in found else found


def _change(remedy: Remedy) -> Change:
    resource, patch = remedy.resource, merged({}, remedy.patch)
    key = f"{remedy.namespace}/{remedy.name}" if remedy.namespace else remedy.name
    within = f"-n {quote(remedy.namespace)} " if remedy.namespace else ""
    full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return Change(
        on="cluster",
        what=f"{remedy.what} of the {resource.kind} {key}",
        patch=patch,
        fits_on=(),
        patch_type="merge",
        target=f"{resource.kind}/{key}",
        kind="object",
        cost=OTHER_COST,
        command=f"kubectl {within}patch {full} {quote(remedy.name)} --type merge -p {shell_quoted(patch)}",
    )
