"""Makes a failing history shorter, by leaving out things without which it still fails."""

from tests.faults.history import HistoryFailed, live

TRIES = 150


def shrunk(plan, failed):
    """The shortest plan found that fails, and how it does."""
    tries, size = TRIES, max(1, len(plan.things) // 2)
    while size:
        start = 0
        while start < len(plan.things) and tries:
            # A cluster without a node is another story: its pods are retried for ever, and never at rest.
            left_out = [thing for thing in plan.things[start : start + size] if thing.what != "add_node"]
            if not left_out:
                start += size
                continue
            shorter = plan.without(left_out)
            tries -= 1
            try:
                live(shorter)
            except HistoryFailed as again:
                plan, failed = shorter, again
            else:
                start += size
        size //= 2
    return plan, failed
