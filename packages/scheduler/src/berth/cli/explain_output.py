"""What `berth explain` prints: a pod's decision, what it waits for and its story, or all that is pending by workload.

Answers of the scheduler in, text for a terminal of 80 columns out. What all nodes have in common is said once, and not
in a column of its own. No answer can steer the terminal: control characters are shown as such.
"""

import re
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from berth.cli.table import Table, TableColumn, wrapped
from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from rich.console import Console

    from berth.cli.chosen_pods import ChosenPod
    from berth.decisions.pending import PendingGroup

NAMES_IN_A_CELL = 8
STEPS_SHOWN = 12
"""How many steps of a story are shown unless all are asked for."""
PODS_IN_A_LINE = 4

Json = dict[str, Any]


def legible_values(value: Any) -> Any:
    """Return an answer without control characters: anyone who may create pods can put some into messages."""
    if isinstance(value, dict):
        return {legible(name): legible_values(part) for name, part in value.items()}
    if isinstance(value, list):
        return [legible_values(part) for part in value]
    return legible(value) if isinstance(value, str) else value


# --- one pod ----------------------------------------------------------------------------------------------------------


def show(report: Json, console: "Console", *, in_full: bool = False) -> None:
    """Print a report: the outcome, numbers, scores, nodes ruled out, what the pod waits for, and its story."""
    report = legible_values(report)
    decision, pending, permit = report["decision"], report["pending"], report.get("permit")
    if report.get("isGone"):
        console.print(
            f"{report['pod']} is gone or has finished; this is about the last pod of that name",
            style="dim",
            markup=False,
        )
    if permit is not None:
        _show_permit(permit, console)
    if decision is not None:
        _show_outcome(decision, console, is_held=permit is not None)
        _show_scores(decision, console)
        _show_rejected(decision, console)
        for node in decision["nodes"]:
            _show_node(node, decision, console)
    if pending is not None:
        _show_pending(pending, console)
    _show_story(report.get("story") or [], console, in_full=in_full)


def _line(console: "Console", text: str, style: str = "") -> None:
    """Print a sentence, on as many lines as it takes; they are indented as the first is, and a little more."""
    words = text.lstrip(" ")
    indent = " " * (len(text) - len(words))
    for part in textwrap.wrap(
        words, console.width, initial_indent=indent, subsequent_indent=indent and indent + "  ", break_on_hyphens=False
    ) or [""]:
        console.print(part, style=style, markup=False, highlight=False, soft_wrap=True)


def _put_as_it_is(console: "Console", line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _show_permit(permit: Json, console: "Console") -> None:
    """Who holds the pod, with what words, and until when."""
    _line(console, f"{permit['pod']} waits on Permit for {permit['node']}, since {permit['since']}", "yellow")
    for held in permit["heldBy"]:
        says = f": {held['says']}" if held["says"] else ""
        _line(console, f"  held by {held['plugin']}{says}; it is turned away at {held['until']} unless let go")
    _show_members(permit, console)


def _show_members(waiting: Json, console: "Console") -> None:
    members = waiting.get("members")
    if members is None:
        return
    if members["present"] < members["needed"]:
        said = f"{members['present']} of {members['needed']} members of pod group {members['group']} are there"
    else:
        said = f"{members['placed']} of {members['needed']} members of pod group {members['group']} have a node"
    _line(console, f"  {said}")


def _show_outcome(decision: Json, console: "Console", *, is_held: bool) -> None:
    _line(console, decision["summary"], "green" if decision["node"] and not is_held else "yellow")
    for lack in decision.get("shortfalls") or ():
        _line(console, f"  {lacking(lack)}", "bold")
    for said in decision.get("details") or ():
        for sentence in said["sentences"]:
            _line(console, f"  {said['plugin']}: {sentence}", "bold")
    by = f" by {decision['profile']}" if decision["profile"] else ""
    _line(console, f"decided {decision['time']}{by}, attempt {decision['attempts']}", "dim")
    post = decision["postFilter"]
    if post is not None and post["reasons"] and ", ".join(post["reasons"]) not in decision["message"]:
        _line(console, f"{post['plugin'] or 'PostFilter'}: {', '.join(post['reasons'])}", "dim")
    if decision.get("nominatedNode"):
        _line(console, f"nominated to {decision['nominatedNode']}, where room is made for it")
    for call in decision.get("extenders", ()):
        _show_extender(call, console)


def lacking(lack: Json) -> str:
    """Return a shortfall in words (`berth.decisions.shortfall.Shortfall`, as it comes over HTTP)."""
    from berth.decisions.shortfall import Shortfall

    return msgspec.convert(lack, Shortfall).sentence


def _show_extender(call: Json, console: "Console") -> None:
    """One call to an extender; its failures stand out."""
    said = call["problem"] or call["note"] or "done"
    ignored = ", ignored" if call["ignored"] else ""
    head = f"extender {call['extender']}, {call['verb']}{' failed' + ignored if call['problem'] else ''}"
    _line(console, f"{head}: {said}", "yellow" if call["problem"] else "dim")


def _show_scores(decision: Json, console: "Console") -> None:
    """The best nodes, with a column for each plugin that tells them apart."""
    best = decision["best"]
    if not best or best[0]["total"] is None:
        return
    weights = decision["weights"]
    telling = [name for name in weights if len({node["scores"].get(name) for node in best}) > 1]
    count = f"best {len(best)} of {decision['feasibleCount']} nodes" if len(best) > 1 else "node"
    headings = [_heading(plugin, weights[plugin], console.width, len(telling)) for plugin in telling]
    table = Table(
        "Node", *(TableColumn(each, "number") for each in ("Total", *headings)), title=f"Scores of the {count}"
    )
    for node in best:
        cells = [str(node["scores"].get(plugin, "")) for plugin in telling]
        style = "bold green" if node["node"] == decision["node"] else ""
        table.add(node["node"], node["total"], *cells, style=style)
    table.print(console)
    if same := [name for name in weights if name not in telling]:
        said = ", ".join(f"{_weighted(name, weights[name])} {best[0]['scores'].get(name, 0)}" for name in same)
        _line(console, f"the same for all {len(best)}: {said}" if len(best) > 1 else f"by plugin: {said}", "dim")


def _weighted(plugin: str, weight: int) -> str:
    return plugin if weight == 1 else f"{plugin} x{weight}"


def _heading(plugin: str, weight: int, width: int, plugins: int) -> str:
    """Return a plugin's name as a heading: its words below one another where there is little room."""
    if width >= 60 + 20 * plugins:
        return _weighted(plugin, weight)
    words = re.findall(r"[A-Z][a-z0-9]*|[^A-Z]+", plugin) or [plugin]
    return "\n".join([*words, *([f" x{weight}"] if weight != 1 else [])])


def _show_rejected(decision: Json, console: "Console") -> None:
    """Why the other nodes were rejected."""
    if not decision["rejected"]:
        return
    table = Table(
        TableColumn("Nodes", "number"),
        "Plugin",
        TableColumn("Reason", "text"),
        TableColumn("Which", "text"),
        title="Why not the others" if decision["node"] else "Why not these",
    )
    for group in decision["rejected"]:
        which = _names(group["nodes"], group["count"])
        table.add(group["count"], group["plugin"], ", ".join(group["reasons"]), which)
    table.print(console)


def _names(names: list[str], count: int) -> str:
    shown = names if len(names) == count and count > 2 * NAMES_IN_A_CELL else names[:NAMES_IN_A_CELL]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 and shown else "")


def _show_node(node: Json, decision: Json, console: "Console") -> None:
    """One node, plugin by plugin."""
    if node["fits"] is None and not node["rejections"]:
        why = "no such node then, or enough others were found before"
        _line(console, f"{node['node']}: was not looked at ({why})")
        return
    outcome = {None: "was left out before Filter", True: "fits", False: "does not fit"}[node["fits"]]
    _line(console, f"{node['node']}: {outcome}", "bold")
    for said in node["rejections"]:
        _line(console, f"  {said['plugin']}: {', '.join(said['reasons'])} ({said['code']})")
    for plugin, score in node["scores"].items():
        _line(console, f"  {plugin}: {score} (weight {decision['weights'][plugin]})")
        for told in decision.get("scoreDetails") or ():
            if (told["node"], told["plugin"]) == (node["node"], plugin):
                for sentence in told["sentences"]:
                    _line(console, f"    {sentence}")
    if node["total"] is not None:
        _line(console, f"  total: {node['total']}")


def _show_pending(pending: Json, console: "Console") -> None:
    """In which queue, since when, and what would wake it."""
    tries = "once" if pending["attempts"] == 1 else f"{pending['attempts']} times"
    line = f"pending in the {pending['queue']} queue since {pending['since']}, tried {tries}"
    if pending["queue"] == "gated":
        line = f"pending, held back before it is tried, since {pending['since']}"
    _line(console, line)
    if pending["gatedBy"]:
        said = ", ".join(pending.get("gateReasons") or ())
        _line(console, f"  held back by {pending['gatedBy']}" + (f": {said}" if said else ""))
    _show_members(pending, console)
    if pending["backoffUntil"]:
        _line(console, f"  in backoff until {pending['backoffUntil']}")
    if pending.get("wakesAt"):
        _line(console, f"  tried again at {pending['wakesAt']}, as a plugin has asked")
    for plugin, events in pending["waitsFor"].items():
        _line(console, f"  {plugin} wakes it after: {'; '.join(events)}")


def _show_story(story: list[Json], console: "Console", *, in_full: bool) -> None:
    """What happened to the pod, with the time of day; the date where it changes. Times are UTC."""
    if not story:
        return
    shown = story if in_full else story[-STEPS_SHOWN:]
    _line(console, "Story (UTC)", "bold")
    if len(shown) < len(story):
        _line(console, f"  {len(story) - len(shown)} earlier steps; -o wide shows all", "dim")
    date = ""
    for line in shown:
        day, _, time = line["time"].removesuffix("Z").partition("T")
        if day != date:
            _line(console, f"  {day}")
        date = day
        for number, part in enumerate(wrapped(line["text"], max(console.width - len(time) - 4, 20))):
            _put_as_it_is(console, f"  {time if not number else ' ' * len(time)}  {part}")


# --- several pods -----------------------------------------------------------------------------------------------------


def show_table(reports: Sequence[Json], not_asked: Sequence["ChosenPod"], console: "Console") -> None:
    """Print a row for each pod; of those that were not asked about only how many more there are."""
    rows = [row_of(legible_values(report)) for report in reports]
    placed = sum(bool(row.node) for row in rows) + sum(bool(pod.node) for pod in not_asked)
    count = len(rows) + len(not_asked)
    if placed in (0, count):
        _line(console, f"{count:,} pods, {'all' if placed else 'none'} of them on nodes", "bold")
    else:
        _line(console, f"{count:,} pods: {placed:,} have a node, {count - placed:,} have none", "bold")
    table = Table("Pod", "Node", "State", TableColumn("Why", "text"))
    for row in rows:
        table.add(row.pod, row.node or "-", row.state, row.why, style="" if row.node else "yellow")
    for pod in not_asked:
        table.add(pod.key, pod.node or "-", "", "")
    table.print(console, shown=len(rows))


class PodRow(NamedTuple):
    """A pod in a line."""

    pod: str
    node: str
    state: str
    why: str


def row_of(report: Json) -> PodRow:
    """Return what a report, or the cluster's own record of a pod, comes to."""
    pod = report["pod"]
    if "phase" in report:
        condition = report["condition"] or {}
        why = "" if report["node"] else condition.get("message") or "no scheduler has said why"
        return PodRow(pod, report["node"] or "", report["phase"].lower(), why)
    decision, pending, permit = report["decision"], report["pending"], report.get("permit")
    if permit is not None:
        held = "; ".join(": ".join(filter(None, (each["plugin"], each["says"]))) for each in permit["heldBy"])
        return PodRow(pod, permit["node"], "at permit", f"held by {held}" if held else "")
    if pending is not None:
        return PodRow(pod, "", "gated" if pending["queue"] == "gated" else "pending", _why_pending(pending, decision))
    state = "gone" if report.get("isGone") else "placed"
    if decision is None:
        steps = report.get("story") or []
        return PodRow(pod, "", state, steps[-1]["text"] if steps else "")
    return PodRow(pod, decision["node"] or "", state, _tail(decision["summary"]))


def _why_pending(pending: Json, decision: Json | None) -> str:
    if pending["gatedBy"]:
        said = ", ".join(pending.get("gateReasons") or ())
        return f"held back by {pending['gatedBy']}" + (f": {said}" if said else "")
    if decision is None:
        return "has not been tried yet"
    said, stop, _ = decision["message"].partition(". ")  # what Filter said; what PostFilter did follows
    return said + stop.rstrip() or _tail(decision["summary"])


def _tail(summary: str) -> str:
    """Return what a summary says behind the name of pod and node, which have columns of their own."""
    head, colon, rest = summary.partition(": ")
    return rest if colon and " goes to " in head else summary


# --- everything pending -----------------------------------------------------------------------------------------------


Remedies = Callable[[Sequence[str]], Sequence[str]]
"""Says what would help some pods, of those that are named in a group; nothing where that is not known."""


def show_pending(
    report: Json,
    console: "Console",
    namespace: str = "",
    now: datetime | None = None,
    remedies: Remedies = lambda _named: (),
) -> None:
    """Print all that is pending, by workload."""
    from berth.decisions.pending import PendingReport

    found = msgspec.convert(legible_values(report), PendingReport)
    where = f" in namespace {namespace}" if namespace else ""
    if not found.groups:
        _line(console, f"no pod is pending{where}", "green")
        return
    pods = "1 pod is" if found.pods == 1 else f"{found.pods} pods are"
    workloads = "1 workload" if len(found.groups) == 1 else f"{len(found.groups)} workloads, the most first"
    _line(console, f"{pods} pending{where}, of {workloads}", "bold")
    for group in found.groups:
        _show_group(group, console, now or datetime.now(UTC))
        for remedy in remedies(group.named):
            _line(console, f"  - {legible(remedy)}")


def _show_group(group: "PendingGroup", console: "Console", now: datetime) -> None:
    _line(console, "")
    pods = "1 pod" if group.pods == 1 else f"{group.pods} pods"
    priority = f", priority {group.priority}" if group.priority else ""
    lasting = f"{', the longest' if group.pods > 1 else ''} for {_ago(group.since, now)}" if group.since else ""
    _line(console, f"{group.title}: {pods} pending{lasting}{priority}", "yellow")
    lines = [group.missing or group.reason]
    if set(group.queues) - {"unschedulable", "gated", "permit"}:
        lines.append("queues: " + ", ".join(f"{count} {queue}" for queue, count in group.queues.items()))
    shown = group.named if console.width > 120 else group.named[:PODS_IN_A_LINE]
    more = group.pods - len(shown)
    lines.append("pods: " + ", ".join(shown) + (f" and {more} more" if more > 0 else ""))
    for line in lines:
        _line(console, f"  {line}")


def _ago(time: str, now: datetime) -> str:
    try:
        seconds = int((now - datetime.fromisoformat(time)).total_seconds())
    except ValueError:
        return "?"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


# --- shadow profiles --------------------------------------------------------------------------------------------------

DIFFERENCES_SHOWN = 10


def show_shadows(found: Json, console: "Console", pods: list[str]) -> None:
    """Print how often each shadow would have decided differently, because of which plugins, and its latest
    differences.
    """
    found = legible_values(found)
    if not found["shadows"]:
        console.print("no profile of this scheduler is a shadow of another", markup=False)
    for place, report in enumerate(found["shadows"]):
        if place:
            console.print()
        kinds, count = report["kinds"], report["decisions"]
        console.print(
            f"{report['shadow']}, the shadow of {report['of']} for {report['percentage']:g} % of its pods: "
            f"{count - kinds.get('same', 0)} of {count} decisions would have been others",
            markup=False,
        )
        for kind, words in DIFFERENCE_WORDS.items():
            if kinds.get(kind):
                because = [f"{one['plugin']} {one['decisions']}" for one in report["causes"] if one["kind"] == kind]
                told = f" (because of {', '.join(because)})" if because else ""
                console.print(f"  {kinds[kind]} {words}{told}", markup=False)
        if report["skipped"]:
            skipped = ", ".join(f"{reason} {number}" for reason, number in report["skipped"].items())
            console.print(f"  not looked at: {skipped}", markup=False)
        _show_differences(report["differences"], console, pods)


def _show_differences(differences: list[Json], console: "Console", pods: list[str]) -> None:
    if pods and not differences:
        console.print(f"  nothing is remembered that it would have decided otherwise about {pods[0]}", markup=False)
    for one in differences[:DIFFERENCES_SHOWN]:
        there = one["shadowNode"] or ("an error" if one["kind"] == "error" else "no node")
        because = f", because of {', '.join(one['plugins'])}" if one["plugins"] else ""
        why = f": {one['why']}" if one["why"] else ""
        here = one["node"] or "no node"
        console.print(f"  {one['time']} {one['pod']}: {here}; the shadow: {there}{because}{why}", markup=False)
