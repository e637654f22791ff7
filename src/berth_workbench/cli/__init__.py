"""The commands that try things out: on snapshots of clusters, on recordings, and in virtual time."""

from berth.cli.commands import CommandEntry, CommandTable

COMMANDS = CommandTable(
    "Look, ask and try things out",
    {
        "ui": CommandEntry("berth_workbench.cli.ui", "A page that shows the cluster and every decision."),
        "top": CommandEntry("berth_workbench.cli.top", "The same in a terminal."),
        "snapshot": CommandEntry("berth_workbench.cli.snapshot", "Keep a cluster in a file, to try things on."),
        "whatif": CommandEntry(
            "berth_workbench.cli.whatif", "What happens to a cluster if: drains, lost zones, new nodes and workloads."
        ),
        "capacity": CommandEntry(
            "berth_workbench.cli.capacity", "How many more pods of a shape fit, and what limits them."
        ),
        "rebalance": CommandEntry(
            "berth_workbench.cli.rebalance", "Which running pods to move so that the cluster becomes better."
        ),
        "upgrade-plan": CommandEntry(
            "berth_workbench.cli.upgrade_plan", "In which batches to upgrade nodes, with how many surge nodes."
        ),
        "compare": CommandEntry(
            "berth_workbench.cli.compare", "Two configurations on the same pods: what differs, and why."
        ),
        "tune": CommandEntry(
            "berth_workbench.cli.tune", "Search the weights that serve an objective best on your cluster."
        ),
        "sweep": CommandEntry(
            "berth_workbench.cli.sweep", "Many runs: seeds by configurations by clusters, here or on Dask."
        ),
        "trace": CommandEntry(
            "berth_workbench.cli.trace", "Make workloads over time, from others' traces or from a pattern."
        ),
        "simulate": CommandEntry(
            "berth_workbench.cli.simulate", "Live through a workload in virtual time: waits, utilisation."
        ),
        "replay": CommandEntry(
            "berth_workbench.cli.replay", "What was recorded, once more: the same, or where it first differs."
        ),
        "decide": CommandEntry("berth_workbench.cli.decide", "Replay scheduling cases: JSON lines in, decisions out."),
        "impact": CommandEntry(
            "berth_workbench.cli.impact", "What moving from v1.20 to v1.36 changes, and which plugin causes it."
        ),
        "bench": CommandEntry("berth_workbench.cli.bench", "Measure the scheduling of a workload file."),
    },
    extensions={"explain": "berth_workbench.cli.what_would_help"},
)
