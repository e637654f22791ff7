"""The manifests' command lines and probes, run for real: a scheduler started as kubeadm's static pod or the Deployment
would start it, asked as the kubelet asks."""

import ssl
import urllib.error
import urllib.request

import yaml

from tests.deploy.chart import ROOT, rendered
from tests.deploy.manifests import one, static_pod
from tests.e2e.processes import Process, free_port
from tests.waiting import WAIT_S, eventually

CONF = "/etc/kubernetes/scheduler.conf"


def probe(container, name, port):
    """The status that the kubelet would get; it does not verify the certificate. 0 where nobody answers."""
    asked = container[name]["httpGet"]
    assert asked["scheme"] == "HTTPS"
    url = f"https://{asked.get('host', '127.0.0.1')}:{port}{asked['path']}"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, context=context, timeout=WAIT_S) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except OSError:
        return 0


def started(tmp_path, arguments, kubeconfig, port):
    """The command with the files and the port of this machine in place of the node's."""
    here = [argument.replace(CONF, str(kubeconfig)) for argument in arguments]
    here = [argument for argument in here if not argument.startswith("--secure-port")]
    return Process(tmp_path / "log", "run", *here, f"--secure-port={port}")


def test_kubeadms_static_pod_turns_ready(tmp_path, api_server):
    (container,) = static_pod()["spec"]["containers"]
    assert (ROOT / "deploy/image/kube-scheduler").read_text().endswith('exec berth run "$@"\n')
    port = free_port()
    process = started(tmp_path, container["command"][1:], api_server, port)
    try:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            eventually(lambda name=name: probe(container, name, port) == 200 or process.process.poll() is not None)
            assert probe(container, name, port) == 200, process.said()
        assert "Traceback" not in process.said()
    finally:
        assert process.end() == 0


def test_the_deployments_pod_turns_ready(tmp_path, api_server):
    documents = rendered()
    (container,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    config = tmp_path / "config.yaml"
    config.write_text(one(documents, "ConfigMap")["data"]["config.yaml"])
    arguments = [word.replace("/etc/berth/config.yaml", str(config)) for word in container["args"][1:]]
    arguments = [word.replace("0.0.0.0", "127.0.0.1") for word in arguments]
    port = free_port()
    process = started(tmp_path, [*arguments, f"--kubeconfig={api_server}"], api_server, port)
    try:
        eventually(lambda: probe(container, "readinessProbe", port) == 200 or process.process.poll() is not None)
        assert probe(container, "livenessProbe", port) == 200, process.said()
        lines = [yaml.safe_load(line) for line in process.said().splitlines() if line.startswith("{")]
        assert any("scheduling as" in line["msg"] for line in lines)  # the log is JSON, as the manifest asks
    finally:
        assert process.end() == 0
