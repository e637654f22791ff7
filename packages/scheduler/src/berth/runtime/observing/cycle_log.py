"""Logs each cycle: an observer of the core that writes kube-scheduler's lines.

Messages, fields and verbosities are upstream's (pkg/scheduler/scheduler.go, factory.go, core/generic_scheduler.go and
internal/cache/cache.go of release-1.20, unchanged today). The steps of a slow cycle are logged; at
verbosity 10 the v1.20 generation also logs every score (`score_log`).
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument, Observed
from berth.cycle.schedule import NO_NODES
from berth.engine.promise_check import BrokenPromise
from berth.framework.blame import PluginBrokenError, described, place_of
from berth.framework.extenders import ExtenderCallRecord
from berth.framework.guard import WrongAnswer
from berth.framework.health import PluginHealth
from berth.framework.waiting_pods import WaitingPod
from berth.runtime.observing.logs import MOST_VERBOSE, level, structured
from berth.runtime.observing.score_log import score_lines
from berth.state.cache import Expired
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

FATES, STEPS, WAITS, PREDICATES = level(2), level(3), level(4), level(5)
SCORES = level(MOST_VERBOSE)
SHORT_CIRCUITED = (
    "since alwaysCheckAllPredicates has not been set, the predicate evaluation is short circuited and there are "
    "chances of other predicates failing as well."
)
LONG_S = 0.1
"""A cycle that takes this long is logged with its steps."""

_log = logging.getLogger("berth.scheduler")


class SchedulerLog(Instrument):
    """Logs each pod's fate if that is asked for; always logs errors, and bugs with their tracebacks."""

    _observed: Observed | None = None
    _told: frozenset[tuple[str, str, str]] = frozenset()
    """The plugins' exceptions that were logged in full: plugin, method and place, and each place alone."""

    def attached(self, observed: Observed) -> None:
        """Keep the core's state at hand: scores are logged with what the nodes offer and have given away."""
        self._observed = observed

    def attempting(self, queued: QueuedPod) -> None:
        """A cycle begins."""
        structured(_log, STEPS, "Attempting to schedule pod", pod=queued.pod.key)

    def decided(self, decision: Decision, seconds: float) -> None:
        """Log how the search ended; a node that was found is logged when the pod is bound."""
        for line in slow_cycle_lines(decision, seconds, in_full=_log.isEnabledFor(WAITS)):
            _log.info("%s", line)
        if self._observed is not None and self._observed.generation == "v1.20":
            self._tell_search(self._observed, decision)
        pod = decision.pod.key
        if decision.chosen is not None:
            return
        if decision.message == NO_NODES:
            message = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
            structured(_log, FATES, message, pod=pod)
        elif decision.outcome == "error":
            structured(_log, logging.ERROR, "Error scheduling pod; retrying", err=decision.message, pod=pod)
        else:
            structured(_log, FATES, "Unable to schedule pod; no fit; waiting", pod=pod, err=decision.message)

    def waits_on_permit(self, waiting: WaitingPod) -> None:
        """A pod is held."""
        _log.log(WAITS, 'one or more plugins asked to wait and no plugin rejected pod "%s"', waiting.pod.name)

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """A pod is on its node."""
        if not _log.isEnabledFor(FATES):
            return
        counts = {}
        if self._observed is not None and (known := self._observed.trace.get(queued.pod.key)) is not None:
            counts = {"evaluatedNodes": known.evaluated_count, "feasibleNodes": len(known.feasible)}
        structured(_log, FATES, "Successfully bound pod to node", pod=queued.pod.key, node=node_name, **counts)

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """A pod is not on the node chosen for it."""
        if is_gone:
            structured(_log, FATES, "Pod was deleted before it was bound", err=reason, pod=pod.key)
            return
        at = FATES if is_rejection else logging.ERROR
        structured(_log, at, "Error scheduling pod; retrying", err=reason, pod=pod.key)

    def hint_broke(self, pod: PodInfo, plugin: str, event: str, error: Exception) -> None:
        """Log a hint's bug for the plugin's author; the pod is tried again even so."""
        problem = f"{type(error).__name__}: {error}"
        structured(
            _log, logging.ERROR, "QueueingHintFn returns error", err=problem, event=event, plugin=plugin, pod=pod.key
        )

    def extender_failed(self, pod: PodInfo, asked: ExtenderCallRecord) -> None:
        """Log an extender's failure for the operator, even if the pod was scheduled."""
        outcome = "going on without it" if asked.is_ignored else "the pod is tried again"
        _log.warning(
            "extender %s failed to %s pod %s, %s: %s", asked.extender, asked.verb, pod.key, outcome, asked.problem
        )

    def swept(self, expired: Expired) -> None:
        """Assumed pods that were not confirmed in time, and those whose binding is under way."""
        for pod in expired.unfinished:
            _log.log(STEPS, "Couldn't expire cache for pod %s. Binding is still in progress.", pod.key)
        for pod in expired.pods:
            _log.warning("Pod %s expired", pod.key)

    def conflicted(self, pod: PodInfo, how: str) -> None:
        """Another scheduler on the same nodes."""
        structured(_log, FATES, "Conflict with another scheduler", pod=pod.key, how=how)

    def looked_for(self, pod: PodInfo, found: str, detail: str) -> None:
        """A bound pod that the watch has not shown; the outcome says what was wrong with watch or binding."""
        _log.warning(
            "the watch has not shown pod %s on its node; by the API server it is %s: %s", pod.key, found, detail
        )

    def plugin_health(self, health: PluginHealth) -> None:
        """Log that a plugin is left out, tried again, or back."""
        who = f"plugin {health.name} of profile {health.profile}"
        if health.state == "out":
            _log.error(
                "%s is left out: it has failed in %d of %d attempts that called it, the last time with %s",
                who, health.worst.failures, health.worst.calls, health.last_failure,
            )  # fmt: skip
        elif health.state == "on trial":
            _log.info("%s is tried again", who)
        else:
            _log.info("%s works again", who)

    def promise_broken(self, broken: BrokenPromise) -> None:
        """Warn of cached answers that may be wrong."""
        _log.warning("%s", broken)

    def plugin_broke(self, plugin: str, method: str, bug: Exception) -> None:
        """Log in full, once, where a plugin raised; the effect on each pod takes one line."""
        place = place_of(bug)
        known = plugin, method, place or str(bug)
        if known not in self._told:
            in_full = None if isinstance(bug, WrongAnswer) else bug  # its message names the place already
            _log.error("plugin %s broke in %s: %s", plugin, method, described(bug), exc_info=in_full)
        self._told = self._told | {known, *_alone(place)}

    def broke(self, pod: PodInfo, error: Exception) -> None:
        """Log a bug; the pod is tried again later. A plugin's bug is logged in full the first time only."""
        bug = error.bug if isinstance(error, PluginBrokenError) else error
        place = place_of(bug)
        if not self._told.intersection(_alone(place)) and not isinstance(bug, WrongAnswer):
            _log.error("scheduling pod %s hit a bug", pod.key, exc_info=error)
            self._told = self._told.union(_alone(place))
        elif not isinstance(error, PluginBrokenError):  # for those, another line says what came of it
            _log.error("scheduling pod %s hit a bug: %s", pod.key, described(error))

    def _tell_search(self, observed: Observed, decision: Decision) -> None:
        checks_all = observed.profiles[decision.profile].checks_all_filters
        if len(decision.feasible) < decision.evaluated_count and not checks_all:
            _log.log(PREDICATES, SHORT_CIRCUITED)
        if _log.isEnabledFor(SCORES):
            for line in score_lines(observed, decision):
                _log.log(SCORES, "%s", line)


def _alone(place: str) -> set[tuple[str, str, str]]:
    """Return the key of a place in a plugin's code; the scheduler's own bugs have none."""
    return {("", "", place)} if place else set()


def slow_cycle_lines(
    decision: Decision, seconds: float, *, in_full: bool = False, ended: datetime | None = None
) -> Iterator[str]:
    """Yield the lines about a cycle that took 100 ms or more, none about others; `in_full` includes short steps.

    Format and thresholds are those of k8s.io/utils/trace as kube-scheduler uses it: a step is included if it took its
    share of the 100 ms.
    """
    if seconds < LONG_S:
        return
    begun = (ended or datetime.now().astimezone()) - timedelta(seconds=seconds)
    number = abs(hash((decision.pod.uid, decision.attempts))) % 2**31
    pod = decision.pod
    share_s = LONG_S / (len(decision.laps) + 1)
    yield (
        f'Trace[{number}]: "Scheduling" namespace:{pod.namespace},name:{pod.name} '
        f"({_time(begun, '%d-%b-%Y %H:%M:%S')}) (total time: {_ms(seconds)}ms):"
    )
    before = decision.started
    for step, at in decision.laps:
        if at - before >= share_s or in_full:
            when = begun + timedelta(seconds=at - decision.started)
            yield f'Trace[{number}]: ---"{step}" {_ms(at - before)}ms ({_time(when, "%H:%M:%S")})'
        before = at
    yield f"Trace[{number}]: [{seconds * 1000:.6f}ms] [{seconds * 1000:.6f}ms] END"


def _ms(seconds: float) -> int:
    return int(seconds * 1000 + 1e-9)


def _time(when: datetime, layout: str) -> str:
    return f"{when.strftime(layout)}.{when.microsecond // 1000:03d}"
