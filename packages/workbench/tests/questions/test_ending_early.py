"""Every question ends when it is told to, and tells what it has by then: asked for an end, or out of time.

What is cut short has no verdict, and what is told of it all the same is true of the finished answer as well.

The table has every question that there is. A question is asked whole first, with a watch that counts how often it is
looked at, and a plugin that counts what the scheduler is asked in between. Then it is asked again, and told to end when
it looks for the first time, for the second, and so on.
"""

import json
from collections.abc import Iterator

import click
import msgspec
import pytest

from berth_workbench.cli.asking import tell
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.planning.help.words import in_short, lines_of
from berth_workbench.showing.sections import VerdictSection
from berth_workbench.simulation import processes
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from packages.workbench.tests.questions.every import ASKED, QUESTIONS, SOURCE, Counted, crowded
from tests.effort import looks_everywhere

LOOKS, ALL_LOOKS = 4, 60
"""At so many of its looks each question is told to end, in `make test` and in `make test-all`."""
AFTERWARDS = dict.fromkeys(ASKED, 60) | {"rebalance": 160}
"""So often the scheduler may be asked once it is told to end: what was under way, and what is said of those without
a place. The moves that were found are proven, and each asks about all nodes."""
IN_A_ROW = 120
"""So often it may be asked between two looks."""


class Looks(WorkWatch):
    """Is told to end at a certain look; a look is a second of its clock. Notes what the scheduler was asked."""

    def __init__(self, end_at=None, *, is_out_of_time=False):
        self.looks, self.longest, self.after, self._seen = 0, 0, None, Counted.count
        self._end_at, self._is_out_of_time = end_at, is_out_of_time
        super().__init__(end_at if is_out_of_time else float("inf"), lambda: self.looks)

    @property
    def is_stopped(self):
        self.looks += 1
        if self.after is None:
            self.longest = max(self.longest, Counted.count - self._seen)
        self._seen = Counted.count
        if not self._is_out_of_time and self._end_at is not None and self.looks >= self._end_at:
            self.stop()
        is_stopped = super().is_stopped
        if is_stopped and self.after is None:
            self.after = Counted.count
        return is_stopped

    @property
    def asked_afterwards(self):
        return 0 if self.after is None else Counted.count - self.after


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Looks are counted where they are taken; that forked parts hear of an end is for the tests of `processes`."""
    monkeypatch.setattr(processes.threading, "active_count", lambda: 2)


def answer(name, watch):
    """Return the answer, or None where there is nothing yet; that is said by an error."""
    situation, request = ASKED[name]()
    try:
        return QUESTIONS[name].answer(situation, request, watch)
    except StoppedError:
        assert watch.after is not None
        return None


def test_the_table_has_every_question():
    assert ASKED.keys() == QUESTIONS.keys()


@pytest.fixture(scope="module")
def whole():
    """What a question comes to, and the watch that saw it through; asked once."""
    known = {}

    def of(name):
        if name not in known:
            watch = Looks()
            known[name] = answer(name, watch), watch
        return known[name]

    return of


@pytest.mark.parametrize("name", ASKED)
def test_the_watch_is_looked_at_all_the_time(name, whole):
    found, watch = whole(name)
    assert found.is_complete and watch.looks > 5
    assert watch.longest <= IN_A_ROW


def ends(looks) -> Iterator[int]:
    """Some all the way through: the first, where the cluster is loaded, and the last."""
    number = ALL_LOOKS if looks_everywhere() else LOOKS
    yield from sorted({1, 2, looks - 2, looks - 1, looks, *(max(1, looks * at // number) for at in range(1, number))})


@pytest.mark.parametrize("is_out_of_time", [False, True], ids=["stopped", "out of time"])
@pytest.mark.parametrize("name", ASKED)
def test_it_ends_at_once_with_the_part_so_far(name, is_out_of_time, whole, capsys):
    complete, seen = whole(name)
    parts = 0
    for end_at in ends(seen.looks):
        watch = Looks(end_at, is_out_of_time=is_out_of_time)
        found = answer(name, watch)
        assert watch.asked_afterwards <= AFTERWARDS[name], end_at
        if found is None:
            continue
        document = msgspec.to_builtins(QUESTIONS[name].document(found))
        if name == "rebalance" and found.plan.moves and not found.plan.is_complete:  # a shorter plan is a plan
            assert found.is_complete and "stopped" in found.notes[0]
        elif found.is_complete:
            assert document == msgspec.to_builtins(QUESTIONS[name].document(complete))
            continue
        parts += 1
        if not found.is_complete:
            says_nothing_final(QUESTIONS[name], found)
            STAYS_TRUE.get(name, lambda found, complete: None)(found, complete)
        if parts == 1:
            told = printed(name, found, capsys)
            assert name == "simulate" or told["isComplete"] is False
    assert parts or name in WHOLE_OR_NONE or is_loading_alone(name, seen), "nothing is ever kept"


WHOLE_OR_NONE = {"check"}
"""Of half a pull request nothing can be said that its author could go by."""


def is_loading_alone(name, seen):
    """Whether a question looks at its watch only while its cluster is loaded: then it has no parts to keep."""
    situation, _ = ASKED[name]()
    loading = Looks()
    if situation is not None:
        situation.untouched(loading)
    return loading.looks == seen.looks


def says_nothing_final(question, found):
    """Neither Yes nor No, neither never nor nothing: it is not known, whoever asks, before the end and after it."""
    for is_at_work, begins in ((False, "Not known: stopped while "), (True, "Not known yet: still ")):
        first, *others = question.sections(found, is_at_work=is_at_work)
        assert isinstance(first, VerdictSection) and first.is_good is None
        assert first.text.startswith(begins + question.doing)
        assert not any(isinstance(each, VerdictSection) for each in others)


def broken_stays_broken(part, complete):
    assert set(part.result.broken) <= set(complete.result.broken)


def lost_stays_lost(part, complete):
    of_all = {(each.kind, each.names): each for each in complete.failures}
    for each in part.failures:
        if each.is_exact:
            assert of_all[each.kind, each.names].survives == each.survives


def what_waits_waits(part, complete):
    of_all = {each.pod: each for each in complete.pods}
    for each in part.pods:
        if each.node:
            assert (of_all[each.pod].node, of_all[each.pod].seconds) == (each.node, each.seconds)


def backlog_is_the_same(part, complete):
    assert part.backlog == complete.backlog
    assert part.more.at_least <= sum(each.count for each in complete.more.nodes) or not complete.more.nodes


STAYS_TRUE = {
    "autoscale": backlog_is_the_same,
    "capacity": lambda part, complete: at_most(part.fits, complete.fits),
    "compare": lambda part, complete: at_most(len(part.decisions.changes), len(complete.decisions.changes)),
    "shrink": lambda part, complete: at_most(len(part.workloads), len(complete.workloads)),
    "survive": lost_stays_lost,
    "wait": what_waits_waits,
    "whatif": broken_stays_broken,
}
"""What of a part is told as certain."""


def at_most(part, complete):
    assert part <= complete


@pytest.mark.parametrize("is_out_of_time", [False, True], ids=["stopped", "out of time"])
def test_what_would_help_never_says_never_of_what_it_has_not_looked_at(is_out_of_time):
    def helped(watch):
        snapshot = crowded()
        cluster = Site.of(snapshot, SOURCE.load()).cluster
        return what_would_help(cluster, cluster.pods["default/wait-0"], documents=snapshot.documents, watch=watch)

    complete = helped(seen := Looks())
    assert complete.is_complete and seen.looks > 10
    for end_at in ends(seen.looks):
        try:
            found = helped(Looks(end_at, is_out_of_time=is_out_of_time))
        except StoppedError:  # before there was anything to tell
            continue
        assert complete.never or not found.never
        if not found.is_complete:
            assert not any("No change was found" in line for line in lines_of(found))
            assert "No change was found that would help." not in [what for what, _ in in_short(found)]


def printed(name, found, capsys):
    """Return the JSON that the command prints; it fails where the answer is not complete."""
    if found.is_complete:
        tell(QUESTIONS[name], ASKED[name]()[1], found, "json")
    else:
        with pytest.raises(click.ClickException, match=r"before the end; this is what was found by then") as ended:
            tell(QUESTIONS[name], ASKED[name]()[1], found, "json")
        assert ended.value.exit_code == 3, "which is neither Yes nor No"
    return json.loads(capsys.readouterr().out)
