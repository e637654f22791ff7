"""What is known so far, for whoever waits: an answer like one that was stopped, and the whole one stays as it is."""

import msgspec
import pytest

from berth_workbench.simulation.watch import WorkWatch
from packages.workbench.tests.questions.every import ASKED, QUESTIONS


class Awaited(WorkWatch):
    """Somebody waits all the time, and keeps what comes."""

    def __init__(self, **more):
        self.parts = []
        super().__init__(**more)

    def offer(self, so_far):
        self.is_awaited = True
        super().offer(so_far)
        self.parts.append(self.part)
        assert not self.is_awaited


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", ["compare", "survive", "upgrade_plan"])
def test_parts_come_before_the_whole(name, jobs):
    question, (situation, request) = QUESTIONS[name], ASKED[name]()
    watch = Awaited(jobs=jobs)
    whole = question.answer(situation, request, watch)
    assert len(watch.parts) > 2
    for part in watch.parts:
        assert not part.is_complete and list(question.sections(part))
    assert whole.is_complete
    alone = question.answer(*ASKED[name](), WorkWatch())
    assert msgspec.to_builtins(whole) == msgspec.to_builtins(alone)


def test_nothing_is_made_where_nobody_waits():
    watch = WorkWatch()
    watch.offer(lambda: pytest.fail("nobody waits"))
    assert watch.part is None
