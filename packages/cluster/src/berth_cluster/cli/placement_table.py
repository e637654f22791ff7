"""Where pods went and why, as a table for people.

Pods as JSON and the scheduler's explanations by pod key go in; a table comes out. Used by `berth demo`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from berth.cli.table import Table, TableColumn
from berth.decisions.explanation import Explanation

JsonObject = dict[str, Any]
MOST_PLUGINS = 3


def placement_table(
    pods: Sequence[JsonObject], explanations: Mapping[str, Explanation], zones: Mapping[str, str]
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


def reason_of(pod: JsonObject, explanation: Explanation | None) -> str:
    """Why the pod is where it is, or nowhere, in one or two sentences."""
    if not pod["spec"].get("nodeName"):
        return explanation.message if explanation is not None else _condition_message(pod)
    if explanation is None or explanation.node is None:
        return ""
    said = [explanation.summary.partition(": ")[2]]
    said += [f"not {group.count}: {', '.join(group.reasons)}" for group in explanation.rejected]
    favours = [f"{plugin} {gain:+d}" for plugin, gain in _favours(explanation)]
    return "; ".join([*said, *([f"{', '.join(favours)} over the average"] if favours else [])])


def _condition_message(pod: JsonObject) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "not looked at yet")


def _favours(explanation: Explanation) -> list[tuple[str, int]]:
    """The plugins that gave the chosen node more than the average, the strongest first."""
    chosen = next((node.scores for node in explanation.best if node.node == explanation.node), {})
    of_all = {name: [node.scores.get(name, 0) for node in explanation.best] for name in chosen}
    gains = {plugin: round(score - sum(of_all[plugin]) / len(of_all[plugin])) for plugin, score in chosen.items()}
    return [(plugin, gain) for plugin, gain in Counter(gains).most_common(MOST_PLUGINS) if gain > 0]
