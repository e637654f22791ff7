"""Pods: those that were decided last, and one pod's story with its decision matrix."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from berth.decisions.explanation import Explanation, NodeExplanation
from berth.decisions.pod_report import DecisionLine
from berth.decisions.reasons import in_our_words
from berth.decisions.stories import StoryLine
from berth.decisions.waits import PendingPod, PermitWait
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.views.elements import link, linked, plain, rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.helps import helps_for, show_help
from berth_workbench.showing.numbers import NOTHING
from berth_workbench.showing.sections import Behind
from berth_workbench.showing.words import counted
from berth_workbench.sources.model import DecisionMatrix, decision_matrix
from berth_workbench.sources.part_rows import pod_path
from berth_workbench.sources.source import Source
from berth_workbench.sources.times import ago, lasting

REFRESH_S = 5.0
MATRIX_ROWS = 12
NAMES_SHOWN = 8
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(slots=True, eq=False, repr=False)
class PodView:
    """Makes both pages."""

    _source: Source
    _frame: Frame
    _ahead: Ahead

    async def recent(self, find: str) -> None:
        """The decisions that are remembered, the latest first."""
        async with self._frame.page("Decisions", "/decisions"):
            problem, place = tag("div"), tag("section", classes="panel", aria_label="The latest decisions")
            with place:
                heads = ["Pod", "Outcome", "Node", ("Attempt", "number"), "When", ("Message", "text")]
                table = rows("The latest decisions", heads, (), shown=25, find=find, none="Nothing was decided yet.")

            async def make() -> None:
                lines = list(reversed(await self._source.recent()))
                table.show(rows=[[plain(cell) for cell in _recent(line)] for line in lines])

            await make()
            self._frame.keep_current(make, REFRESH_S, problem)

    async def story(self, namespace: str, name: str) -> None:
        """Everything about one pod."""
        async with self._frame.page(f"{namespace}/{name}", "/workloads"):
            report = await self._source.story(namespace, name)
            if report is None:
                ui.context.client.status_code = 404
                tag("p", f"Nothing is known of a pod {namespace}/{name}: no decision about it is remembered, and it is "
                    "not pending here.", "empty")  # fmt: skip
                return
            if report.is_gone:
                tag("p", "There is no such pod any more; this is about the last one of that name.", "warn")
            if report.decision is not None:
                _decision(report.decision)
            if report.pending is not None:
                _pending(report.pending)
            if report.permit is not None:
                _permit(report.permit)
            if report.pending is not None and (report.decision is None or report.decision.node is None):
                await self._help(report.pod)
            if report.story:
                _story(report.story)
            if report.decision is not None:
                _matrix(report.decision)
                _rejected(report.decision)

    async def _help(self, pod: str) -> None:
        problem, place = tag("div"), tag("section", classes="panel card", aria_label="What would help")

        async def make() -> None:
            helps = await helps_for(self._source, self._ahead)
            place.clear()
            with place:
                show_help(self._ahead, helps, [pod])

        await make()
        self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)


def _recent(line: DecisionLine) -> list[Any]:
    return [
        linked(line.pod, pod_path(line.pod)),
        {"text": line.outcome, "tone": _style(line.outcome)},
        line.node or NOTHING,
        line.attempts,
        ago(line.time) or NOTHING,
        Behind(in_our_words(line.message), line.message) if line.message else NOTHING,
    ]


def _style(outcome: str) -> str:
    return {"error": "bad", "unschedulable": "warn"}.get(outcome, "good")


def _decision(said: Explanation) -> None:
    with tag("section", classes="panel", aria_label="Decision"):
        tag("p", said.summary, f"summary {_style(said.outcome)}")
        when = f"decided {ago(said.time)} by " if ago(said.time) else "decided by "
        attempt = f", attempt {said.attempts}" if said.attempts else ""
        facts = f"{when}{said.profile}{attempt}; {said.feasible_count} of {said.node_count} nodes fit"
        tag("p", facts, "soft")
        if said.pre_filter is not None and said.pre_filter.reasons:
            tag("p", f"{said.pre_filter.plugin}: {', '.join(said.pre_filter.reasons)}", "soft")
        if said.post_filter is not None and said.post_filter.reasons:
            tag("p", f"{said.post_filter.plugin or 'PostFilter'}: {', '.join(said.post_filter.reasons)}", "soft")
        for lacking in said.shortfalls:
            tag("p", lacking.sentence)
        for details in said.details:
            for sentence in details.sentences:
                tag("p", f"{details.plugin}: {sentence}")
        for call in said.extenders:
            tag("p", f"{call.extender} {call.verb}: {call.problem or call.note}", "bad" if call.problem else "soft")


def _pending(pending: PendingPod) -> None:
    with tag("section", classes="panel", aria_label="Pending"):
        tag("h2", "Pending")
        tries = f", after {counted(pending.attempts, 'attempt')}" if pending.attempts else ""
        tag("p", f"In the {pending.queue} queue{lasting(pending.since)}{tries}.")
        if pending.gated_by:
            said = f": {', '.join(pending.gate_reasons)}" if pending.gate_reasons else ""
            tag("p", f"Held back by {pending.gated_by}{said}.")
        if pending.members is not None:
            tag("p", f"{pending.members.sentence}.")
        if pending.nominated_node:
            tag("p", f"Room is kept for it on {pending.nominated_node}.")
        if pending.wakes_at:
            tag("p", f"Tried again at {pending.wakes_at}, as a plugin has asked.")
        if pending.waits_for:
            rows(
                "What wakes it", ["Rejected by", "Tried again after"],
                [[plugin, "; ".join(events)] for plugin, events in pending.waits_for.items()],
            )  # fmt: skip


def _permit(waiting: PermitWait) -> None:
    with tag("section", classes="panel", aria_label="Waiting on Permit"):
        tag("h2", "Waiting on Permit")
        tag("p", f"It has got {waiting.node}, and has waited{lasting(waiting.since)} to be let go there.")
        if waiting.members is not None:
            tag("p", f"{waiting.members.sentence}.")
        rows(
            "Who holds it", ["Plugin", "Says", "Until"],
            [[held.plugin, held.says or NOTHING, held.until] for held in waiting.held_by],
        )  # fmt: skip


def _story(story: tuple[StoryLine, ...]) -> None:
    steps = [[step.time, step.what, step.text + (f" ({step.times} times)" if step.times > 1 else "")] for step in story]
    with tag("section", classes="panel", aria_label="Story"):
        tag("h2", "Story")
        rows("What befell the pod, from the beginning", ["When", "What", ("How", "text")], steps)


def _matrix(said: Explanation) -> None:
    matrix = decision_matrix(said)
    if not matrix.rows:
        return
    with tag("section", classes="panel", aria_label="Decision matrix"):
        with tag("div", classes="panel-head"):
            tag("h2", "Decision matrix")
            with tag("span"):
                link("On the map", f"/map?{urlencode({'pod': said.pod, 'colour': 'score:'})}")
        tag("p", _margin(matrix), "soft")
        heads: list[str | tuple[str, str]] = ["Node", ("Total", "number")]
        heads += [
            (f"{plugin} {TIMES}{weight}" if weight else plugin, "number")
            for plugin, weight in zip(matrix.plugins, matrix.weights, strict=True)
        ]
        best = matrix.rows[:MATRIX_ROWS]
        rows(
            f"Weighted scores of the best {counted(len(best), 'node')}, and how much less than the winner has",
            heads,
            [
                [
                    {"text": row.node, "badge": "chosen" if row.is_chosen else ""},
                    NOTHING if row.total is None else row.total,
                    *(_score(score, gap) for score, gap in zip(row.scores, row.behind, strict=True)),
                ]
                for row in best
            ],
            shown=MATRIX_ROWS,
        )
        if said.score_details:
            told = [[each.node, each.plugin, "; ".join(each.sentences)] for each in said.score_details]
            rows("What stands behind the scores, as things are now", ["Node", "Plugin", ("Says", "text")], told)


def _margin(matrix: DecisionMatrix) -> str:
    if matrix.margin is None:
        return "There was nothing to choose between, so nothing was scored."
    if matrix.margin == 0:
        return "Several nodes have the highest score; one of them was chosen at random."
    by = f", thanks to {' and '.join(matrix.decisive[:3])}" if matrix.decisive else ""
    return f"The winner is {matrix.margin} ahead of the next best{by}."


def _score(score: int | None, gap: int | None) -> dict[str, Any]:
    behind = f" ({-gap:+d})" if gap else ""
    return {"text": NOTHING if score is None else f"{score}{behind}", "tone": "warn" if gap and gap > 0 else ""}


def _rejected(said: Explanation) -> None:
    if not said.rejected:
        return
    with tag("section", classes="panel", aria_label="Nodes that do not fit"):
        tag("h2", "Nodes that do not fit")
        rows(
            f"{sum(group.count for group in said.rejected):,} of {counted(said.node_count, 'node')}, by reason",
            [("Nodes", "number"), "Plugin", ("Reason", "text"), ("Which", "text")],
            [
                [
                    group.count,
                    group.plugin or NOTHING,
                    ", ".join(group.reasons) or group.code,
                    ", ".join(group.nodes[:NAMES_SHOWN]) + (" …" if group.count > NAMES_SHOWN else ""),
                ]
                for group in said.rejected
            ],
        )
    for node in said.nodes:
        _node(node)


def _node(node: NodeExplanation) -> None:
    with tag("section", classes="panel"):
        tag("h2", node.node)
        for said in node.rejections:
            tag("p", f"{said.plugin}: {', '.join(said.reasons)}")
