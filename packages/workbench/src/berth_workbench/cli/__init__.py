"""The commands that try things out: on snapshots of clusters, on recordings, and in virtual time."""

from berth.cli.commands import CommandEntry, CommandTable
from berth.cli.help_text import CommandExample

ASKING = "berth_workbench.cli.asking"

COMMANDS = CommandTable(
    "Look, ask and try things out",
    {
        "ui": CommandEntry(
            "berth_workbench.cli.ui",
            "A page that shows the cluster and every decision.",
            (
                CommandExample("The cluster in use.", "berth ui"),
                CommandExample(
                    "A snapshot, on a port that stays the same.", "berth ui --cluster now.snapshot.gz --port 8080"
                ),
            ),
        ),
        "top": CommandEntry(
            "berth_workbench.cli.top",
            "The same in a terminal.",
            (
                CommandExample("The cluster in use; q ends it.", "berth top"),
                CommandExample(
                    "The pods of a namespace, in a snapshot.", "berth top -n shop --cluster now.snapshot.gz"
                ),
            ),
        ),
        "mcp": CommandEntry(
            "berth_workbench.cli.mcp",
            "Have agents ask the questions, over the Model Context Protocol.",
            (
                CommandExample(
                    "A snapshot, for a client that starts the command.", "berth mcp --cluster now.snapshot.gz"
                ),
                CommandExample("The cluster in use, over HTTP on loopback.", "berth mcp --http --port 8765"),
                CommandExample("When to ask what, for an agent.", "berth mcp --skill > SKILL.md"),
            ),
        ),
        "snapshot": CommandEntry(
            "berth_workbench.cli.snapshot",
            "Keep a cluster in a file, to try things on.",
            (
                CommandExample("The cluster that kubectl talks to.", "berth snapshot -o now.snapshot.gz"),
                CommandExample(
                    "For a bug report: nothing in it has its name.", "berth snapshot -o now.snapshot.gz --anonymize"
                ),
                CommandExample("Of what kubectl has printed.", "berth snapshot cluster.yaml -o now.snapshot.gz"),
            ),
        ),
        "whatif": CommandEntry(
            "berth_workbench.questions.whatif",
            "What happens to a cluster if: drains, lost zones, new nodes and workloads.",
            (
                CommandExample(
                    "What moves, and what breaks, when a node is drained?",
                    "berth whatif --drain node-1 --cluster now.snapshot.gz",
                ),
                CommandExample(
                    "Which pods a lost zone moves or leaves without a node.",
                    "berth whatif --lose-zone zone-a -o name",
                ),
                CommandExample("A rollout on three more nodes.", "berth whatif --add-nodes 3=node-1 -f web.yaml"),
            ),
            made_by=ASKING,
        ),
        "check": CommandEntry(
            "berth_workbench.cli.check",
            "Whether a pull request fits: what becomes of the workloads that it touches.",
            (
                CommandExample(
                    "From main to the pull request, as a comment.",
                    "berth check --base main/ --head pr/ --cluster now.snapshot.gz -o markdown",
                ),
                CommandExample(
                    "What is rendered on standard input, against what the cluster has.",
                    "berth check --head - --fail-on error",
                ),
                CommandExample(
                    "Two clusters, a line each.",
                    "berth check --base main/ --head pr/ --cluster eu.gz --cluster us.gz",
                ),
            ),
        ),
        "capacity": CommandEntry(
            "berth_workbench.questions.capacity",
            "How many more pods of a shape fit, and what limits them.",
            (
                CommandExample("How many more pods like this fit?", "berth capacity -f web.yaml"),
                CommandExample(
                    "And after a node is gone?",
                    "berth capacity -f web.yaml --remove-nodes node-1 --cluster now.snapshot.gz",
                ),
            ),
            made_by=ASKING,
        ),
        "quotas": CommandEntry(
            "berth_workbench.cli.quotas",
            "What namespaces are guaranteed, use and have borrowed.",
            (
                CommandExample("What are namespaces guaranteed, and what have they borrowed?", "berth quotas"),
                CommandExample(
                    "What are they in a file's cluster, for a program?",
                    "berth quotas --cluster now.snapshot.gz -o json",
                ),
            ),
        ),
        "shrink": CommandEntry(
            "berth_workbench.cli.shrink",
            "Which workloads request more than they use, and what that would free.",
            (
                CommandExample(
                    "Which workloads request more than they use?",
                    "berth shrink --cluster now.snapshot.gz --usage usage.csv",
                ),
                CommandExample("And with more to spare?", "berth shrink --margin 50"),
            ),
        ),
        "survive": CommandEntry(
            "berth_workbench.questions.survive",
            "Which nodes, zones and pools can be lost, and what it takes.",
            (
                CommandExample("Which nodes and zones can be lost?", "berth survive --cluster now.snapshot.gz"),
                CommandExample("And two of them at once?", "berth survive --pairs --cluster now.snapshot.gz"),
            ),
            made_by=ASKING,
        ),
        "autoscale": CommandEntry(
            "berth_workbench.questions.autoscale",
            "Which nodes a backlog takes, which nobody needs, and what spot can cost.",
            (
                CommandExample(
                    "What would an autoscaler add for the backlog?",
                    "berth autoscale --groups groups.yaml --cluster now.snapshot.gz",
                ),
                CommandExample("And for these pods, too?", "berth autoscale --groups groups.yaml -f web.yaml"),
            ),
            made_by=ASKING,
        ),
        "wait": CommandEntry(
            "berth_workbench.questions.wait",
            "How long pending pods will wait, and for whom.",
            (
                CommandExample("How long will pending pods wait?", "berth wait --cluster now.snapshot.gz"),
                CommandExample("And this one?", "berth wait shop/web-0 --cluster now.snapshot.gz"),
            ),
            made_by=ASKING,
        ),
        "rebalance": CommandEntry(
            "berth_workbench.cli.rebalance",
            "Which running pods to move so that the cluster becomes better.",
            (
                CommandExample(
                    "Which pods to move so that nodes become empty?",
                    "berth rebalance --goal empty-nodes --cluster now.snapshot.gz",
                ),
                CommandExample(
                    "Which pods to move so that those that are pending find room?",
                    "berth rebalance --goal place-pending --cluster now.snapshot.gz",
                ),
                CommandExample(
                    "Make nodes equally full, five moves at most, as commands for a shell.",
                    "berth rebalance --goal even-out --max-moves 5 --commands > plan.sh",
                ),
            ),
        ),
        "upgrade-plan": CommandEntry(
            "berth_workbench.questions.upgrade_plan",
            "In which batches to upgrade nodes, with how many surge nodes.",
            (
                CommandExample(
                    "In which batches can all nodes be upgraded?", "berth upgrade-plan --cluster now.snapshot.gz"
                ),
                CommandExample(
                    "Some of them, without a single node more?", 'berth upgrade-plan --nodes "gpu-*" --max-surge 0'
                ),
            ),
            made_by=ASKING,
        ),
        "compare": CommandEntry(
            "berth_workbench.cli.compare",
            "Two configurations on the same pods: what differs, and why.",
            (
                CommandExample(
                    "The default configuration against mine, for what is pending.",
                    "berth compare default packed.yaml --cluster now.snapshot.gz",
                ),
                CommandExample(
                    "As if every pod were placed anew.",
                    "berth compare a.yaml b.yaml --cluster now.snapshot.gz --replace-all",
                ),
            ),
        ),
        "tune": CommandEntry(
            "berth_workbench.cli.tune",
            "Search the weights that serve an objective best on your cluster.",
            (
                CommandExample(
                    "The weights that need the fewest nodes.",
                    "berth tune --objective nodesUsed --cluster now.snapshot.gz --replace-all",
                ),
                CommandExample(
                    "The trade-off between cost and waiting, over a day.",
                    "berth tune --objective cost --objective waiting.p99 --trace day.trace.gz",
                ),
            ),
        ),
        "sweep": CommandEntry(
            "berth_workbench.cli.sweep",
            "Many runs: seeds by configurations by clusters, here or on Dask.",
            (
                CommandExample(
                    "Four runs at a time; goes on where it was interrupted.", "berth sweep sweep.yaml --jobs 4"
                ),
                CommandExample("On a Dask cluster.", "berth sweep sweep.yaml --dask tcp://10.0.0.1:8786"),
            ),
        ),
        "trace": CommandEntry(
            "berth_workbench.cli.trace",
            "Make workloads over time, from others' traces or from a pattern.",
            (
                CommandExample(
                    "A day of 10,000 pods.", "berth trace generate --pods 10000 --nodes 100 -o day.trace.gz"
                ),
                CommandExample(
                    "Another day, and a fuller one.", "berth trace generate --load 1.1 --seed 7 -o full.trace.gz"
                ),
                CommandExample(
                    "A published one.", "berth trace import --format alibaba-2018 tables -o alibaba.trace.gz"
                ),
                CommandExample(
                    "A tenth of it.", "berth trace import --format google-2019 --sample 0.1 tables -o g.trace.gz"
                ),
                CommandExample("What is in it?", "berth trace show day.trace.gz"),
                CommandExample("For a script.", "berth trace show day.trace.gz -o jsonpath={.pods}"),
            ),
        ),
        "simulate": CommandEntry(
            "berth_workbench.cli.simulate",
            "Live through a workload in virtual time: waits, utilisation.",
            (
                CommandExample("How long do pods wait?", "berth simulate day.trace.gz"),
                CommandExample(
                    "With another configuration, and a picture.",
                    "berth simulate day.trace.gz --config packed.yaml --plot day.svg",
                ),
            ),
        ),
        "replay": CommandEntry(
            "berth_workbench.cli.replay",
            "What was recorded, once more: the same, or where it first differs.",
            (
                CommandExample("Does it decide the same again?", "berth replay recording"),
                CommandExample(
                    "What would another configuration have decided?", "berth replay recording --config packed.yaml"
                ),
                CommandExample(
                    "A test of what happened to a pod.",
                    "berth replay recording --around shop/web-1 --to-test test_web.py",
                ),
            ),
        ),
        "decide": CommandEntry(
            "berth_workbench.cli.decide",
            "Replay scheduling cases: JSON lines in, decisions out.",
            (
                CommandExample("Cases of a file.", "berth decide cases.jsonl"),
                CommandExample("The pending pods of a cluster.", "berth decide --cluster now.snapshot.gz"),
            ),
        ),
        "impact": CommandEntry(
            "berth_workbench.cli.impact",
            "What moving from v1.20 to v1.36 changes, and which plugin causes it.",
            (
                CommandExample("Cases of a file.", "berth impact cases.jsonl"),
                CommandExample("For a script.", "berth impact cases.jsonl --json"),
            ),
        ),
        "bench": CommandEntry(
            "berth_workbench.cli.bench",
            "Measure the scheduling of a workload file.",
            (
                CommandExample("A workload of benchmarks/scenarios.py.", "berth bench workload.jsonl"),
                CommandExample(
                    "With a plugin, some decisions checked.",
                    "berth bench workload.jsonl --plugin quiet_rack.py:QuietRack --check 100",
                ),
            ),
        ),
    },
    extensions={
        "explain": "berth_workbench.cli.what_would_help",
        "observe": "berth_workbench.cli.observed",
        "plugins": "berth_workbench.cli.plugin_profile",
    },
)
