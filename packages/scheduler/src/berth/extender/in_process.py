"""Answers calls to extenders at once and in process, for replays, benchmarks and tests, which have no HTTP."""

from collections.abc import Callable

from berth.framework.effects import Answer, CallExtender, CallExtenders, ExtenderAnswer

AnswerCall = Callable[[CallExtender], ExtenderAnswer]
"""Plays every extender; `CallExtender.extender` says which one a call is for."""


def nobody(_call: CallExtender) -> ExtenderAnswer:
    """Answer like extenders that cannot be reached."""
    return ExtenderAnswer(error="extenders are called by a running scheduler only")


def answered(ticket: int, effect: CallExtenders, answer_call: AnswerCall) -> Answer:
    """Return the answer to a request."""
    return Answer(ticket, tuple(map(answer_call, effect.calls)))
