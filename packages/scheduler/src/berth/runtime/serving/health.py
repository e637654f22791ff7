"""Health checks as Kubernetes answers them: named checks, `?verbose`, `?exclude=`, 200 or 500 with the reasons.

`serving` asks for the answer of `/healthz`, `/livez` and `/readyz`. Healthy and alive: the process answers and, where
leaders are elected, does not hold on to a lease it has lost. Ready: informers synced and up to date, not refused by
the API server for long, and no cycle that does not end; a standby is ready too. Not alive: a cycle that only a restart
can end.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from berth.decisions.plugin_views import told_out

if TYPE_CHECKING:
    from berth.runtime.scheduler import LiveScheduler

Check = Callable[[], str]
"""Returns what is wrong, or the empty string, or a `HealthNote`."""


class HealthNote(str):
    """A note on a check that has passed: it is shown, but is not a failure."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


class HealthAnswer(NamedTuple):
    """An HTTP status and a text."""

    status: int
    text: str


def checks_of(scheduler: "LiveScheduler") -> Mapping[str, Mapping[str, Check]]:
    """The named checks of each endpoint."""

    def nothing_wrong() -> str:
        return ""

    def synced() -> str:
        following = scheduler.following
        if waiting := following.unsynced():
            return _listed(waiting)
        lacking = following.lacking()
        return HealthNote(f"going without {_listed(lacking)}") if lacking else ""

    def fresh() -> str:
        return _listed(scheduler.following.stale())

    def not_shutting_down() -> str:
        return "the process is ending" if scheduler.is_stopping else ""

    def cycles_end() -> str:
        return scheduler.overruns.problem()

    def plugins() -> str:
        # Read concurrently with the core, which writes single values only; work outside of any plugin is no failure.
        out = told_out(list(scheduler.core.health))
        return HealthNote(out) if out else ""

    def not_stuck() -> str:
        return scheduler.overruns.loss

    health: dict[str, Check] = {"ping": nothing_wrong}
    if scheduler.elects_leader:
        health["leaderElection"] = scheduler.lease_problem
    ready: dict[str, Check] = {
        "ping": nothing_wrong,
        "informer-sync": synced,
        "informer-freshness": fresh,
        "api-server-access": scheduler.refused,
        "scheduling-cycle": cycles_end,
        "plugins": plugins,
        "shutdown": not_shutting_down,
    }
    alive: dict[str, Check] = {"ping": nothing_wrong, "scheduling-cycle": not_stuck}
    return {"healthz": health, "livez": alive, "readyz": ready}


def _listed(problems: Mapping[str, str]) -> str:
    return "; ".join(f"{plural}: {why}" for plural, why in problems.items())


def answer(endpoint: str, checks: Mapping[str, Check], excluded: Collection[str], *, verbose: bool) -> HealthAnswer:
    """Return the endpoint's answer; a failure is always listed in full."""
    lines = []
    is_well = True
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        problem = check()
        is_well = is_well and not problem
        remark = f": {problem}" if len(problem) else ""
        lines.append(f"[-]{name} failed{remark}" if problem else f"[+]{name} ok{remark}")
    if is_well and not verbose:
        return HealthAnswer(200, "ok")
    lines.append(f"{endpoint} check {'passed' if is_well else 'failed'}")
    return HealthAnswer(200 if is_well else 500, "\n".join(lines) + "\n")
