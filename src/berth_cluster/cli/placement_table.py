"""Where pods went and why, as a table for people.

Pods as JSON and the scheduler's explanations by pod key go in; a table comes out. Used by `berth demo`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from berth.cli.table import Table, TableColumn

if TYPE_CHECKING:
    from berth.decisions.explanation import Explanation

JsonObject = dict[str, Any]
MOST_PLUGINS = 3


def placement_table(
    pods: Sequence[JsonObject], explanations: Mapping[str, "Explanation"], zones: Mapping[str, str]
) -> Table:
    """One line a pod: its node and zone, its state, and why it is there or nowhere."""
    table = Table("Pod", "Node", "Zone", "State", TableColumn("Why", "text"), title="Where every pod went, and why")
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        why = reason_of(pod, explanations.get(f"{metadata['namespace']}/{metadata['name']}"))
        state = (pod.get("status") or {}).get("phase", "Pending")
        style = "" if node else "yellow"
        table.add(metadata["name"], node or "none", zones.get(node, ""), state, why, style=style)
    return table


def reason_of(pod: JsonObject, explanation: "Explanation | None") -> str:
    """Why the pod is where it is, or nowhere, in one or two sentences."""
    if not pod["spec"].get("nodeName"):
        return explanation.message if explanation is not None else _condition_message(pod)
    if explanation is None or explanation.node is None:
        return ""
    return f"{_who_fits(explanation)}; {_why_chosen(explanation)}"


def _condition_message(pod: JsonObject) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "not looked at yet")


def _who_fits(explanation: "Explanation") -> str:
    text = f"{explanation.feasible_count} of {explanation.node_count} nodes fit"
    excluded = [f"{group.count}: {', '.join(group.reasons)}" for group in explanation.rejected]
    return f"{text} (not {'; '.join(excluded)})" if excluded else text


def _why_chosen(explanation: "Explanation") -> str:
    """The best of several by score, with the plugins that spoke for it."""
    totals = [node.total for node in explanation.best if node.total is not None]
    if len(totals) < 2:
        return "the only one"
    best, lowest = max(totals), min(totals)
    alike = totals.count(best)
    if alike == len(totals):
        return f"all score {best}: one of them at random"
    text = f"score {best}, lowest {lowest}"
    favours = _favours(explanation)
    if favours:
        text += " (" + ", ".join(f"{plugin} {gain:+d}" for plugin, gain in favours) + " over the average)"
    return text if alike == 1 else f"{text}, one of {alike} best at random"


def _favours(explanation: "Explanation") -> list[tuple[str, int]]:
    """The plugins that gave the chosen node more than the average, the strongest first."""
    chosen = next((node for node in explanation.best if node.node == explanation.node), None)
    if chosen is None:
        return []
    gains = []
    for plugin, score in chosen.scores.items():
        average = sum(node.scores.get(plugin, 0) for node in explanation.best) / len(explanation.best)
        gain = round(score - average)
        if gain > 0:
            gains.append((plugin, gain))
    return sorted(gains, key=lambda one: -one[1])[:MOST_PLUGINS]
