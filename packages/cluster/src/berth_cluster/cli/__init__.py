"""The commands that bring an embedded cluster up. They alone of this package know the scheduler and the workbench."""

from berth.cli.commands import CommandEntry, CommandTable
from berth.cli.help_text import CommandExample

COMMANDS = CommandTable(
    "Try it on an embedded cluster",
    {
        "demo": CommandEntry(
            "berth_cluster.cli.demo",
            "See it work: a cluster, some workloads, where each pod went and why.",
            (
                CommandExample("The default plugins.", "berth demo"),
                CommandExample("With a plugin of your own beside them.", "berth demo --plugin quiet_rack.py:QuietRack"),
            ),
        ),
        "up": CommandEntry(
            "berth_cluster.cli.up",
            "An embedded cluster with hollow nodes and the scheduler.",
            (
                CommandExample("Five nodes, until Ctrl-C.", "berth up --nodes 5"),
                CommandExample(
                    "Two pools of nodes.", "berth up --pool web:20,cpu=8 --pool gpu:2,cpu=64,nvidia.com/gpu=8"
                ),
                CommandExample("A copy of another cluster, to play with.", "berth up --from now.snapshot.gz"),
            ),
        ),
        "chaos": CommandEntry(
            "berth_cluster.cli.chaos",
            "Let something go wrong in such a cluster, and take it back.",
            (
                CommandExample("A node goes silent.", "berth chaos node-down node-1"),
                CommandExample("A zone is gone at once, and comes back.", "berth chaos zone-down zone-a --at-once"),
                CommandExample("Half a second for each request.", "berth chaos slow-api 500"),
            ),
        ),
        "apiserver": CommandEntry(
            "berth_cluster.cli.apiserver",
            "The embedded API server alone.",
            (
                CommandExample("On a free port; kubeconfig and CA in .berth.", "berth apiserver"),
                CommandExample("As an older release.", "berth apiserver --port 6443 --kubernetes-version 1.33"),
            ),
        ),
    },
)
