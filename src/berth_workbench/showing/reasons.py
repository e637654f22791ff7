"""Why a pod has no node, in our words: shorter than the scheduler's own, and without what preemption adds.

The scheduler's message is an interface and stays as it is in JSON and in conditions. What preemption says behind it
("no new claims to deallocate, …") counts the same nodes once more, and blames a plugin that has nothing to do with it.
"""

import re
from typing import Final

from berth_workbench.showing.words import listed

_MESSAGE = re.compile(
    r"\b(\d+)/(\d+) nodes are available: (.*?)\.?(?: no new claims to deallocate,.*| preemption: .*)?$"
)
_PART = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
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
}


def in_our_words(message: str) -> str:
    """Return a message of the scheduler's in our words; what is no such message stays as it is."""
    found = _MESSAGE.search(message)
    if found is None:
        return message
    parts = [(int(count), _reason(said)) for count, said in _PART.findall(found[3])]
    if not parts:
        return message
    parts.sort(key=lambda each: -each[0])
    first, *others = parts
    told = [f"{first[0]:,} of {int(found[2]):,} nodes {first[1]}", *(f"{count:,} {words}" for count, words in others)]
    return message[: found.start()] + ", ".join(told)


def nodes_in_our_words(reasons: str) -> str:
    """Return the reasons of some nodes, as the scheduler joins them by semicolons, in our words."""
    told = [_reason(each) for each in reasons.split("; ")]
    return reasons if any(each.startswith("say: ") for each in told) else f"Nodes {listed(told, 'or')}"


def _reason(said: str) -> str:
    if said.startswith("Insufficient "):
        return f"lack {said.removeprefix('Insufficient ')}"
    return _WORDS.get(said, f"say: {said}")
