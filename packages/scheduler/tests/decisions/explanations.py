"""An explanation for tests that keep some."""

from berth.decisions.explanation import Explanation


def explanation(message):
    return Explanation(
        pod="default/web", uid="u", profile="default-scheduler", outcome="unschedulable", node=None, summary=message,
        message=message, attempts=1, node_count=1, feasible_count=0, weights={}, best=(), rejected=(),
    )  # fmt: skip
