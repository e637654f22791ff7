"""What would help pending pods, as it is worked out in the background."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from berth_workbench.page.ahead import Ahead
from berth_workbench.page.views.answer import show_tries
from berth_workbench.page.views.elements import tag
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.search import TRIALS_OF_ALL
from berth_workbench.planning.help.words import gang_in_words, in_short, whether_ever
from berth_workbench.questions.remedies import trial_of
from berth_workbench.sources.source import Source

SHOWN: Final = 3


async def helps_for(source: Source, ahead: Ahead) -> Mapping[str, Help] | None:
    """Return what would help, by pod, as far as it is known; what is not known is worked out. None if nothing is
    known.
    """
    known: Mapping[str, Help] | None = ahead.get("help", (await source.nodes(), await source.pending()))
    return known


def show_help(ahead: Ahead, helps: Mapping[str, Help] | None, pods: Sequence[str]) -> None:
    """Show what would help some pods of one workload: the changes, the result of each, and how to make it."""
    tag("h3", "What would help")
    known = next((helps[pod] for pod in pods if pod in helps), None) if helps is not None else None
    if helps is None:
        tag("p", ahead.problem or "This is being worked out…", "soft")
    elif known is None and ahead.is_at_work:
        tag("p", "This is being worked out…", "soft")
    elif known is None and sum(each.trials for each in _single(helps)) >= TRIALS_OF_ALL:
        tag("p", "This was not worked out, since too much is pending; for one pod, this does:", "soft")
        tag("code", f"berth explain {pods[0] if pods else 'NAMESPACE/POD'} --what-would-help", "command")
    elif known is None:
        tag("p", "Nothing has to be done: there is a place, which the scheduler has not come to yet.", "soft")
    else:
        if len(pods) > 1 and not known.pods:  # they are looked at one by one
            tag("p", f"For {known.pod}, and each of the others by itself:", "soft")
        for sentence in gang_in_words(known) if known.lacks else ():
            tag("p", sentence)
        if known.never:
            tag("p", whether_ever(known), "warn")
        with tag("ul", classes="remedies"):
            for what, command in in_short(known, SHOWN):
                with tag("li", what):
                    if command:
                        tag("code", command, "command")
        show_tries([trial for trial in map(trial_of, known.changes[:SHOWN]) if trial is not None])
        for note in (*known.said, *known.notes):
            tag("p", note, "soft")


def _single(helps: Mapping[str, Help]) -> Collection[Help]:
    """Return each remedy once, whichever pods it helps."""
    return {id(each): each for each in helps.values()}.values()
