"""Why a pod has no node, in our words: shorter than the scheduler's own, and without what preemption adds.

The scheduler's message is an interface and stays as it is in JSON and in conditions. What preemption appends ("no new
claims to deallocate, …") counts the same nodes again, and blames a plugin that has nothing to do with it.
"""

import re
from collections.abc import Sequence
from typing import Final

from berth.decisions.shortfall import Shortfall

_MESSAGE = re.compile(
    r"\b(\d+)/(\d+) nodes are available: (.*?)\.?"
    r"(?: (?:no new claims to deallocate|still not schedulable|deallocation of ResourceClaim completed),.*"
    r"| preemption: .*)?$"
)
_PART = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
_NO_DEVICES: Final = "cannot allocate all claims"
_WORDS: Final = {
    "node(s) didn't match Pod's node affinity/selector": "do not have the labels that it asks for",
    "node(s) didn't match PersistentVolume's node affinity": "are not where its volume is",
    "node(s) had volume node affinity conflict": "are not where its volume is",
    "node(s) didn't find available persistent volumes to bind": "have no volume for its claim",
    "node(s) had untolerated taint(s)": "have a taint that it does not tolerate",
    "node(s) were unschedulable": "are cordoned",
    "node(s) didn't match pod anti-affinity rules": "have a pod that it keeps away from",
    "node(s) didn't satisfy existing pods anti-affinity rules": "have a pod that keeps it away",
    "node(s) didn't match pod affinity rules": "have no pod beside which it wants to be",
    "node(s) didn't match pod topology spread constraints": "would make its workload spread too unevenly",
    "node(s) didn't have free ports for the requested pod ports": "have its ports taken",
    "Too many pods": "have as many pods as they take",
    _NO_DEVICES: "do not have free what its claims ask for",
}
_OF_VOLUMES: Final = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) had volume node affinity conflict",
)
_CAUSES: Final = {
    "node(s) didn't match Pod's node affinity/selector": "no node has the labels that they ask for",
    "node(s) had untolerated taint(s)": "all nodes have taints that they do not tolerate",
    "node(s) were unschedulable": "all nodes are cordoned",
    **dict.fromkeys(_OF_VOLUMES, "their volumes are where there is no node for them"),
    "node(s) didn't match pod anti-affinity rules": "they keep away from pods that are everywhere",
    "node(s) didn't satisfy existing pods anti-affinity rules": "other pods keep them away",
    "node(s) didn't match pod affinity rules": "the pods that they want to be beside are nowhere",
    "node(s) didn't match pod topology spread constraints": "their workload would spread too unevenly",
    "Too many pods": "the nodes have as many pods as they take",
    _NO_DEVICES: "the devices that their claims ask for are taken",
}
"""What keeps several pods away, where one reason holds of all nodes that count."""
_OF_ONE: Final = {"have": "has", "lack": "lacks", "are": "is", "do": "does", "say:": "says:"}
_LOOKED_AT_BEFORE: Final = frozenset(
    each for each, words in _WORDS.items() if words.endswith(("asks for", "tolerate", "cordoned", "taken", "take"))
)
"""Reasons of plugins that run before amounts are looked at."""


def in_our_words(message: str) -> str:
    """Return a message of the scheduler in our words; any other text is returned as it is."""
    found = _MESSAGE.search(message)
    if found is None:
        return message
    parts = [(int(count), _reason(said)) for count, said in _PART.findall(found[3])]
    if not parts:
        return message
    parts.sort(key=lambda each: -each[0])
    first, *others = parts
    told = [f"{first[0]:,} of {int(found[2]):,} nodes {_agreeing(*first)}"]
    told += [f"{count:,} {_agreeing(count, words)}" for count, words in others]
    return message[: found.start()] + ", ".join(told)


def cause_of(message: str) -> str:
    """Return the cause that a message comes down to, of several pods together: `their zone is full`.

    That is what keeps away most of the nodes that the pods could use at all. Nodes that they could not, for their
    labels, taints or being cordoned, count where there are no others. Any other text is returned as it is.
    """
    found = _MESSAGE.search(message)
    parts = [(int(count), said) for count, said in _PART.findall(found[3])] if found is not None else []
    if not parts:
        return message
    open_parts = [each for each in parts if each[1] not in _LOOKED_AT_BEFORE]
    if not open_parts:
        of_most = max(parts)[1]
        return _CAUSES.get(of_most, f"all nodes {_reason(of_most)}")
    lacking = [each for each in open_parts if each[1].startswith("Insufficient ")]
    if lacking and any(said in _OF_VOLUMES for _, said in open_parts):
        return "their volumes are in a zone that is full"
    said = max(open_parts)[1]
    if said.startswith("Insufficient "):
        where = "nodes" if len(open_parts) == len(parts) else "nodes that they may use"
        return f"the {where} have too little {said.removeprefix('Insufficient ')} left"
    return _CAUSES.get(said, f"the nodes {_reason(said)}")


def reason_in_words(reason: str, nodes: int) -> str:
    """Return what so many nodes do for one reason of a message: `lack cpu`."""
    return _agreeing(nodes, _reason(reason))


def what_is_missing(message: str, shortfalls: Sequence[Shortfall] = ()) -> str:
    """Return in one sentence what keeps a pod from being placed.

    If nodes lack amounts, these come first: plugins look at amounts only where labels and taints let the pod in, so
    these are the nodes it could use. Of several resources, devices included, it is the one that most of them lack.
    """
    if not shortfalls:
        told = in_our_words(message)
    else:
        most = max(shortfalls, key=lambda each: each.nodes)
        told, is_told = most.in_short, _NO_DEVICES if most.request else "Insufficient "
        found = _MESSAGE.search(message)
        for count, said in _PART.findall(found[3]) if found is not None else ():
            if not said.startswith(is_told) and said not in _LOOKED_AT_BEFORE:
                told += f"; {count} node{'' if count == '1' else 's'} {_agreeing(int(count), _reason(said))}"
    return f"{told[:1].upper()}{told[1:]}{'' if told.endswith('.') else '.'}"


def _agreeing(count: int, words: str) -> str:
    """Put a phrase about several nodes into the form for this number."""
    verb, _, rest = words.partition(" ")
    return f"{_OF_ONE.get(verb, verb)} {rest}" if count == 1 else words


def _reason(said: str) -> str:
    if said.startswith("Insufficient "):
        return f"lack {said.removeprefix('Insufficient ')}"
    return _WORDS.get(said, f"say: {said}")
