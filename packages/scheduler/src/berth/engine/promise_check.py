"""Finds out where a plugin breaks the promises it makes about its answers: for some pods it is asked again, and
watched.

Cached answers are right as long as a plugin looks at nothing but what it declares (`filter_depends_on`,
`score_depends_on`, `signature`). So for one pod in so many, the plugin is asked about all nodes once more: in all its
forms if every pod is checked, as in tests, otherwise in the fastest. Its answer must be the cached one, and whatever it
looks up meanwhile (`berth.framework.lookups`) must be declared. None of this touches the pod's own decision.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.engine.columns import PluginColumn, Runner
from berth.engine.scores import UNASKED
from berth.framework.blame import contained
from berth.framework.cycle_state import CycleState
from berth.framework.interface import RowArray
from berth.framework.loaded import LoadedPlugin
from berth.framework.lookups import Fact, Lookups, WatchedHandle, WatchedView, covered
from berth.framework.promises import Dependencies, Dependency, Objects
from berth.framework.status import Status, is_success
from berth.framework.work_budget import WorkBudget
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import NEVER

MOST_TOLD = 100
"""How many different faults are reported; each is reported once."""
SIGNATURES_KEPT = 256
"""For how many signatures a pod that had it is remembered."""


class BrokenPromise(msgspec.Struct, frozen=True):
    """A plugin whose answer depends on more than it declares, or differs from its earlier one."""

    plugin: str
    form: str
    """`filter` or `score`."""
    pod: str
    node: str
    looked_at: tuple[str, ...]
    """What was looked at without being declared, in words."""
    difference: str = ""
    """How the answer differs from the cached one, or from that of another form; empty if it does not."""

    def __str__(self) -> str:
        where = f"pod {self.pod} on node {self.node}"
        told = f"plugin {self.plugin}: {self.form} broke a promise for {where}: "
        if self.looked_at:
            told += f"it looked at {', '.join(self.looked_at)}, which {self.form}_depends_on does not name"
        return told + ("; " if self.looked_at and self.difference else "") + self.difference


class PromiseCheck:
    """Checks the out-of-tree plugins in all profiles of a core."""

    __slots__ = ("_every", "_is_due", "_lookups", "_pods_by_signature", "_report", "_seen", "_told", "broken")

    def __init__(self, every: int, report: Callable[[BrokenPromise], None] = lambda _broken: None) -> None:
        """One attempt in `every` is checked, beginning with the first."""
        self._every = every
        self._report = report
        self._seen = 0
        self._is_due = False
        self._lookups: dict[tuple[str, str], Lookups] = {}
        self._told: set[tuple[str, ...]] = set()
        self._pods_by_signature: dict[tuple[Any, ...], PodInfo] = {}
        self.broken: list[BrokenPromise] = []
        """What was found, oldest first."""

    def watched(self, profile: str, plugin: str, handle: Any) -> Any:
        """Return the handle to make a plugin of a profile with, so that its lookups are seen."""
        lookups = self._lookups[profile, plugin] = Lookups()
        return WatchedHandle(handle, lookups)

    def filtered(
        self,
        profile: str,
        runners: Sequence[Runner],
        columns: Sequence[PluginColumn | None],
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
    ) -> None:
        """Check the answers for all nodes; called once for each attempt."""
        self._is_due = self._seen % self._every == 0
        self._seen += 1
        if self._is_due:
            self._check(profile, "filter", runners, columns, state, pod, table, table.rows())

    def scored(
        self,
        profile: str,
        runners: Sequence[Runner],
        columns: Sequence[PluginColumn | None],
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        rows: RowArray,
    ) -> None:
        """Check the scores of feasible rows; called after `filtered`, for the same pod."""
        if self._is_due:
            self._check(profile, "score", runners, columns, state, pod, table, rows)

    def _check(
        self,
        profile: str,
        form: str,
        runners: Sequence[Runner],
        columns: Sequence[PluginColumn | None],
        state: CycleState,
        pod: PodInfo,
        table: NodeTable,
        rows: RowArray,
    ) -> None:
        for runner, column in zip(runners, columns, strict=True):
            plugin: LoadedPlugin = runner.plugin
            lookups = self._lookups.get((profile, plugin.name))
            if lookups is None:
                continue
            # A state and budget of its own, so that asking again leaves no trace.
            asked = msgspec.structs.replace(state.clone(), work=WorkBudget())
            question = _Question(plugin, form, asked, pod, table, rows)
            answers = list(question.kept(column))
            by_column = list(question.by_column())
            answers += by_column
            promises_something = runner.needs.is_kept and plugin.signature is not None
            asks_all = self._every == 1 and (promises_something or by_column)
            if question.is_plain and (asks_all or (promises_something and not by_column)):
                said, facts = question.by_node(lookups)
                answers.append(("node by node", said))
                if promises_something:
                    self._hold_to_promise(question, facts)
            self._compare(question, answers)

    def _hold_to_promise(self, question: "_Question", facts: Mapping[Fact, "_Lookup"]) -> None:
        for fact, (words, row) in facts.items():
            if not covered(fact, question.promised):
                told = f"{words} ({_to_promise(fact)})"
                self._tell(question.broken(row, looked_at=(told,)), told)

    def _compare(self, question: "_Question", answers: list[tuple[str, list[Any]]]) -> None:
        """Compare all answers with the last, which is the plain form's if there is one."""
        another = self._another(question)
        for how, said in answers[:-1]:
            last, right = answers[-1]
            for row, before, now in zip(question.rows.tolist(), said, right, strict=True):
                if before != now and before is not MISSING and now is not MISSING:
                    difference = f"{_shown(before)} was said {how}, but {_shown(now)} {last}"
                    if how == KEPT:
                        difference = f"{_shown(before)} was kept, but now it says {_shown(now)}{another}"
                    self._tell(question.broken(row, difference=difference), f"{how} {last}")
                    break

    def _another(self, question: "_Question") -> str:
        """Say how the pod differs from an earlier one with the same signature."""
        plugin, pod = question.plugin, question.pod
        signature = None if plugin.signature is None else plugin.signature.signature(pod)
        if signature is None:
            return ""
        if len(self._pods_by_signature) >= SIGNATURES_KEPT:
            self._pods_by_signature.clear()
        before = self._pods_by_signature.setdefault((plugin.name, question.form, signature), pod)
        differing = ", ".join(_differing(before, pod))
        return f"; its signature is that of pod {before.key}, which differs in {differing}" if differing else ""

    def _tell(self, broken: BrokenPromise, what: str) -> None:
        known = broken.plugin, broken.form, what
        if known not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(known)
            self.broken.append(broken)
            self._report(broken)


MISSING: Any = object()
"""Stands for an answer that was not given."""
KEPT = "kept"

_Lookup = tuple[str, int]
"""What was looked up, in words, and the first row for which it was."""


class _Question(NamedTuple):
    """The question that a plugin is asked once more: its filter or its score, about a pod and some rows."""

    plugin: LoadedPlugin
    form: str
    state: CycleState
    pod: PodInfo
    table: NodeTable
    rows: RowArray

    @property
    def promised(self) -> Dependencies:
        promises = self.plugin.promises
        return promises.filter_depends_on if self.form == "filter" else promises.score_depends_on

    @property
    def is_plain(self) -> bool:
        return (self.plugin.filter if self.form == "filter" else self.plugin.score) is not None

    def broken(self, row: int, looked_at: tuple[str, ...] = (), difference: str = "") -> BrokenPromise:
        names = self.table.names
        return BrokenPromise(self.plugin.name, self.form, self.pod.key, names[row], looked_at, difference)

    def kept(self, entry: PluginColumn | None) -> Iterator[tuple[str, list[Any]]]:
        """Yield the answer that is kept, if one is."""
        if entry is None or entry.verified == NEVER:
            return
        values = entry.column[self.rows].tolist()
        if self.form == "filter":
            yield KEPT, [_in_words(entry.extra(code)) if code else None for code in values]
        else:
            yield KEPT, [MISSING if value == UNASKED else value for value in values]

    def by_column(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the answer of the column form, if there is one."""
        asked = self.state, self.pod, self.table, self.rows
        if self.form == "filter" and self.plugin.filter_columns is not None:
            codes, describe = self.plugin.filter_columns.filter_columns(*asked)
            yield "by column", [_in_words(describe(code)) if code else None for code in codes.tolist()]
        if self.form == "score" and self.plugin.score_columns is not None:
            scores = self.plugin.score_columns.score_columns(*asked)
            if not isinstance(scores, Status):
                yield "by column", scores.tolist()

    def by_node(self, lookups: Lookups) -> tuple[list[Any], dict[Fact, _Lookup]]:
        """Ask the plain form about each row; return its answers, and what it looked at."""
        said: list[Any] = []
        facts: dict[Fact, _Lookup] = {}
        for row in self.rows.tolist():
            with lookups.noting() as found:
                said.append(self._about(WatchedView.of(self.table.view(row), lookups)))
            for fact, words in found.items():
                facts.setdefault(fact, (words, row))
        return said, facts

    def _about(self, node: NodeView) -> Any:
        try:
            if self.form == "filter" and self.plugin.filter is not None:
                return _in_words(self.plugin.filter.filter(self.state, self.pod, node))
            assert self.plugin.score is not None
            score = self.plugin.score.score(self.state, self.pod, node)
            return MISSING if isinstance(score, Status) else score
        except BaseException as raised:  # what breaks here breaks in the attempt as well, which tells of it
            contained(raised)
            return MISSING


def _in_words(status: Status | None) -> Any:
    return None if status is None or is_success(status) else (status.code.label, status.reasons)


def _shown(answer: Any) -> str:
    if answer is None:
        return "that the pod fits"
    return f"{answer[0]}: {', '.join(answer[1])}" if isinstance(answer, tuple) else str(answer)


def _to_promise(fact: Fact) -> str:
    if isinstance(fact, Objects):
        return f"promise Objects({fact.kinds!r})"
    return "which nothing promises" if fact is Dependency.UNKNOWN else f"promise Dependency.{fact.name}"


def _differing(a: PodInfo, b: PodInfo) -> Iterator[str]:
    """Yield the parts in which two pods differ, as an author would look for them."""
    if a.namespace != b.namespace:
        yield "metadata.namespace"
    for part, before, after in (
        ("labels", a.metadata.labels, b.metadata.labels),
        ("annotations", a.metadata.annotations, b.metadata.annotations),
    ):
        yield from (f"{part}[{key!r}]" for key in sorted({*before, *after}) if before.get(key) != after.get(key))
    before, after = msgspec.structs.asdict(a.spec), msgspec.structs.asdict(b.spec)
    yield from (f"spec.{field}" for field in before if field != "node_name" and before[field] != after[field])
