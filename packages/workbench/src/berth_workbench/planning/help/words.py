"""What would help, for people: commands, and a numbered list that fits the width of a terminal."""

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Any

import msgspec
import yaml

from berth.api.pod import Pod
from berth.decisions.named_in_vain import in_sentences
from berth_workbench.planning.help.group import Group
from berth_workbench.planning.help.result import SMALLER, Change, Help, Lack
from berth_workbench.simulation.gangs import held_in_words

GATE = "schedulingGate"
IN_PLACE = frozenset({"toleration", GATE})
"""Edits that the API server takes of a pod that exists. For all others the pod has to be made anew."""
NAMES_SHOWN = 4
INDENT = "      "
SHELL_WORD = re.compile(r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\])+")
"""A word of the commands here as it is written, with its quotes; what separates words is outside of quotes."""
TAKES_PATCH = frozenset({"-p", "<<<"})


def pod_command(group: Group, kind: str, patch_type: str, patch: Any) -> str:
    """Return how a pod is changed: patched, through its workload's template, or made anew from its manifest.

    Of pods that the cluster does not have yet, the manifest is what can be changed.
    """
    pod = group.pod
    namespace, name = quote(pod.metadata.namespace), quote(pod.metadata.name)
    if not group.is_there:
        is_made = any(owner.controller for owner in pod.metadata.owner_references)
        text = shell_quoted(_of_template(patch) if is_made else patch)
        return f"kubectl patch --local -f MANIFEST --type {patch_type} -o yaml -p {text} > new.yaml"
    workload = _workload_of(pod)
    if kind in IN_PLACE and (workload is None or kind == GATE):
        names = " ".join(quote(each.metadata.name) for each in group.alike)
        return f"kubectl -n {namespace} patch pod {names} --type {patch_type} -p {shell_quoted(patch)}"
    if workload is not None:
        template = _of_template(patch)
        command = f"kubectl -n {namespace} patch {workload} --type {patch_type} -p {shell_quoted(template)}"
        if group.waits_for_each:
            command += (
                f" && {pods_deleted_command([each.key for each in group.alike if each.key not in group.missing])}"
            )
        return command
    names = " ".join(quote(each.metadata.name) for each in group.alike)
    is_one = len(group.alike) < 2
    once = made_anew_command("pod", namespace, name if is_one else "$pod", patch_type, patch)
    return once if is_one else f"for pod in {names}; do {once}; done"


def made_anew_command(
    kind: str, namespace: str, name: str, patch_type: str, patch: Any, *, is_protected: bool = False
) -> str:
    """Return how an object is made anew that cannot be changed; namespace and name as words of a shell.

    One that `is_protected` by a finalizer while it is in use would not go before its pods do, so that is taken off.
    """
    none = shell_quoted({"metadata": {"finalizers": None}})
    let_go = (
        f"kubectl -n {namespace} delete {kind} {name} --wait=false; "
        f"kubectl -n {namespace} patch {kind} {name} --type merge -p {none}; "
    )
    return (
        f"kubectl -n {namespace} get {kind} {name} -o yaml > {kind}.yaml; "
        f"kubectl patch --local -f {kind}.yaml --type {patch_type} -o yaml -p {shell_quoted(patch)} > new.yaml; "
        f"{let_go if is_protected else ''}kubectl replace --force -f new.yaml"
    )


def pods_deleted_command(keys: Sequence[str]) -> str:
    """Return how pods are deleted, by `namespace/name`."""
    by_namespace: dict[str, list[str]] = {}
    for key in keys:
        namespace, _, name = key.partition("/")
        by_namespace.setdefault(namespace, []).append(quote(name))
    return "; ".join(f"kubectl -n {quote(ns)} delete pod {' '.join(names)}" for ns, names in by_namespace.items())


def _workload_of(pod: Pod) -> str | None:
    """Return the workload whose template pods are made from, as kubectl takes it; None where it cannot be patched."""
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None or owner.kind not in ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"):
        return None
    template_hash = pod.metadata.labels.get("pod-template-hash")
    if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
        return f"deployment {quote(owner.name.removesuffix(f'-{template_hash}'))}"
    return f"{owner.kind.lower()} {quote(owner.name)}"


def _of_template(patch: Any) -> Any:
    """Return the patch of a workload that does to its template what another does to a pod."""
    if isinstance(patch, list):
        return [{**step, "path": f"/spec/template{step['path']}"} for step in patch]
    return {"spec": {"template": patch}}


def node_command(name: str, patch_type: str, patch: Any) -> str:
    """Return how a node is patched."""
    subresource = " --subresource status" if isinstance(patch, dict) and set(patch) == {"status"} else ""
    return f"kubectl patch node {quote(name)}{subresource} --type {patch_type} -p {shell_quoted(patch)}"


def shell_quoted(patch: Any) -> str:
    """Return a patch as one word of a shell."""
    text = msgspec.json.encode(patch).decode()
    return "'" + text.replace("'", "'\\''") + "'"


def names_in_words(names: Sequence[str], of_all: int = 0) -> str:
    """Return a few names, and how many more there are."""
    if of_all and len(names) == of_all and len(names) > NAMES_SHOWN:
        return f"all {of_all} nodes"
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


def lines_of(found: Help, width: int = 80) -> Iterable[str]:
    """Yield the report line by line."""
    if found.lacks:
        yield from _gang_lines(found, width)
    elif found.missing:
        yield from wrapped(f"{whom(found)}: {in_sentences(found.missing)}", width, "", "  ")
        yield from wrapped(f"The scheduler says: {found.message}", width, "  ", "  ")
    else:
        yield from wrapped(f"{whom(found)}: {found.message}", width, "", "  ")
    if found.state in ("fits", "runs") or not (found.changes or found.state == "pending"):
        for told in found.notes:
            yield from wrapped(_capital(told), width, "- ", "  ")
        return
    yield ""
    yield from wrapped(whether_ever(found) or "Not now.", width)
    if found.changes:
        yield ""
        is_partial = found.changes[0].still_pending and found.changes[0].kind != SMALLER
        yield ("Nothing was found that places all of them. Any one of these places more:"
               if is_partial else "Any one of these would help, the cheapest first:")  # fmt: skip
    elif found.is_complete:
        yield from wrapped("No change was found that would help.", width)
    for number, change in enumerate(found.changes, 1):
        head = f"{number:>2}. "
        yield from wrapped(f"{_capital(change.what)}.", width, head, " " * len(head))
        for sentence in consequences(found, change):
            yield from wrapped(sentence, width, "    ", "    ")
        for command in (change.command, *(part.command for part in change.with_)):
            yield from _command_lines(command, width)
    for told in (each for each in (*found.said, *found.notes) if each not in found.missing):
        yield from wrapped(_capital(told), width, "- ", "  ")
    if found.waits_for:
        yield ""
        yield "It is tried again after:" if found.never else "It waits for:"
        for awaited in found.waits_for:
            enough = " (that is enough)" if awaited.is_enough else ""
            yield from wrapped(f"{awaited.what}{enough}", width, "- ", "  ")
    if not found.is_complete:
        yield ""
        yield from wrapped(f"The search ended at its bound, after {found.trials} trials; there may be other changes.",
                            width)  # fmt: skip


def _gang_lines(found: Help, width: int) -> Iterable[str]:
    first, *more = gang_in_words(found)
    for sentence in (f"No: {first}", *more):
        yield from wrapped(sentence, width, "", "  ")


def gang_in_words(found: Help) -> Iterator[str]:
    """Yield for how many of a gang there is room, what keeps the next one out, and since when they wait."""
    made_by = f" ({found.workload.replace('/', ' ', 1)})" if found.workload else ""
    whose = f"{found.replicas} pods of {found.group.replace('/', ' ', 1)}{made_by}"
    where = f", in {found.together_in} {found.part}" if found.part else ""
    have = f"{found.have_place} of {whose} have a place together{where}"
    yield f"{have}; {found.needs_field} is {found.needed}."
    lacks = [lack_in_words(lack, found) for lack in found.lacks]
    yield f"{found.pod} has none: {', '.join(lacks)}."
    if len(found.parts) > 1:
        told = [f"{each.have_place} in {each.part}" for each in found.parts]
        yield f"By {found.together_in}: {names_in_words(told)} have a place."
    waits = [f"Waits since {found.since}."] if found.since else []
    if found.held is not None:
        count = len(found.held.pods)
        who = "1 member" if count == 1 else f"{count} members"
        hold = f"hold{'s' if count == 1 else ''} {held_in_words(found.held.holds)} until {found.held.until}"
        waits.append(f"{who} at Permit {hold}.")
    if waits:
        yield " ".join(waits)


def lack_in_words(lack: Lack, found: Help) -> str:
    """Return why some nodes do not take a pod, in a clause."""
    is_one = lack.nodes == 1
    nodes = "1 node" if is_one else f"{lack.nodes} nodes"
    if not lack.plugin:
        beside = f", where the other{'s are' if found.have_place != 1 else ' is'}" if found.have_place else ""
        return f"{nodes} {'is' if is_one else 'are'} outside {found.together_in} {found.part}{beside}"
    if not lack.resource:
        return f"{nodes}: {lack.reason}"
    amounts = f"it asks for {lack.needs}, and the most free on one is {lack.most_free}, on {lack.node}"
    if lack.reason == f"Insufficient {lack.resource}":
        return f"{nodes} {'lacks' if is_one else 'lack'} {lack.resource} ({amounts})"
    return f"{nodes}: {lack.reason} ({amounts})"


def whether_ever(found: Help) -> str:
    """Return that it does not help to wait, in a sentence; empty where it may."""
    return f"Never with this cluster: {why_never(found)}." if found.never else ""


def in_short(found: Help, most: int = 3) -> Iterable[tuple[str, str]]:
    """Yield the cheapest changes in a sentence each, with the command that makes it; or that there is none."""
    if found.state in ("fits", "runs"):
        yield f"{_capital(found.message)}.", ""
    for change in found.changes[:most]:
        left = f", which leaves {change.still_pending} waiting" if change.still_pending else ""
        commands = (change.command, *(part.command for part in change.with_))
        yield f"{_capital(change.what)}{left}.{_price(found, change)}", " && ".join(filter(None, commands))
    if found.state not in ("fits", "runs") and not found.changes:
        yield "No change was found that would help." if found.is_complete else "It has not been looked far enough.", ""


def _price(found: Help, change: Change) -> str:
    """Return what comes of a change beside the place that is wanted."""
    told = list(consequences(found, change))[1:]
    return f" {' '.join(told)}" if told else ""


def why_never(found: Help) -> str:
    """Return why it does not help to wait, in a clause."""
    if found.too_few:
        return f"{found.replicas} replicas, {found.too_few}, and no two of them may be in the same"
    whom = "no node would take it"
    if found.most is not None:
        whom = f"no more than {found.most} of the {found.replicas} would fit"
    return f"even if all other pods that may be evicted were gone, {whom}"


def whom(found: Help) -> str:
    """Return whom an answer is about."""
    if not found.workload and not found.group:
        return found.pod
    name = (found.workload or found.group).replace("/", " ", 1)
    if not found.pods:
        return name
    few = "its pod" if found.replicas == 1 else f"{len(found.pods)} of {found.replicas} pods"
    together = f" of {found.group.replace('/', ' ', 1)}" if found.workload and found.group else ""
    return f"{name}, {few}{together} pending ({names_in_words(found.pods)})"


def consequences(found: Help, change: Change) -> Iterable[str]:
    """Yield what comes of a change, in sentences."""
    is_named = not change.replaces or found.workload.startswith("StatefulSet/")  # others get new names
    all_of_them = "both" if found.replicas == 2 else f"all {found.replicas}"
    if found.replicas == 1:
        yield f"Then it fits on {_where(change)}."
    elif change.kind == SMALLER and change.still_pending:
        placed = found.replicas - change.still_pending
        yield f"Then {placed} of {found.replicas} are bound, on {_where(change)}, and the others wait for room."
    elif change.still_pending:
        left = change.still_pending
        yield f"Then {found.replicas - left} of {found.replicas} have a place, on {_where(change)}; {left} still wait."
    elif change.kind == "replicas":
        yield "Then all of them have a place."
    else:
        yield f"Then {all_of_them} have a place{', the pending ones' if is_named else ','} on {_where(change)}."
    if change.replaces:
        yield f"{'The one that runs is' if change.replaces == 1 else f'The {change.replaces} that run are'} made anew."
    for part in change.with_:
        if part.on == "cluster":
            yield f"The rollout stops, since pods of the old template keep the new ones away, until you {part.what}."
    if change.gains:
        yield f"So {'has' if len(change.gains) == 1 else 'have'} {names_in_words(change.gains)}, waiting as well."
    if change.moves:
        yield f"It costs {names_in_words(change.moves)} a restart."
    if change.leaves:
        is_one = len(change.leaves) == 1
        yield (f"No place is left for {names_in_words(change.leaves)}, which {'is' if is_one else 'are'} less "
               "important.")  # fmt: skip


def _where(change: Change) -> str:
    where = names_in_words(change.fits_on)
    others = [*change.also_on]
    if others:
        where += f"; the same does on {names_in_words(others)}"
    if change.untried:
        where += f"; {change.untried} more {'node looks' if change.untried == 1 else 'nodes look'} alike"
    return where


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return a sentence on as many lines as it takes."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False) or [first]


def _command_lines(command: str, width: int) -> Iterable[str]:
    """Yield a command in lines that can be pasted: where one ends between words, it ends with a backslash.

    A word is never broken: between quotes a backslash would count as itself. A patch that is too long for a line is
    written as YAML, which kubectl reads as well.
    """
    if not command:
        return
    if not command.isprintable():
        yield from wrapped("(No command: a name in it has control characters.)", width, "    ", "    ")
        return
    line, before = "    $", ""
    for word in SHELL_WORD.findall(command):
        fits = len(line) + len(" ") + len(word) <= width - len(" \\")
        document = _as_yaml(word, width) if before in TAKES_PATCH and len(INDENT) + len(word) > width - 2 else ""
        if document:
            yield f"{line} '"
            yield from (f"{INDENT}{each}" for each in document.splitlines())
            line = f"{INDENT}'"
        elif fits:
            line += f" {word}"
        else:
            yield f"{line} \\"
            line = INDENT + word
        before = word
    yield line


def _as_yaml(word: str, width: int) -> str:
    """Return a quoted patch as YAML that can stand between single quotes of a shell; empty where it is no patch."""
    try:
        patch = msgspec.json.decode("".join(shlex.split(word)))
    except (ValueError, RecursionError):  # a name that stands where a patch would
        return ""
    if not isinstance(patch, dict | list):
        return ""
    document: str = yaml.safe_dump(patch, sort_keys=False, width=width)
    if "\\\n" in document:  # a folded string that would look like a command that goes on
        document = yaml.safe_dump(patch, sort_keys=False, width=sys.maxsize)
    with_double = document.replace("'", '"')
    if _is_yaml_of(with_double, patch):
        return with_double
    return document.replace("'", "'\\''")


def _is_yaml_of(document: str, patch: Any) -> bool:
    try:
        return bool(yaml.safe_load(document) == patch)
    except yaml.YAMLError:
        return False
