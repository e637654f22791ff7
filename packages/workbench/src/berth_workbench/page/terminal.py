"""`berth top`: the page's views in a terminal, of 80 columns or more, in Textual.

What comes from the cluster is shown as plain text: it goes through `plain`, never through Textual's markup.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from berth.decisions.pending import PendingGroup, PendingReport
from berth.decisions.pod_report import DecisionLine, PodReport
from berth.runtime.observing.logs import legible
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.jobs import Jobs
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.words import in_short, whether_ever
from berth_workbench.showing.numbers import number, percent
from berth_workbench.simulation.measures import told_resources
from berth_workbench.sources.model import QUEUES, RESULTS, NodeLine, decision_matrix, node_lines, totals
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.source import Source, SourceError
from berth_workbench.sources.times import age, lasting

REFRESH_S = 2.0
BAR = 10
"""How many cells the bar of a full node has."""
SPARKS = "▁▂▃▄▅▆▇█"
LABEL = 32
"""How many columns the words before a row of blocks have."""
ROWS = 500
"""How many rows a table has at most; those that come first are the ones that matter."""
MATRIX_ROWS = 8
MATRIX_PLUGINS = 4


def plain(text: object, style: str = "") -> Text:
    """Text as it is: neither markup nor control characters count."""
    return Text(legible(str(text)), style=style, no_wrap=True, end="")


def bar(part: float | None) -> Text:
    """A share as a bar and a number."""
    if part is None:
        return Text("none", style="dim")
    full = min(BAR, round(part * BAR))
    colour = "red" if part > 0.9 else "yellow" if part > 0.7 else "green"
    return Text.assemble(("█" * full, colour), ("░" * (BAR - full), "dim"), f" {percent(part):>4}")


def sparks(values: Sequence[float]) -> str:
    """Values over time as a row of blocks; the highest of them fills its place."""
    most = max(values, default=0.0)
    return "".join(
        SPARKS[-(-round((len(SPARKS) - 1) * value / most * 1000) // 1000) if most > 0 else 0] for value in values
    )


class Top(App[None]):
    """The application."""

    TITLE = "berth top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: 1; padding: 0 1; }
    #problem { height: auto; padding: 0 1; color: $text-error; display: none; }
    #problem.told { display: block; }
    #find { display: none; height: 3; }
    #find.open { display: block; }
    Screen { overflow: hidden; }
    TabbedContent, ContentSwitcher, TabPane { height: 1fr; }
    TabPane { padding: 0; }
    DataTable { height: 1fr; scrollbar-size-horizontal: 0; }
    .cut { height: auto; padding: 0 1; color: $text-muted; }
    .said { height: auto; max-height: 8; padding: 0 1; border-top: solid $primary; }
    .line { height: 1; margin: 0 1 1 1; }
    #story { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show('nodes')", "Nodes"),
        Binding("2", "show('pending')", "Workloads"),
        Binding("3", "show('pods')", "Decisions"),
        Binding("4", "show('queue')", "Queue"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "find", "Find"),
        Binding("question_mark", "keys", "Keys"),
        Binding("q", "quit", "Quit"),
        Binding("r", "refresh", "Ask again now", show=False),
        Binding("escape", "leave", "Leave the search", show=False),
    ]

    def __init__(self, source: Source, *, every_s: float = REFRESH_S, namespace: str = "") -> None:
        """`namespace` is the one whose pods are shown; the nodes, and what is on them, are those of all."""
        super().__init__()
        self._source = source
        self._namespace = namespace
        self._every_s = every_s
        self._recorder = HistoryRecorder(source)
        self._ahead = Ahead(source, Jobs())
        self._order = "cpu"
        self._find = ""
        self._lines: list[NodeLine] = []
        self._report = PendingReport(0, ())
        self._groups: tuple[PendingGroup, ...] = ()
        self._recent: list[DecisionLine] = []

    def compose(self) -> ComposeResult:
        """The summary, the four views, and the keys."""
        yield Static("", id="summary", markup=False)
        yield Static("", id="problem", markup=False)
        yield Input(placeholder="part of a name", id="find")
        with TabbedContent(initial="nodes"):
            with TabPane("Cluster: 1 Nodes", id="nodes"), Vertical():
                yield _table("node-table")
                yield Static("", id="node-table-cut", classes="cut", markup=False)
            with TabPane("2 Workloads", id="pending"), Vertical():
                yield _table("pending-table")
                yield Static("", id="pending-table-cut", classes="cut", markup=False)
                yield Static("", id="pending-said", classes="said", markup=False)
            with TabPane("Scheduler: 3 Decisions", id="pods"), Vertical():
                yield _table("pod-table")
                yield Static("", id="pod-table-cut", classes="cut", markup=False)
            with TabPane("4 Queue", id="queue"), VerticalScroll(id="lines"):
                for name in (*(f"in-{queue}" for queue in QUEUES), *(f"as-{result}" for result in RESULTS)):
                    yield Static("", id=f"line-{name}", classes="line", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask."""
        self.sub_title = f"{self._source.title}{f', namespace {self._namespace}' if self._namespace else ''}"
        self.query_one("#node-table", DataTable).focus()
        self.refresh_views()
        self.set_interval(self._every_s, self._refresh_again)

    def _refresh_again(self) -> None:
        """Ask again; of a cluster in a file, tell what has been worked out by now."""
        if self._source.is_live:
            self.refresh_views()
        elif self.screen is self.screen_stack[0] and self.query("#pending-table"):
            self._say_more()

    def close(self) -> None:
        """Have what is worked out in the background end."""
        self._ahead.close()

    # -- asking ------------------------------------------------------------------------------------------------------

    @work(exclusive=True)
    async def refresh_views(self) -> None:
        """Ask for everything that is shown, and show it, or why there is no answer."""
        try:
            await self._ask()
        except SourceError as error:
            self._tell(str(error))
        else:
            self._tell(self._recorder.problem)

    async def _ask(self) -> None:
        columns = await self._source.nodes()
        self._lines = list(node_lines(columns))
        sums = totals(columns)
        known = {name: part for name, part in sums.shares.items() if part is not None}
        shares = [f"{name} {percent(known[name])}" for name in told_resources(known)]
        report = await self._source.pending(self._namespace)
        pending = f"{report.pods:,} pending{f' in {self._namespace}' if self._namespace else ''}"
        parts = [f"{sums.nodes:,} nodes", f"{sums.pods:,} pods", pending, *shares]
        self.query_one("#summary", Static).update(plain(" · ".join(parts)))
        self._show_nodes()
        if report.pods:
            self._ahead.get("help", (columns, report))
        self._show_pending(report)
        recent = await self._source.recent()
        within = f"{self._namespace}/" if self._namespace else ""
        self._recent = [line for line in reversed(recent) if line.pod.startswith(within)]
        self._show_pods()
        await self._recorder.take()
        self._show_queue()

    def _tell(self, problem: str) -> None:
        place = self.query_one("#problem", Static)
        place.update(plain(problem))
        place.set_class(bool(problem), "told")

    # -- showing -----------------------------------------------------------------------------------------------------

    def _show_nodes(self) -> None:
        resources = [name for name in (self._lines[0].shares if self._lines else ()) if name != "pods"]
        shown = told_resources(resources)[: max(2, self.size.width // 20 - 2)]
        if self._order in resources and self._order not in shown:
            shown[-1] = self._order
        lines = [line for line in self._lines if self._find in line.name]
        lines.sort(key=lambda line: (-(line.shares.get(self._order) or 0.0), line.name))
        rows = [
            (
                plain(line.name, "strike" if line.is_unschedulable else ""),
                plain(f"{line.pool or '-'} {line.zone}"),
                *(bar(line.shares.get(name)) for name in shown),
                plain(f"{line.pods}/{line.allowed_pods}"),
            )
            for line in lines[:ROWS]
        ]
        left_out = [name for name in resources if name not in shown]
        too_narrow = f"; too narrow for {', '.join(left_out)}, s orders by them" if left_out else ""
        self._say_cut("node-table", len(rows), len(lines), "nodes", too_narrow)
        heads = [f"{name} ▼" if name == self._order else name for name in (*shown, "pods")]
        _fill(self.query_one("#node-table", DataTable), ["node", "pool, zone", *heads], rows)

    def _show_pending(self, report: PendingReport) -> None:
        self._report = report
        self._groups = tuple(group for group in report.groups if self._find in f"{group.title} {' '.join(group.named)}")
        rows = [
            (plain(group.pods), plain(age(group.since)), plain(group.title), plain(group.missing))
            for group in self._groups[:ROWS]
        ]
        _fill(self.query_one("#pending-table", DataTable), ["pods", "longest", "whose", "missing"], rows)
        self._say_cut("pending-table", len(rows), len(self._groups), "workloads")
        self._say_more()
        if not report.groups:
            self.query_one("#pending-said", Static).update("No pod is pending.")

    def _show_pods(self) -> None:
        meant = [line for line in self._recent if self._find in line.pod]
        lines = meant[:ROWS]
        self._say_cut("pod-table", len(lines), len(meant), "decisions")
        style = {"scheduled": "green", "unschedulable": "yellow", "fits": "green"}
        rows = [
            (plain(line.pod), plain(line.outcome, style.get(line.outcome, "red")), plain(line.node or line.message))
            for line in lines
        ]
        _fill(self.query_one("#pod-table", DataTable), ["pod", "outcome", "node or reason"], rows, lines)

    def _say_cut(self, table: str, shown: int, count: int, what: str, also: str = "") -> None:
        """Say below a table what it leaves out."""
        said = f"{shown:,} of {count:,} {what} are shown, / finds the others" if shown < count else ""
        place = self.query_one(f"#{table}-cut", Static)
        place.update(plain(f"{said}{also}".removeprefix("; ")))
        place.display = bool(said or also)

    def _show_queue(self) -> None:
        history = self._recorder.history
        samples = history.samples
        for queue in QUEUES:
            of = [float(sample.pending.get(queue, 0)) for sample in samples]
            self._show_line(f"in-{queue}", of, f"{int(of[-1]) if of else 0:,} pending, {queue}")
        for result in RESULTS:
            rates = [rate or 0.0 for rate in history.rates(result)]
            self._show_line(f"as-{result}", rates, f"{number(rates[-1] if rates else 0)} attempts/s, {result}")

    def _show_line(self, name: str, values: list[float], told: str) -> None:
        width = max(10, self.size.width - LABEL - 4)
        self.query_one(f"#line-{name}", Static).update(plain(f"{told:<{LABEL}}{sparks(values[-width:])}"))

    # -- keys --------------------------------------------------------------------------------------------------------

    def action_show(self, view: str) -> None:
        """Show another view, and put the cursor into it."""
        self.query_one(TabbedContent).active = view
        tables = self.query(f"#{view} DataTable")
        if tables:
            tables.first(DataTable).focus()

    def action_sort(self) -> None:
        """Order the nodes by the next resource."""
        names = list(self._lines[0].shares) if self._lines else [self._order]
        at = names.index(self._order) + 1 if self._order in names else 0
        self._order = names[at % len(names)]
        self._show_nodes()

    def action_find(self) -> None:
        """Ask for a part of a name."""
        place = self.query_one("#find", Input)
        place.add_class("open")
        place.focus()

    def action_leave(self) -> None:
        """Leave the search, and show everything again."""
        place = self.query_one("#find", Input)
        place.value = ""
        place.remove_class("open")
        self.action_show(self.query_one(TabbedContent).active)

    def action_keys(self) -> None:
        """Tell all keys, or no more."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_refresh(self) -> None:
        """Ask again now."""
        self.refresh_views()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what has this in its name."""
        self._find = event.value.strip()
        self._show_nodes()
        self._show_pending(self._report)
        self._show_pods()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Go on in the table, with what was found."""
        self.query_one("#find", Input).remove_class("open")
        self.action_show(self.query_one(TabbedContent).active)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Tell more of the pending pods under the cursor."""
        if event.data_table.id == "pending-table":
            self._say_more()

    def _say_more(self) -> None:
        at = self.query_one("#pending-table", DataTable).cursor_row
        if not 0 <= at < len(self._groups):
            return
        group = self._groups[at]
        helps: Mapping[str, Help] = self._ahead.known("help") or {}
        helped = next((helps[pod] for pod in group.named if pod in helps), None)
        said = [group.missing]
        if helped is not None:
            said += [f"  {what}" for what in (whether_ever(helped), *(what for what, _ in in_short(helped))) if what]
        elif self._ahead.is_at_work:
            said.append("  What would help is being worked out…")
        said.append(f"pods: {', '.join(group.named[:6])}{' …' if group.pods > 6 else ''}")
        self.query_one("#pending-said", Static).update(Text("\n").join(Text(legible(line)) for line in said))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the story of a pod, or of the first of a group."""
        pod = ""
        if event.data_table.id == "pod-table":
            pod = str(event.row_key.value or "")
        elif event.data_table.id == "pending-table" and event.cursor_row < len(self._groups):
            pod = next(iter(self._groups[event.cursor_row].named), "")
        if "/" in pod:
            self.push_screen(StoryScreen(pod, lambda: self._source.story(*pod.split("/", 1))))


class StoryScreen(Screen[None]):
    """A pod's story, its decision matrix, and why not elsewhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, pod: str, ask: Callable[[], Awaitable[PodReport | None]]) -> None:
        super().__init__()
        self._pod = pod
        self._asked = ask

    def compose(self) -> ComposeResult:
        """The text, and the keys."""
        with VerticalScroll(id="story"):
            yield Static(plain(self._pod, "bold"), markup=False)
            yield Static("", id="told", markup=False)
            yield _table("matrix")
            yield Static("", id="rest", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        """Ask, and show the answer."""
        matrix = self.query_one("#matrix", DataTable)
        matrix.styles.height = "auto"
        matrix.display = False
        self.query_one("#story").focus()
        try:
            report = await self._asked()
        except SourceError as error:
            self.query_one("#told", Static).update(plain(error, "red"))
            return
        if report is None:
            self.query_one("#told", Static).update("Nothing is known of this pod.")
            return
        self.query_one("#told", Static).update(Text("\n").join(Text(legible(line)) for line in _told(report)))
        if report.decision is not None and report.decision.best:
            self._show_matrix(report, matrix)
        rest = (*_cut(report), *_rejected(report))
        self.query_one("#rest", Static).update(Text("\n").join(Text(legible(line)) for line in rest))

    def _show_matrix(self, report: PodReport, table: "DataTable[Text]") -> None:
        assert report.decision is not None
        matrix = decision_matrix(report.decision)
        table.display = True
        heads: list[str | Text] = ["node", "total", *(_short(plugin) for plugin in matrix.plugins[:MATRIX_PLUGINS])]
        rows = [
            (
                plain(row.node, "bold green" if row.is_chosen else ""),
                plain("-" if row.total is None else row.total),
                *(_score(score, gap) for score, gap in list(zip(row.scores, row.behind, strict=True))[:MATRIX_PLUGINS]),
            )
            for row in matrix.rows[:MATRIX_ROWS]
        ]
        _fill(table, heads, rows)


def _told(report: PodReport) -> Iterable[str]:
    if report.decision is not None:
        yield report.decision.summary
        yield from (lacking.sentence for lacking in report.decision.shortfalls)
        yield from (f"{each.plugin}: {said}" for each in report.decision.details for said in each.sentences)
    if report.pending is not None:
        yield f"In the {report.pending.queue} queue{lasting(report.pending.since)}."
        for plugin, events in report.pending.waits_for.items():
            yield f"{plugin}: tried again after {'; '.join(events)}"
    if report.permit is not None:
        yield f"Has {report.permit.node}, and waits on Permit{lasting(report.permit.since)}."
        yield from (f"{held.plugin}: {held.says} (until {held.until})" for held in report.permit.held_by)
    for step in report.story:
        times = f" ({step.times} times)" if step.times > 1 else ""
        yield f"{step.time} {step.text}{times}"


def _cut(report: PodReport) -> Iterable[str]:
    """What the matrix leaves out."""
    if report.decision is not None and report.decision.best:
        matrix = decision_matrix(report.decision)
        sizes = ((MATRIX_ROWS, len(matrix.rows), "nodes"), (MATRIX_PLUGINS, len(matrix.plugins), "plugins"))
        yield from (f"The matrix has {shown} of {of} {what}." for shown, of, what in sizes if of > shown)


def _rejected(report: PodReport) -> Iterable[str]:
    if report.decision is None or not report.decision.rejected:
        return
    yield "Nodes that do not fit:"
    for group in report.decision.rejected:
        names = ", ".join(group.nodes[:3]) + (f" and {group.count - 3:,} more" if group.count > 3 else "")
        yield f"{group.count:>6,} {group.plugin}: {', '.join(group.reasons)} ({names})"


def _score(score: int | None, gap: int | None) -> Text:
    if score is None:
        return plain("-", "dim")
    if not gap:
        return plain(score)
    return Text.assemble(str(score), (f" {-gap:+d}", "red" if gap > 0 else "green"))


def _short(plugin: str) -> Text:
    """A plugin's name, shortened so that several fit side by side."""
    return plain(plugin if len(plugin) <= 14 else f"{plugin[:13]}…")


def _table(name: str) -> "DataTable[Text]":
    return DataTable(id=name, cursor_type="row", zebra_stripes=True)


def _fill(
    table: "DataTable[Text]",
    heads: Sequence[str | Text],
    rows: Sequence[tuple[Text, ...]],
    lines: Sequence[DecisionLine] = (),
) -> None:
    """Put rows into a table, and leave the cursor where it was. `lines` give the rows their keys."""
    at, scrolled = table.cursor_row, table.scroll_y
    table.clear(columns=True)
    for head in heads:
        table.add_column(plain(head) if isinstance(head, str) else head)
    for place, row in enumerate(rows):
        table.add_row(*row, key=lines[place].pod if lines else None)
    if rows:
        table.move_cursor(row=min(at, len(rows) - 1), scroll=False)
        table.scroll_y = scrolled
