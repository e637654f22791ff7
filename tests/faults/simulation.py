"""Virtual time for a cluster and the processes that work on it, and the story of what happened.

A `Simulation` owns the clock. What happens outside of the processes (requests that arrive, faults that begin, nodes
that go) are calls with a due time; each process has an event loop of its own, which is turned while it has something
to do now. Nothing else makes time pass, so that a history is the same whenever it is lived again.
"""

import heapq
import itertools

from berth.testing.virtual_loop import VirtualTime

MAX_TURNS = 60_000
"""Turns of event loops in one history: many times what any of the fixed ones takes. More is work without an end."""


class OutOfBudgetError(AssertionError):
    """The processes do more than the history can have asked of them."""


class Simulation:
    """Who does what when."""

    def __init__(self):
        self.time = VirtualTime()
        self.story = []
        self.violations = []
        """What must never happen and did, in words."""
        self.turns = 0
        self.processes = []
        self.current = None
        """The process whose turn it is."""
        self._due = []
        self._order = itertools.count()

    @property
    def now(self):
        return self.time.now

    def at(self, moment, act, *args):
        """Call at that moment, in the order of asking where moments are equal."""
        heapq.heappush(self._due, (max(moment, self.now), next(self._order), act, args))

    def after(self, delay_s, act, *args):
        self.at(self.now + delay_s, act, *args)

    def tell(self, who, text, *args):
        """Note what happened; it is put into words only if the story is told."""
        self.story.append((self.now, who, text, args))

    def accuse(self, text):
        """Note what must never happen."""
        self.tell("VIOLATION", text)
        self.violations.append(text)

    def told(self):
        """The story, one line for each thing that happened."""
        return [f"{now:10.3f}  {who:<12} {text % args if args else text}" for now, who, text, args in self.story]

    def run_until(self, end):
        """Let everything happen that happens until then."""
        while True:
            moment, process = self._next()
            if moment is None or moment > end:
                self.time.pass_until(end)
                return
            self.time.pass_until(moment)
            if process is None:
                _, _, act, args = heapq.heappop(self._due)
                act(*args)
            else:
                self._turn(process)

    def _next(self):
        """When something happens next, and in which process; None for what happens outside."""
        moment, chosen = (self._due[0][0], None) if self._due else (None, None)
        for process in self.processes:
            found = process.next_time()
            if found is not None and (moment is None or found < moment):
                moment, chosen = found, process
        return moment, chosen

    def _turn(self, process):
        self.turns += 1
        if self.turns > MAX_TURNS:
            raise OutOfBudgetError(f"more than {MAX_TURNS} turns of event loops")
        self.current = process
        try:
            process.turn()
        finally:
            self.current = None
