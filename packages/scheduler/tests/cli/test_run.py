"""`berth run`: what is wrong is said in words and with an exit code, before anything is connected to."""

import asyncio
import gc
import sys

import pytest
import yaml
from click.testing import CliRunner

from berth.cli import run
from berth.cli.run import command
from berth.config.load import load_config
from packages.scheduler.tests.config.documents import v1_document

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def run(*arguments):
        return CliRunner().invoke(command, [str(argument) for argument in arguments])

    return run


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("kind: [", ("config.yaml",)),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: Nonsense\n", ("config.yaml", "Nonsense")),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n",
            ("config.yaml", "parallelism"),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofils: []\n",
            ("config.yaml", "profils"),
        ),
    ],
)
def test_a_wrong_configuration_is_exit_code_2(invoke, tmp_path, document, words):
    config = write(tmp_path / "config.yaml", document)
    result = invoke("--config", config, "--kubeconfig", write(tmp_path / "kubeconfig", KUBECONFIG))
    assert result.exit_code == 2
    assert all(word in result.output for word in words)
    assert "Traceback" not in result.output


def test_a_plugin_that_does_not_exist_is_exit_code_2(invoke, tmp_path):
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": {"enabled": [{"name": "Nonsense"}]}}}],
    }
    config = write(tmp_path / "config.yaml", yaml.safe_dump(document))
    kubeconfig = write(tmp_path / "kubeconfig", KUBECONFIG)
    result = invoke("--config", config, "--kubeconfig", kubeconfig, "--secure-port", "0")
    assert result.exit_code == 2
    assert "Nonsense" in result.output
    assert "Traceback" not in result.output


def test_what_a_plugin_makes_of_its_args_is_told_with_file_and_profile(invoke, tmp_path):
    args = {"name": "VolumeBinding", "args": {"shape": [{"utilization": 0, "score": 1}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "pluginConfig": [args]}],
    }
    config = write(tmp_path / "config.yaml", yaml.safe_dump(document))
    kubeconfig = write(tmp_path / "kubeconfig", KUBECONFIG)
    result = invoke("--config", config, "--kubeconfig", kubeconfig, "--secure-port", "0")
    assert result.exit_code == 2
    expected = "config.yaml: profiles[1].pluginConfig[0].args.shape: Invalid value: "
    assert expected in result.output


def test_a_configuration_that_is_not_there_is_exit_code_2(invoke, tmp_path):
    result = invoke("--config", tmp_path / "nothing.yaml")
    assert result.exit_code == 2
    assert "nothing.yaml" in result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", ("kubeconfig",)), (KUBECONFIG.replace("current-context: here", "current-context: there"), ("there",))],
)
def test_an_unreadable_kubeconfig_is_exit_code_2(invoke, tmp_path, text, words):
    result = invoke("--kubeconfig", write(tmp_path / "kubeconfig", text))
    assert result.exit_code == 2
    assert all(word in result.output for word in words)
    assert "Traceback" not in result.output


def test_without_a_cluster_it_says_what_to_give(invoke):
    result = invoke()
    assert result.exit_code == 2
    assert "--kubeconfig" in result.output


@pytest.mark.parametrize("flag", ["--version", "--version=true", "--version=raw"])
def test_the_version_is_told_without_a_cluster(invoke, flag):
    """kube-scheduler --version: probes of an image ask for it."""
    result = invoke(flag)
    assert result.exit_code == 0
    assert result.output.startswith("berth ")


def test_an_unknown_flag_is_exit_code_2(invoke):
    result = invoke("--nonsense")
    assert result.exit_code == 2
    assert "--nonsense" in result.output


@pytest.mark.parametrize(
    "profile",
    [
        {"plugins": {"score": {"enabled": [{"name": "Nonsense"}]}}},
        {"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": []}}]},
        {
            "pluginConfig": [{"name": "NodeLabel", "args": {}}],
            "plugins": {"filter": {"enabled": [{"name": "NodeLabel"}]}},
        },
    ],
)
def test_a_configuration_that_cannot_run_is_not_written_either(invoke, tmp_path, profile):
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    config, target = write(tmp_path / "config.yaml", yaml.safe_dump(document)), tmp_path / "out.yaml"
    result = invoke("--config", config, "--write-config-to", target)
    assert result.exit_code == 2
    assert not target.exists()


def test_the_configuration_can_be_written_down_and_read_again(invoke, tmp_path):
    target = tmp_path / "out.yaml"
    result = invoke("--write-config-to", target, "--leader-elect=false")
    assert result.exit_code == 0, result.output
    config = load_config(yaml.safe_load(target.read_text()), "out.yaml")
    assert config.leader_election.leader_elect is False


def test_gates_that_switch_nothing_are_told_once(invoke, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    taken = tmp_path / "config.yaml"
    binding = {
        "plugins": {"bind": {"enabled": [{"name": "Nope"}]}}
    }  # refused after the warnings, before any connection
    taken.write_text(yaml.safe_dump(v1_document(profiles=[binding])))
    gates = "--feature-gates=KubeletInUserNamespace=true,OpportunisticBatching=false"
    told = invoke("--config", taken, "--kubeconfig", kubeconfig, gates).stderr.splitlines()
    assert told[0] == "warning: --feature-gates: KubeletInUserNamespace switches nothing in this scheduler"
    assert told[1].startswith(
        "warning: --feature-gates: OpportunisticBatching switches nothing in this scheduler, it is"
    )
    assert sum("switches nothing" in line for line in told) == 2


def test_shards_need_leader_election(invoke, tmp_path):
    kubeconfig = write(tmp_path / "kubeconfig", KUBECONFIG)
    result = invoke("--shards", "4", "--leader-elect=false", "--kubeconfig", kubeconfig)
    assert result.exit_code == 2 and "--shards needs leader election" in result.stderr


@pytest.mark.parametrize("number", ["0", "65", "many"])
def test_a_number_of_shards_that_makes_no_sense_is_exit_code_2(invoke, number):
    assert invoke("--shards", number).exit_code == 2


TRACING = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TRACING + "samplingRatePerMillion: -1\n", ("tracing.yaml", "sampling rate must be positive")),
        (TRACING + "endpoint: ftp://collector\n", ("tracing.yaml", "unsupported scheme: ftp")),
        (None, ("tracing.yaml", "cannot read the tracing configuration")),
    ],
)
def test_a_wrong_tracing_configuration_is_exit_code_2(invoke, tmp_path, text, words):
    path = tmp_path / "tracing.yaml"
    if text is not None:
        write(path, text)
    result = invoke("--tracing-config-file", path, "--kubeconfig", write(tmp_path / "kubeconfig", KUBECONFIG))
    assert result.exit_code == 2
    assert all(word in result.output for word in words)
    assert "Traceback" not in result.output


def test_tracing_without_the_packages_says_how_to_get_them(invoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "berth.runtime.observing.tracing.exporter", None)
    text = TRACING + "samplingRatePerMillion: 10\n"
    arguments = ("--tracing-config-file", write(tmp_path / "tracing.yaml", text))
    result = invoke(*arguments, "--kubeconfig", write(tmp_path / "kubeconfig", KUBECONFIG))
    assert result.exit_code == 2
    assert "pip install 'berth-scheduler[otel]'" in result.output


def test_headers_for_the_collector_are_not_sent_in_the_clear(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    text = TRACING + "endpoint: collector.example.com:4318\nsamplingRatePerMillion: 10\n"
    arguments = ("--tracing-config-file", write(tmp_path / "tracing.yaml", text))
    result = invoke(*arguments, "--kubeconfig", write(tmp_path / "kubeconfig", KUBECONFIG))
    assert result.exit_code == 2
    assert "in the clear" in result.output and "secret" not in result.output


class Reading:
    """A scheduler that reads the cluster."""

    def __init__(self):
        self.synced = asyncio.Event()


def test_no_garbage_is_looked_for_while_the_cluster_is_read():
    async def read():
        scheduler = Reading()
        settling = asyncio.create_task(run._settle(scheduler))
        await asyncio.sleep(0)
        meanwhile = gc.isenabled()
        scheduler.synced.set()
        await settling
        return meanwhile, gc.isenabled(), gc.get_freeze_count() > 0

    try:
        assert asyncio.run(read()) == (False, True, True)
    finally:
        gc.unfreeze()


def test_a_scheduler_that_is_ended_while_it_reads_leaves_collections_on():
    async def ended():
        settling = asyncio.create_task(run._settle(Reading()))
        await asyncio.sleep(0)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)

    asyncio.run(ended())
    assert gc.isenabled()
    assert not gc.get_freeze_count()
