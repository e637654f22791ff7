"""`berth kueue`: which commands it has. A table names their modules, so that help costs no more than reading it."""

from berth.cli.commands import CommandEntry, CommandTable
from berth.cli.help_text import CommandExample

COMMANDS = CommandTable(
    "Ask about Kueue's queues",
    {
        "kueue": CommandEntry(
            "berth_kueue.cli.kueue",
            "Kueue's decisions, exactly: who is admitted, why others wait, and where pods go.",
            (
                CommandExample("Recorded cases, decided again.", "berth kueue decide quota.jsonl.gz"),
                CommandExample("For a comparison.", "berth kueue decide quota.jsonl.gz > ours.jsonl"),
            ),
        ),
    },
)
"""What `berth` finds by the entry point: the group."""
INNER = CommandTable(
    "Commands",
    {
        "decide": CommandEntry(
            "berth_kueue.cli.decide",
            "Recorded cases in, records out, one JSON line each.",
            (
                CommandExample("The cases of a file.", "berth kueue decide quota.jsonl.gz > ours.jsonl"),
                CommandExample("Cases as a recorder prints them.", "berth kueue decide < quota.jsonl"),
            ),
        ),
    },
)
"""The commands of the group."""
