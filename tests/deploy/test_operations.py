"""The commands on the page about running Berth: kubectl's are run, in order, on a cluster; of the others the flags are
read. Helm's are run where Helm is (`tests/soak/test_shipping.py`)."""

import re
import shlex

import click
import pytest

from berth.cli import main
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving.health import checks_of
from tests.deploy.chart import ROOT
from tests.e2e.kubectl import Kubectl, eventually
from tests.runtime.world import World, configuration

PAGES = ("docs/operations.md", "docs/commands.md", "README.md")


def commands(page, program):
    """The words of each command of a program that a page shows, in order."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    lines = re.findall(r"^ *\$ (.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines if shlex.split(line, comments=True)[0] == program]


@pytest.fixture(scope="module")
def kubectl(scheduled_cluster, tmp_path_factory):
    """kubectl on a cluster of three nodes, where a pod of the page is pending."""
    kubectl = Kubectl(scheduled_cluster, tmp_path_factory.mktemp("operations") / "cache")
    kubectl("run", "web-0", "--image=nginx", "--overrides", '{"spec": {"schedulerName": "nobody"}}')
    yield kubectl
    kubectl("delete", "pod", "web-0", "--grace-period=0", "--force")
    kubectl("delete", "serviceaccount,clusterrolebinding", "page-reader", "--ignore-not-found")
    kubectl("delete", "-k", str(ROOT / "deploy/kustomize/base"), "--ignore-not-found")


def test_every_kubectl_command_on_the_page_works(kubectl, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = commands("docs/operations.md", "kubectl")
    assert len(found) >= 8
    for lease in ("berth", "kube-scheduler"):
        document = f'{{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {{"name": "{lease}"}}}}'
        kubectl("apply", "-n", "kube-system", "-f", "-", text=document)
    for words in found:
        if {*words} & {"port-forward", "proxy"}:
            continue  # nothing runs in the containers of a hollow node
        kubectl(*words)


def test_the_deployment_becomes_ready(kubectl):
    kubectl("apply", "-k", str(ROOT / "deploy/kustomize/base"))
    ready = ("deployment/berth", "-n", "kube-system")
    eventually(lambda: kubectl.value(*ready, path=".status.readyReplicas"), "2")
    nodes = kubectl.value("pods", "-n", "kube-system", path=".items[*].spec.nodeName").split()
    assert len(set(nodes)) >= 2


def test_the_node_of_the_only_replica_can_be_drained(kubectl):
    kubectl("apply", "-k", str(ROOT / "deploy/kustomize/base"))
    ready = ("deployment/berth", "-n", "kube-system")
    kubectl("scale", *ready, "--replicas=1")

    def nodes():
        return kubectl.value("pods", "-n", "kube-system", path=".items[*].spec.nodeName").split()

    eventually(lambda: len(nodes()), 1)  # the other one has ended
    eventually(lambda: kubectl.value(*ready, path=".status.readyReplicas"), "1")
    (node,) = nodes()
    kubectl("drain", node, "--delete-emptydir-data", "--force", "--timeout=60s")
    assert node not in nodes()
    kubectl("uncordon", node)


@pytest.mark.parametrize("page", PAGES)
def test_every_berth_command_has_the_flags_that_it_is_given(page):
    found = commands(page, "berth") + commands(page, ".venv/bin/berth")
    assert found
    for name, *words in found:
        command = main.get_command(click.Context(main), name)
        assert command is not None, name
        with click.Context(command, resilient_parsing=True) as context:
            left = command.make_parser(context).parse_args(args=list(words))[1] if words else []
        assert not [word for word in left if word.startswith("-")]


def test_every_helm_command_names_values_that_there_are():
    from tests.deploy.chart import defaults

    text = (ROOT / "docs/operations.md").read_text()
    named = [name for pairs in re.findall(r"--set[\s=]([\w.,=/-]+)", text) for name in re.findall(r"([\w.]+)=", pairs)]
    assert len(named) > 4
    for name in named:
        value = defaults()
        for part in name.split("."):
            value = value[part]


def test_every_check_of_readyz_is_explained():
    world = World()
    checks = checks_of(LiveScheduler(configuration(), world.transport))["readyz"]
    text = (ROOT / "docs/operations.md").read_text()
    assert [name for name in checks if name != "ping" and text.count(f"| `{name}` |") != 1] == []
