"""What was decided for a pod, and why."""

from typing import Any, Literal

from berth.cycle.decision import Decision
from berth.decisions.explanation import Said, summary
from berth.library.tables import as_html, paragraph
from berth.state.lazy import lazy

Outcome = Literal["scheduled", "waiting", "unschedulable", "error", "gated"]


class ScheduleResult:
    """What was decided for a pod, and why. The why is worked out when it is first read, of what was so then."""

    def __init__(
        self,
        pod: str,
        outcome: Outcome,
        node: str | None,
        message: str,
        decision: Decision | None,
        victims: tuple[str, ...] = (),
    ) -> None:
        """`decision` is None where the pod was not tried, or was placed without an explanation."""
        self.pod = pod
        """`namespace/name`."""
        self.outcome = outcome
        """`waiting`: a Permit plugin holds the pod back; `gated`: a PreEnqueue plugin keeps it out of the queue."""
        self.node = node
        """The node that the pod runs on or, while it waits, is to run on."""
        self.message = message
        """Why it has no node, in the words of its condition and event; empty where it has one."""
        self.victims = victims
        """The pods that were evicted for this one, as `namespace/name`."""
        self._decision = decision

    @lazy
    def summary(self) -> str:
        """One sentence: where it went and why, or why it went nowhere."""
        if self._decision is None:
            return f"{self.pod} {self.message or f'goes to {self.node}'}"
        if self.node is None and not self._decision.message:
            return f"{self.pod} was not bound: {self.message}"
        return summary(self._decision)

    @lazy
    def reasons(self) -> dict[str, tuple[Said, ...]]:
        """The reasons of each plugin that rejects a node, by the node's name."""
        return _reasons(decision) if (decision := self._explained()) else {}

    @lazy
    def scores(self) -> dict[str, dict[str, int]]:
        """The weighted scores of each node that fits, by plugin; empty where there was only one such node."""
        return _scores(decision) if (decision := self._explained()) else {}

    @lazy
    def totals(self) -> dict[str, int]:
        """Their sums, by node."""
        return _totals(decision) if (decision := self._explained()) else {}

    def _explained(self) -> Decision | None:
        if self._decision is None and self.outcome == "scheduled":
            raise ValueError(f"{self.pod} was placed without an explanation; schedule_all() keeps one of each pod")
        return self._decision

    def as_dict(self) -> dict[str, Any]:
        """Return all that is known, each field by its name; without an explanation there are no reasons and scores."""
        names = ["pod", "outcome", "node", "message", "summary", "victims"]
        if self._decision is not None or self.outcome != "scheduled":
            names[5:5] = ["reasons", "scores", "totals"]
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduleResult) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment] # it has maps, as a dict does

    def __repr__(self) -> str:
        return f"ScheduleResult({self.summary!r})"

    def _repr_html_(self) -> str:
        colour = "green" if self.node is not None else "darkorange"
        parts = [paragraph(self.summary, f"font-weight:bold;color:{colour}")]
        if self.victims:
            parts.append(paragraph(f"For it had to leave: {', '.join(self.victims)}."))
        if self._decision is not None and self.totals:
            ranked = sorted(self.totals.items(), key=lambda each: -each[1])
            plugins = sorted(self.scores[ranked[0][0]])
            rows = [(name, total, *(self.scores[name].get(each) for each in plugins)) for name, total in ranked]
            parts.append(as_html("Nodes that fit", ("Node", "Total", *plugins), rows))
        if self._decision is not None and self.reasons:
            said = [
                (name, each.plugin, "; ".join(each.reasons)) for name, all_ in self.reasons.items() for each in all_
            ]
            parts.append(as_html("Nodes that do not", ("Node", "Plugin", "Why"), said))
        return "".join(parts)


def _reasons(decision: Decision) -> dict[str, tuple[Said, ...]]:
    """Return all that speaks against each node that was ruled out; what the pod's condition counts comes first."""
    found = {}
    for status, rows in decision.rejected:
        for row in rows.tolist():
            said = decision.statuses(row) if decision.looked_at[row] else [status]
            found[decision.names[row]] = tuple(Said(each.plugin, each.code.label, each.reasons) for each in said)
    return found


def _scores(decision: Decision) -> dict[str, dict[str, int]]:
    names = [decision.names[row] for row in decision.feasible.tolist()]
    found: dict[str, dict[str, int]] = {name: {} for name in names} if decision.scores else {}
    for scores in decision.scores:
        weighted = scores.weighted
        each = [weighted] * len(names) if isinstance(weighted, int) else weighted.tolist()
        for name, score in zip(names, each, strict=True):
            found[name][scores.plugin] = score
    return found


def _totals(decision: Decision) -> dict[str, int]:
    if decision.total is None:
        return {}
    names = (decision.names[row] for row in decision.feasible.tolist())
    return dict(zip(names, decision.total.tolist(), strict=True))
