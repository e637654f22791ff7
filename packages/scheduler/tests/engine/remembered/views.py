"""`compare_every_view`: all that the engine says about a pod, held against what is worked out afresh."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from berth.core import questions
from berth.core.core import Core
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.attempt import Attempt
from berth.cycle.schedule import Search
from berth.engine.profile import Profile
from berth.engine.scores import PluginScores, Scored
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.interface import RowLoad
from berth.framework.status import Code, is_success
from berth.state.pod_info import PodInfo
from packages.scheduler.tests.engine.remembered.afresh import Afresh, asked_afresh, rejection_on


class internals:  # noqa: N801 - a room for functions
    """All that reaches into how answers are kept."""

    @staticmethod
    def forget(core: Core) -> None:
        """Give up all that is remembered, as is done where there is no room."""
        core.memos.clear()

    @staticmethod
    def have_little_room(core: Core, size: int) -> None:
        """Let no more be remembered than so many bytes."""
        core.memos.max_bytes = size


class Later:
    """What was said and may be read later, with what it said then."""

    def __init__(self) -> None:
        self._kept: list[tuple[Callable[[], Any], Any]] = []

    def note(self, read: Callable[[], Any]) -> None:
        """Hold what is read to what it says now."""
        self._kept.append((read, read()))

    def hold(self) -> None:
        """Everything still says what it said."""
        for read, said in self._kept:
            assert read() == said, "what was said of a pod has changed since"


def compare_every_view(core: Core, pod: PodInfo, rng: Random, later: Later | None = None) -> Afresh:
    """Ask about a pod, and compare whatever can be read of the answers; nothing is changed but what is remembered."""
    expected = asked_afresh(core, pod)
    for memos in (True, False) if rng.random() < 0.1 else (True,):
        with core.memos.switched(on=memos):
            _compare_attempt(core, pod, rng, expected, later)
            _compare_what_ifs(core, pod, rng)
    _compare_claims(core, pod)
    return expected


def compare_decisions(cluster: VirtualCluster, pod: PodInfo, seed: int) -> None:
    """Compare how a whole attempt ends, victims of preemption included, with one in which nothing is remembered."""
    core, drawn, told = cluster.core, cluster.rng.getstate(), []
    for memos in (True, False):
        cluster.rng.seed(seed)
        search = Search(core.cache.table, lambda rows: int(rows[len(rows) - 1]), policy=core.generation.cycle)
        with core.memos.switched(on=memos):
            outcome = questions.decide(core, pod, questions.unanswered, search=search).outcome
        victims = [victim.key for victim in outcome.victims]
        told.append((outcome.message, outcome.chosen_row, outcome.nominated_node_name, victims))
    cluster.rng.setstate(drawn)
    assert told[0] == told[1], f"pod {pod.key}: {told[0]} where things are remembered, else {told[1]}"


def _compare_attempt(core: Core, pod: PodInfo, rng: Random, expected: Afresh, later: Later | None) -> None:
    search = Search(
        core.cache.table, lambda rows: int(rows[0]), score_single_node=True, policy=core.generation.cycle
    )  # fmt: skip
    attempt = questions.find(core, pod, search=search)
    _compare_rejections(core, attempt, expected, later)
    nodes = attempt.found.nodes
    assert ([] if nodes is None else nodes.row_array().tolist()) == expected.feasible
    if not expected.feasible:
        assert attempt.outcome.message == (expected.error or expected.message)
        return
    scored = questions.score(core, attempt, search=search)
    assert (attempt.outcome.error or None) == expected.error
    if expected.error is not None or scored is None:
        return
    rows = np.array(expected.feasible, dtype=np.intp)
    by_plugin = lambda parts: {  # noqa: E731
        each.plugin: np.broadcast_to(each.weighted, len(rows)).tolist() for each in parts.by_plugin(rows)
    }
    assert list(scored.best_rows()) == expected.best
    assert by_plugin(scored) == expected.scores
    assert scored.total(rows).tolist() == expected.totals
    chosen = rng.choice(expected.best)
    # As a tie breaker does: of thousands of equals one is drawn by its place.
    assert int(scored.best_rows()[expected.best.index(chosen)]) == chosen
    for row in (chosen, rng.choice(expected.feasible)):
        count = rng.choice((1, 2, 5))
        leaders = scored.leaders(count, row)
        assert (leaders.highest, leaders.equals) == (max(expected.totals), len(expected.best))
        assert [(each.row, each.total) for each in leaders.rows] == expected.leaders(count, row)
        for each in leaders.rows:
            at = expected.feasible.index(each.row)
            assert (
                each.shares == scored.shares(each.row) == {name: given[at] for name, given in expected.scores.items()}
            )
    _compare_with_more(scored, rows, expected)
    if later is not None:
        parts = scored.to_be_read()
        later.note(lambda: (by_plugin(parts), parts.total(rows).tolist()))


def _compare_with_more(scored: Scored, rows: Any, expected: Afresh) -> None:
    """What an extender gives is added to what the plugins have given."""
    given = np.array([row * 7 % 3 * 50 for row in expected.feasible], dtype=np.int64)
    more = scored.with_more([PluginScores("an extender", 10, given)])
    before = expected.totals if expected.scores else [0] * len(rows)
    totals = [total + share for total, share in zip(before, given.tolist(), strict=True)]
    assert more.total(rows).tolist() == totals
    assert list(more.best_rows()) == [
        row for row, total in zip(expected.feasible, totals, strict=True) if total == max(totals)
    ]
    assert more.weights == {**scored.weights, "an extender": 10} and scored.with_more([]) is scored


def _compare_rejections(core: Core, attempt: Attempt, expected: Afresh, later: Later | None) -> None:
    table, verdicts = core.cache.table, attempt.found.verdicts
    if verdicts is None:
        return
    said: dict[str, Any] = {}
    for status, rows in verdicts.rejected():
        assert rows.tolist() == sorted(rows.tolist())
        for row in rows.tolist():
            assert table.names[row] not in said, "a row is rejected twice"
            said[table.names[row]] = status
    assert said == expected.rejected
    findings, searched = verdicts.findings, verdicts.searched.copy()
    assert [table.names[row] for row in np.flatnonzero(searched & ~findings.passing(searched)).tolist()] == [
        name for name in table.names if name in said
    ]
    if not attempt.profile.checks_all_filters:
        for row in np.flatnonzero(searched).tolist():
            assert findings.statuses(row)[:1] == ([said[table.names[row]]] if table.names[row] in said else [])
    if later is not None:
        later.note(lambda: [(status, rows.tolist()) for status, rows in findings.rejected(searched)])
    counted = verdicts.counted()
    if counted is None or not said:
        return
    fresh, kept = (Diagnosis(len(table), table.names.__getitem__, each) for each in (None, counted))
    groups = list(verdicts.rejected())
    for status, rows in groups:
        fresh.add(status, rows)
    assert [(status, rows.tolist()) for status, rows in counted.groups] == [(s, r.tolist()) for s, r in groups]
    assert (kept.message(), kept.unschedulable_plugins, kept.pending_plugins) == (
        fresh.message(), fresh.unschedulable_plugins, fresh.pending_plugins,
    )  # fmt: skip
    curable = [row for status, rows in groups if status.code is Code.UNSCHEDULABLE for row in rows.tolist()]
    assert counted.curable_rows.tolist() == sorted(curable)
    errors = [(status, rows.tolist()) for status, rows in groups if status.code is Code.ERROR]
    assert [(status, rows.tolist()) for status, rows in counted.errors] == errors
    assert attempt.found.verdicts is not None and verdicts.counted() is counted, "nothing has changed since"
    if later is not None:
        later.note(lambda: [(status, rows.tolist()) for status, rows in counted.groups])


def _compare_claims(core: Core, pod: PodInfo) -> None:
    """What nominated pods claim of each row."""
    profile, table, nominator = questions.profile_of(core, pod), core.cache.table, core.nominator
    rivals = profile.rivals(pod)
    if rivals is None:
        assert not len(nominator)
        return
    pods, cpu = [0] * table.capacity, [0] * table.capacity
    for name in nominator.nodes():
        for other in nominator.pods_on(name):
            if other.priority >= pod.priority and other.uid != pod.uid and name in table.row_of:
                pods[table.row_of[name]] += 1
                cpu[table.row_of[name]] += other.requests.get("cpu", 0)
    # A row without a node may lack the claims to it until the node comes.
    for row in table.rows().tolist():
        assert (rivals.pods[row], rivals.requested("cpu")[row]) == (pods[row], cpu[row])
        assert (row in rivals.rows()) == (pods[row] > 0)
    assert rivals.requested("example.com/none").tolist() == [0] * table.capacity


def _compare_what_ifs(core: Core, pod: PodInfo, rng: Random) -> None:
    """Ask about some rows as they are, with the pods nominated to them, and without a pod that runs there."""
    profile, table, state = questions.profile_of(core, pod), core.cache.table, CycleState()
    if profile.run_pre_filter(state, pod).status is not None:
        return
    what_if = profile.what_if(state, pod)
    valid = table.rows().tolist()
    rows = np.array(sorted(rng.sample(valid, rng.randint(0, len(valid)))), dtype=np.intp)
    for row in rows[:2].tolist():
        beside = profile.run_filter_beside_nominated(state, pod, table.view(row))
        rivals = profile.rivals_on(table.names[row], pod)
        plain = _beside(profile, state, pod, row, rivals) or rejection_on(
            profile, state, pod, table.view(row), state.skip_filter
        )
        assert beside == plain
    if not what_if.is_possible:
        return
    load, filters = what_if.load(rows), what_if.on(rows)
    plain = [rejection_on(profile, state, pod, table.view(row), state.skip_filter) for row in rows.tolist()]
    if profile.checks_all_filters:
        return
    _compare_under(filters, load, plain, rng, range(len(rows)))
    claims = profile.rivals(pod)
    if claims is not None:
        rivals = [profile.rivals_on(table.names[row], pod) for row in rows.tolist()]
        alone = [at for at, pods in enumerate(rivals) if not any(map(what_if.is_affected_by, pods))]
        plain = [_beside(profile, state, pod, row, pods) for row, pods in zip(rows.tolist(), rivals, strict=True)]
        _compare_under(filters, what_if.load(rows, claims), plain, rng, alone)
    gone = [rng.choice(list(table.pods[row].values())) if table.pods[row] else None for row in rows.tolist()]
    alone = [at for at, other in enumerate(gone) if other is not None and not what_if.is_affected_by(other)]
    plain, load = [None] * len(rows), what_if.load(rows)
    for at in alone:
        other, row = gone[at], int(rows[at])
        load.pods[at] -= 1
        for resource, amounts in load.requested.items():
            amounts[at] -= other.requests.get(resource, 0)
        plain[at] = rejection_on(profile, state, pod, table.view(row).without_pod(other), state.skip_filter)
    _compare_under(filters, load, plain, rng, alone)


def _beside(profile: Profile, state: CycleState, pod: PodInfo, row: int, rivals: list[PodInfo]) -> Any:
    view, what_if = profile.table.view(row), state.clone()
    for other in rivals:
        view = view.with_pod(other)
        for plugin in profile.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                assert is_success(plugin.add_pod(what_if, pod, other, view))
    return rejection_on(profile, what_if, pod, view, state.skip_filter)


def _compare_under(filters: Any, load: RowLoad, plain: list[Any], rng: Random, places: Any) -> None:
    """Compare what is said under a load in some places with the plain form's."""
    passing = filters.passing(load)
    assert [bool(passing[at]) for at in places] == [plain[at] is None for at in places]
    wanted = np.zeros(len(plain), dtype=np.bool_)
    wanted[[at for at in places if rng.random() < 0.7]] = True
    said = {at: status for status, refused in filters.refusals(load, wanted) for at in refused.tolist()}
    assert said == {at: plain[at] for at in np.flatnonzero(wanted).tolist() if plain[at] is not None}
