"""Questions that were asked on the page: the one under way for each person, and the answers of before, which are kept.

A question is known by what was typed, so a page that is loaded anew, or opened by a colleague, finds the answer there,
or joins those who wait for it.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from berth_workbench.page.jobs import Jobs
from berth_workbench.page.refusals import REFUSALS, mistake_in_words
from berth_workbench.simulation.watch import StoppedError, WorkWatch

KEPT = 12
GIVEN_UP_S = 30.0
"""So long after the last one has left its page a question goes on."""
JOIN_S = 10.0
"""How long a page may take from being made to being looked at."""
Work = Callable[[WorkWatch], Any]
_log = logging.getLogger("berth_workbench.page")


class Asked:
    """A question, under way or answered."""

    __slots__ = ("_left_at", "_looks", "answer", "answered_at", "is_done", "key", "person", "problem", "watch")

    def __init__(self, key: str, person: str) -> None:
        self.key = key
        self.person = person
        self.watch = WorkWatch()
        self.answer: Any = None
        self.problem = ""
        self.is_done = False
        self.answered_at = 0.0
        self._looks = 0
        self._left_at = time.monotonic()

    def look(self, by: int) -> None:
        """Count a page that looks at it, or has ceased to."""
        self._looks += by
        self._left_at = time.monotonic()

    def is_awaited(self, within_s: float = JOIN_S) -> bool:
        """Whether anybody looks at it."""
        return self._looks > 0 or time.monotonic() < self._left_at + within_s


class Answers:
    """All questions of the page."""

    __slots__ = ("_asked", "_jobs", "_tasks")

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def kept(self, key: str) -> Asked | None:
        """Return a question that is under way or was answered; None where it has to be asked."""
        return self._asked.get(key)

    def ask(self, key: str, person: str, prepare: Callable[[], Awaitable[Work]]) -> Asked:
        """Begin to answer; what the person has asked before ends, and the oldest answer makes room."""
        for each in list(self._asked.values()):
            if not each.is_done and each.person == person:
                each.watch.stop()
        asked = self._asked[key] = Asked(key, person)
        self._asked.move_to_end(key)
        while len(self._asked) > KEPT:
            self._asked.popitem(last=False)[1].watch.stop()
        task = asyncio.create_task(self._answer(asked, prepare), name=f"question {key[:60]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asked

    async def _answer(self, asked: Asked, prepare: Callable[[], Awaitable[Work]]) -> None:
        giving_up = asyncio.create_task(self._give_up(asked))
        try:
            work = await prepare()
            asked.answer = await self._jobs.run(work, asked.watch, asked.is_awaited, asked.person)
        except StoppedError:
            asked.problem = "This was stopped before there was anything to tell."
        except REFUSALS as error:
            asked.problem = str(error)
        except Exception as bug:  # it ends this question only; the user is told
            _log.exception("a question has failed")
            asked.problem = f"This failed because of {mistake_in_words(bug)}."
        finally:
            giving_up.cancel()
            asked.is_done, asked.answered_at = True, time.time()
            if (asked.problem or not asked.answer.is_complete) and self._asked.get(asked.key) is asked:
                del self._asked[asked.key]  # it is asked again by whoever opens it

    async def _give_up(self, asked: Asked) -> None:
        """Stop what nobody looks at any more."""
        while asked.is_awaited(GIVEN_UP_S):
            await asyncio.sleep(GIVEN_UP_S / 3)
        asked.watch.stop()
