"""The commands that bring an embedded cluster up. They alone of this package know the scheduler and the workbench."""

from berth.cli.commands import CommandEntry, CommandTable

COMMANDS = CommandTable(
    "Try it on an embedded cluster",
    {
        "demo": CommandEntry(
            "berth_cluster.cli.demo", "See it work: a cluster, some workloads, where each pod went and why."
        ),
        "up": CommandEntry("berth_cluster.cli.up", "An embedded cluster with hollow nodes and the scheduler."),
        "chaos": CommandEntry("berth_cluster.cli.chaos", "Let something go wrong in such a cluster, and take it back."),
        "apiserver": CommandEntry("berth_cluster.cli.apiserver", "The embedded API server alone."),
    },
)
