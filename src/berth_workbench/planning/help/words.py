"""What would help, for people: commands, and a numbered list that fits the width of a terminal."""

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any

import msgspec
import yaml

from berth.api.pod import Pod
from berth_workbench.planning.help.result import Change, Help

IN_PLACE = frozenset({"toleration", "schedulingGate"})
"""Edits that the API server takes of a pod that exists. For all others the pod has to be made anew."""
NAMES_SHOWN = 4
INDENT = "      "
SHELL_WORD = re.compile(r"(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s'\"\\])+")
"""A word of the commands here as it is written, with its quotes; what separates words is outside of quotes."""
TAKES_PATCH = frozenset({"-p", "<<<"})


def pod_command(pod: Pod, kinds: Sequence[str], patch_type: str, patch: Any, *, is_there: bool = True) -> str:
    """Return how a pod is changed: patched, through its workload's template, or made anew from its manifest.

    `is_there` says whether the cluster has it; otherwise its manifest is what can be changed.
    """
    namespace, name = quote(pod.metadata.namespace), quote(pod.metadata.name)
    if not is_there:
        is_made = any(owner.controller for owner in pod.metadata.owner_references)
        text = shell_quoted(_of_template(patch) if is_made else patch)
        return f"kubectl patch --local -f MANIFEST --type {patch_type} -o yaml -p {text} > new.yaml"
    if set(kinds) <= IN_PLACE:
        return f"kubectl -n {namespace} patch pod {name} --type {patch_type} -p {shell_quoted(patch)}"
    workload = _workload_of(pod)
    if workload is not None:
        template = _of_template(patch)
        return f"kubectl -n {namespace} patch {workload} --type {patch_type} -p {shell_quoted(template)}"
    return (
        f"kubectl -n {namespace} get pod {name} -o yaml > pod.yaml; "
        f"kubectl patch --local -f pod.yaml --type {patch_type} -o yaml -p {shell_quoted(patch)} > new.yaml; "
        f"kubectl replace --force -f new.yaml"
    )


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
    yield from _wrapped(f"{found.pod}: {found.message}", width, "", "  ")
    if found.state in ("fits", "runs") or not (found.changes or found.state == "pending"):
        return
    yield ""
    if found.never:
        yield from _wrapped("Never with this cluster: even if all pods that may be evicted were gone, no node would "
                            "take it.", width)  # fmt: skip
    else:
        yield "Not now."
    if found.changes:
        yield ""
        yield "Any one of these would help, the cheapest first:"
    elif found.is_complete:
        yield from _wrapped("No change was found that would help.", width)
    for number, change in enumerate(found.changes, 1):
        head = f"{number:>2}. "
        yield from _wrapped(f"{_capital(change.what)}.", width, head, " " * len(head))
        yield from _wrapped(f"Then it fits on {_where(change)}.", width, "    ", "    ")
        for command in (change.command, *(part.command for part in change.with_)):
            yield from _command_lines(command, width)
    for told in (*found.said, *found.notes):
        yield from _wrapped(_capital(told), width, "- ", "  ")
    if found.waits_for:
        yield ""
        yield "It is tried again after:" if found.never else "It waits for:"
        for awaited in found.waits_for:
            enough = " (that is enough)" if awaited.is_enough else ""
            yield from _wrapped(f"{awaited.what}{enough}", width, "- ", "  ")
    if not found.is_complete:
        yield ""
        yield from _wrapped(f"The search ended at its bound, after {found.trials} trials; there may be other changes.",
                            width)  # fmt: skip


def _where(change: Change) -> str:
    where = names_in_words(change.fits_on)
    others = [*change.also_on]
    if others:
        where += f"; the same does on {names_in_words(others)}"
    if change.untried:
        where += f"; {change.untried} more nodes look alike"
    return where


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False) or [first]


def _command_lines(command: str, width: int) -> Iterable[str]:
    """Yield a command in lines that can be pasted: where one ends between words, it ends with a backslash.

    A word is never broken: between quotes a backslash would count as itself. A patch that is too long for a line is
    written as YAML, which kubectl reads as well.
    """
    if not command:
        return
    if not command.isprintable():
        yield from _wrapped("(No command: a name in it has control characters.)", width, "    ", "    ")
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
