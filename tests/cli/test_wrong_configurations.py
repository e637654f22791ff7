"""A configuration that cannot be used: every command that takes one names the file and the field, and ends with 2.

What the exit codes are, docs/commands.md says; the field paths are the documents' own.
"""

import tomllib

import click
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.cli.commands import Commands, tables
from berth.config.missing_plugins import DISTRIBUTION, GUESTS, not_there
from berth.core.builders import make_node, make_pod
from berth_workbench.cli import ASKING
from berth_workbench.cli import COMMANDS as WORKBENCH
from tests.guests import entry_points
from tests.paths import ROOT
from tests.workbench.replay.test_recording_comparison import place_randomly

CLUSTER = ("--cluster", "cluster.yaml")
COMMANDS = {
    **{name: (*CLUSTER, "--config") for name, entry in WORKBENCH.commands.items() if entry.made_by == ASKING},
    "run": ("--kubeconfig", "kubeconfig", "--leader-elect=false", "--secure-port", "0", "--config"),
    "explain": ("p", "--what-would-help", *CLUSTER, "--config"),
    "extender": ("--without-cluster", "--port", "0", "--config"),
    "observe": ("--kubeconfig", "kubeconfig", "--secure-port", "0", "--config"),
    "plugins": ("--config",),
    "up": ("--nodes", "0", "--port", "0", "--config"),
    "ui": (*CLUSTER, "--port", "0", "--config"),
    "mcp": (*CLUSTER, "--config"),
    "snapshot": ("cluster.yaml", "-o", "snapshot.gz", "--config"),
    "whatif": (*CLUSTER, "--add-nodes", "1=n1", "--config"),
    "check": (*CLUSTER, "--head", "pod.yaml", "--config"),
    "capacity": (*CLUSTER, "-f", "pod.yaml", "--config"),
    "shrink": (*CLUSTER, "--usage", "usage.csv", "--config"),
    "autoscale": (*CLUSTER, "--groups", "groups.yaml", "--config"),
    "rebalance": (*CLUSTER, "--goal", "empty-nodes", "--config"),
    "compare": (*CLUSTER, "default"),
    "tune": (*CLUSTER, "--objective", "nodesUsed", "--config"),
    "simulate": ("day.jsonl.gz", "--config"),
    "replay": ("recording", "--config"),
    "decide": (*CLUSTER, "--config"),
    "bench": ("nothing.jsonl", "--config"),
}
"""How each is asked, up to the name of the configuration; a question needs no line if its cluster is all it needs."""
NOT_HERE = {"top"}
"""It reads a configuration as `ui` does, but not before it has seen that it is in a terminal."""

FROM_GUESTS = f"it comes with {DISTRIBUTION}: pip install {DISTRIBUTION}, or ./packages/plugins in a clone of Berth"
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile(**said):
    return {**KIND, "profiles": [said]}


def enabled(*names):
    return {"multiPoint": {"enabled": [{"name": name} for name in names]}}


WRONG = {
    "a plugin that is not there": (
        profile(plugins=enabled("Nope")),
        'profiles[0].plugins.multiPoint.enabled: plugin "Nope" does not exist; `berth plugins` lists those that do',
    ),
    "a guest that is not installed": (
        profile(plugins=enabled("GpuFragmentation")),
        f'profiles[0].plugins.multiPoint.enabled: plugin "GpuFragmentation" does not exist; {FROM_GUESTS}',
    ),
    "args of one": (
        profile(pluginConfig=[{"name": "GpuFragmentation", "args": {"typicalPods": []}}]),
        f'profiles[0].pluginConfig[0].name: plugin "GpuFragmentation" does not exist; {FROM_GUESTS}',
    ),
    "a value out of range": ({**KIND, "percentageOfNodesToScore": 500}, "percentageOfNodesToScore: Invalid value: 500"),
    "args out of range": (
        profile(pluginConfig=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1000}}]),
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 1000",
    ),
    "a field that is not there": (
        {**KIND, "profilse": []},
        'profilse: unknown field "profilse"; did you mean profiles?',
    ),
    "no YAML": ("a: [", "line 2, column 1: not readable as YAML or JSON"),
    "no file": (None, "cannot read the configuration file: No such file or directory"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Everything that the commands want beside a configuration."""
    made = tmp_path_factory.mktemp("configured")
    user = {"users": [{"name": "u", "user": {"token": "t"}}], "current-context": "c"}
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    node = make_node("n1").capacity(cpu="4", memory="8Gi", pods="110").document
    (made / "kubeconfig").write_text(yaml.safe_dump(access | user))
    (made / "cluster.yaml").write_text(yaml.safe_dump_all([node, make_pod("p").request(cpu="1").document]))
    (made / "pod.yaml").write_text(yaml.safe_dump(make_pod("q").request(cpu="1").document))
    (made / "groups.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "min": 0, "max": 1, "template": node}]}))
    (made / "usage.csv").write_text("name,cpu,memory\ndefault/p,100m,1Gi\n")
    (made / "nothing.jsonl").write_text("")
    place_randomly(made / "recording", 1, before=1, after=1)
    trace = ("trace", "generate", "--pods", "3", "--nodes", "1", "--services", "1", "-o", str(made / "day.jsonl.gz"))
    assert CliRunner().invoke(main, trace).exit_code == 0
    return made


def test_every_command_that_takes_a_configuration_is_asked():
    def takes_one(command):
        return any("--config" in parameter.opts for parameter in command.params)

    commands = Commands(tables())
    found = {name for name in commands.names if takes_one(commands.load(name) or click.Command(name))}
    assert found == (COMMANDS.keys() - {"compare"}) | NOT_HERE


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_file_and_the_field_are_named(directory, monkeypatch, command, what):
    monkeypatch.chdir(directory)
    document, told = WRONG[what]
    name = f"{'-'.join(what.split())}.yaml"
    if document is not None:
        (directory / name).write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    result = CliRunner().invoke(main, [command, *COMMANDS[command], name])
    assert result.exit_code == 2, result.output
    assert f"{name}: {told}" in " ".join(result.output.split()), result.output


def test_the_guests_are_known_by_the_names_of_their_distribution():
    assert entry_points().keys() == GUESTS
    with (ROOT / "packages/plugins/pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["name"] == DISTRIBUTION


def test_a_name_like_a_guests_is_told_to_be_one():
    assert not_there("GpuFragmentaton", {"NodeName"}).startswith(
        'plugin "GpuFragmentaton" does not exist; did you mean GpuFragmentation? It comes with berth-scheduler-plugins'
    )
    assert not_there("NodeNme", {"NodeName"}) == 'plugin "NodeNme" does not exist; did you mean NodeName?'
