"""`berth kueue`: which commands it has. A table names their modules, so that help costs no more than reading it."""

from berth.cli.commands import CommandEntry, CommandTable
from berth.cli.help_text import CommandExample

ASKING = "berth_workbench.cli.asking"

COMMANDS = CommandTable(
    "Ask about Kueue's queues",
    {
        "kueue": CommandEntry(
            "berth_kueue.cli.kueue",
            "Who of Kueue's workloads runs, why the others wait, and where their pods go.",
            (
                CommandExample("Would this job run?", "berth kueue check -f job.yaml --cluster now.snapshot.gz"),
                CommandExample("Why does that one wait?", "berth kueue explain team-a/train"),
            ),
        ),
    },
)
"""What `berth` finds by the entry point."""
INNER = CommandTable(
    "Commands",
    {
        "explain": CommandEntry(
            "berth_kueue.questions.explain",
            "Why a workload waits, and what would help.",
            (
                CommandExample("One workload, or the one of a job.", "berth kueue explain team-a/train"),
                CommandExample("All that wait.", "berth kueue explain --cluster now.snapshot.gz"),
            ),
            made_by=ASKING,
        ),
        "check": CommandEntry(
            "berth_kueue.questions.check",
            "Would Kueue admit a job, and would its pods have nodes?",
            (
                CommandExample("Admitted, by whom, and where?", "berth kueue check -f job.yaml"),
                CommandExample(
                    "For a script.", "berth kueue check -f job.yaml --cluster now.snapshot.gz --fail-on-waiting"
                ),
            ),
            made_by=ASKING,
        ),
        "whatif": CommandEntry(
            "berth_kueue.questions.whatif",
            "Who is admitted, and where pods go, after changes of quota, nodes and workloads.",
            (
                CommandExample("More quota.", "berth kueue whatif --quota team-a.h100.nvidia.com/gpu=+8"),
                CommandExample(
                    "A node less, and another job.", "berth kueue whatif --remove-nodes gpu-7 -f job.yaml -o json"
                ),
            ),
            made_by=ASKING,
        ),
        "wait": CommandEntry(
            "berth_kueue.questions.wait",
            "When waiting workloads run, by deadlines and usual durations.",
            (
                CommandExample("By deadlines alone.", "berth kueue wait --cluster now.snapshot.gz"),
                CommandExample("By what workloads usually take.", "berth kueue wait --durations usual.yaml"),
            ),
            made_by=ASKING,
        ),
        "top": CommandEntry(
            "berth_kueue.questions.top",
            "What queues have, use, borrow and lend, and what waits.",
            (
                CommandExample("The cluster in use.", "berth kueue top"),
                CommandExample("For a program.", "berth kueue top --cluster now.snapshot.gz -o json"),
            ),
            made_by=ASKING,
        ),
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
