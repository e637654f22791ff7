"""What is known about one pod, and a decision in one line, as a running scheduler shows them and the page reads
them.
"""

import msgspec

from berth.decisions.explanation import Explanation
from berth.decisions.stories import StoryLine
from berth.decisions.waits import PendingPod, PermitWait


class PodReport(msgspec.Struct, frozen=True, rename="camel"):
    """All that is known about one pod: its last decision, where it waits, if it does, and its story."""

    pod: str
    decision: Explanation | None
    pending: PendingPod | None
    permit: PermitWait | None = None
    """Set while Permit holds the pod."""
    story: tuple[StoryLine, ...] = ()
    """What has happened to it so far, according to the decision log."""
    is_gone: bool = False
    """Whether the pod no longer exists: this is about the last one with that name."""


class DecisionLine(msgspec.Struct, frozen=True, rename="camel"):
    """A decision in one line."""

    pod: str
    outcome: str
    node: str | None
    message: str
    attempts: int
    time: str
