"""`berth extender`: what it says of what it is given, and a process that answers."""

import json
import ssl
import urllib.request

import pytest
from click.testing import CliRunner

from berth.cli.extender import command, is_open
from berth.core.builders import make_node, make_pod
from packages.scheduler.tests.kube.servers import Certificates
from tests.e2e.processes import Process

PREFERRING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: affine
  plugins:
    multiPoint:
      enabled: [{name: PrioritySort}, {name: NodeAffinity}, {name: DefaultBinder}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
"""


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(PREFERRING)
    return path


def test_a_profile_that_is_not_there(config):
    found = run("--config", config, "--without-cluster", "--profile", "nobody")
    assert (found.exit_code, found.output) == (
        2, "berth extender: --profile: there is no profile 'nobody'; the profiles are default-scheduler, affine\n",
    )  # fmt: skip


def test_args_that_are_wrong_are_said_with_the_file(config):
    config.write_text(PREFERRING.replace("operator: In", "operator: Like"))
    found = run("--config", config, "--without-cluster", "--profile", "affine", "--port", "0")
    assert found.exit_code == 2
    assert str(config) in found.output and "operator" in found.output and "Traceback" not in found.output


def test_a_kubeconfig_that_is_not_there(tmp_path):
    found = run("--kubeconfig", tmp_path / "nowhere")
    assert found.exit_code == 2 and "nowhere" in found.output and "--without-cluster" in found.output


def test_an_address_that_is_none():
    found = run("--without-cluster", "--bind-address", "everywhere")
    assert (found.exit_code, found.output) == (
        2, "berth extender: --bind-address: 'everywhere' is not an IP address\n",
    )  # fmt: skip


def test_certificates_that_do_not_belong_together(tmp_path):
    made = Certificates(tmp_path)
    certificate, key = made.issue("a")[0], made.issue("b")[1]
    alone = run("--without-cluster", "--tls-cert-file", certificate)
    assert alone.exit_code == 2 and "are given together" in alone.output
    mixed = run("--without-cluster", "--tls-cert-file", certificate, "--tls-private-key-file", key)
    assert mixed.exit_code == 2 and "the certificates cannot be used" in mixed.output
    no_use = run("--without-cluster", "--client-ca-file", made.ca)
    assert no_use.exit_code == 2 and "--client-ca-file needs --tls-cert-file" in no_use.output


@pytest.mark.parametrize(
    ("host", "is_loopback"), [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("::", False)]
)
def test_who_is_answered(host, is_loopback):
    """Certificates of the server's alone keep nobody out."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert [is_open(host, None), is_open(host, tls)] == [not is_loopback] * 2
    tls.verify_mode = ssl.CERT_REQUIRED
    assert not is_open(host, tls)


def test_a_process_that_answers_and_ends_cleanly(tmp_path, config):
    process = Process(
        tmp_path / "log", "extender", "--config", config, "--profile", "affine", "--without-cluster", "--port", 0
    )
    try:
        process.wait_until_it_says("Ctrl-C")
        said = process.said()
        assert said.startswith("serving the plugins of profile affine at http://127.0.0.1:")
        url = said.split(" at ")[1].split(",")[0]
        nodes = [make_node(name).label("zone", zone).document for name, zone in (("n1", "a"), ("n2", "b"))]
        body = {"Pod": make_pod("p").document, "Nodes": {"items": nodes}, "NodeNames": None}
        request = urllib.request.Request(f"{url}/filter", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert [node["metadata"]["name"] for node in found["Nodes"]["items"]] == ["n1"]
        assert list(found["FailedAndUnresolvableNodes"]) == ["n2"]
        assert process.end() == 0
    finally:
        if process.process.poll() is None:
            process.kill()
    assert "Traceback" not in process.said()
