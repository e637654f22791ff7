"""The health of out-of-tree plugins: how often they were called and failed, and which are taken out for a while.

Each optional plugin has a `PluginHealth`. `guarded` tells it of calls and of what they raise, the core of attempts
whose budget the plugin has used up. Calls are counted per attempt: a plugin that is asked about five thousand nodes and
raises on one of them has failed the attempt, not one call of many.

An optional plugin is one that the cluster can do without for a while, according to its author (`optional = True` in its
class). One that fails again and again is taken out: attempts treat it as if it had skipped the pod, so its Filter
passes and its Score counts nothing, and the methods that are called elsewhere are not called (`Unreserve` always is).
After a pause it is tried again, and goes out at once, for longer, if that fails too:

    in ──fails again and again──→ out ──pause is over──→ on trial ──works in several attempts──→ in
                                   ↑─────────fails───────────┘
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from berth.framework.blame import described

WINDOW_S = 60.0
"""How long failures are counted before counting starts over."""
FAILURES = 5
"""This many failing attempts within the window take an optional plugin out…"""
SHARE = 0.1
"""…if they are more than this share of the attempts that called it."""
PAUSE_S = 30.0
"""How long it stays out at first; each consecutive time is twice as long."""
LONGEST_PAUSE_S = 900.0
TRIAL_ATTEMPTS = 10
"""In how many attempts it must work before it counts as in again."""

HealthState = Literal["in", "out", "on trial"]

Lane = Literal["attempts", "queueing", "events"]
"""What a plugin is called for: attempts, PreEnqueue, or pods that come and go. Each is counted separately, since
thousands of pod events without trouble say nothing about attempts.
"""


class Rounds:
    """Which attempt the core is at; one for all plugins of a core."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class Tally:
    """How often a plugin was called for one purpose, and how often that failed."""

    __slots__ = ("calls", "calls_before", "failures", "failures_before", "in_round", "is_failed")

    def __init__(self) -> None:
        self.calls = self.failures = 0
        self.calls_before = self.failures_before = 0
        """What they were when the window began."""
        self.in_round = -1
        """The round that was counted last; calls outside any round are all counted."""
        self.is_failed = False
        """Whether the latest of the calls has failed."""

    @property
    def share(self) -> float:
        """The share of the calls that failed."""
        return self.failures / self.calls if self.calls else 0.0

    def begin_window(self, *, but: int = 0) -> None:
        """Start counting anew, including the latest failures."""
        self.calls_before, self.failures_before = self.calls - but, self.failures - but


class PluginHealth:
    """The health of one plugin of one profile."""

    __slots__ = (
        "_now", "_pause_s", "_tallies", "_tell", "_trouble", "_window_begins", "last_failure", "name", "profile",
         "rounds", "state", "times_out", "until", "worked",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        profile: str,
        rounds: Rounds,
        now: Callable[[], float],
        tell: Callable[["PluginHealth"], None] = lambda _health: None,
    ) -> None:
        """`tell` is called at each change of state."""
        self.name, self.profile = name, profile
        self.rounds, self._now, self._tell = rounds, now, tell
        self._tallies: dict[Lane, Tally] = {"attempts": Tally(), "queueing": Tally(), "events": Tally()}
        self._trouble: Lane = "attempts"
        """What it failed at when it was taken out."""
        self.last_failure = ""
        """What it last raised, and where, in words."""
        self.state: HealthState = "in"
        self.until = 0.0
        """When its pause is over, on the core's clock."""
        self.times_out = 0
        """How often it was taken out."""
        self.worked = 0
        """How many calls, of the kind at which it had failed, have worked since it is on trial."""
        self._pause_s = PAUSE_S
        self._window_begins = now()

    def tally(self, lane: Lane) -> Tally:
        """Return the tally of one kind of call."""
        return self._tallies[lane]

    def called(self, lane: Lane) -> None:
        """Note that the plugin is about to be called."""
        tally = self._tallies[lane]
        if lane == "attempts":
            if tally.in_round == self.rounds.number:
                return
            tally.in_round = self.rounds.number
        # Its last call is over by now, and has failed or not.
        if self.state == "on trial" and lane == self._trouble:
            self._on_trial()
        tally.calls += 1
        tally.is_failed = False

    def raised(self, lane: Lane, bug: Exception) -> None:
        """Note what it has raised."""
        self.failed(lane, described(bug))

    def failed(self, lane: Lane, why: str) -> None:
        """Note that it has failed; `why` is for people."""
        tally = self._tallies[lane]
        self.last_failure = why
        if not tally.is_failed:
            tally.is_failed = True
            tally.failures += 1
            self._judge(lane, tally)

    def is_out(self) -> bool:
        """Say whether the plugin is to be left out now; once its pause is over it is tried again."""
        if self.state != "out":
            return False
        if self._now() < self.until:
            return True
        self.worked = -1  # the coming call has yet to succeed
        self._change("on trial")
        return False

    @property
    def worst(self) -> Tally:
        """What it fails at most often."""
        return max(self._tallies.values(), key=lambda tally: (tally.failures >= FAILURES, tally.share, tally.calls))

    def _on_trial(self) -> None:
        self.worked += 1
        if self.worked >= TRIAL_ATTEMPTS:
            self._pause_s = PAUSE_S
            self._window_begins = self._now()
            for each in self._tallies.values():
                each.begin_window()
            self._change("in")

    def _judge(self, lane: Lane, tally: Tally) -> None:
        """Take the plugin out if it has failed often enough."""
        if self.state == "out":  # a call that has to be made in any case, such as Unreserve
            return
        if self.state == "on trial":
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._take_out(lane)
            return
        if self._now() - self._window_begins > WINDOW_S:
            self._window_begins = self._now()
            for each in self._tallies.values():
                each.begin_window(but=int(each is tally))
        failures, calls = tally.failures - tally.failures_before, tally.calls - tally.calls_before
        if failures >= FAILURES and failures > SHARE * calls:
            self._take_out(lane)

    def _take_out(self, lane: Lane) -> None:
        self._trouble = lane
        self.until = self._now() + self._pause_s
        self.times_out += 1
        self._change("out")

    def _change(self, state: HealthState) -> None:
        self.state = state
        self._tell(self)


class HealthBook:
    """The health of all optional plugins of a core."""

    __slots__ = ("_kept", "_now", "_tell", "rounds")

    def __init__(self, now: Callable[[], float], tell: Callable[[PluginHealth], None]) -> None:
        self.rounds = Rounds()
        self._now, self._tell = now, tell
        self._kept: dict[tuple[str, str], PluginHealth] = {}

    def __iter__(self) -> Iterator[PluginHealth]:
        return iter(self._kept.values())

    def __bool__(self) -> bool:
        return bool(self._kept)

    def of(self, plugin_class: Any, name: str, profile: str) -> PluginHealth | None:
        """Return the record of a plugin that is being made; None if it is not optional."""
        if not is_optional(plugin_class):
            return None
        made = PluginHealth(name, profile, self.rounds, self._now, self._tell)
        self._kept[profile, name] = made
        return made

    def overran(self, profile: str, name: str, verdict: str) -> None:
        """Note that a plugin has used up the budget of an attempt."""
        kept = self._kept.get((profile, name))
        if kept is not None:
            kept.called("attempts")
            kept.failed("attempts", verdict)


def is_optional(plugin_class: Any) -> bool:
    """Say whether a plugin's author allows it to be left out; what a base class says does not count."""
    return isinstance(plugin_class, type) and vars(plugin_class).get("optional", False) is True
