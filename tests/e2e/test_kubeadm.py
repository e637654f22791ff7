"""kubeadm's static pod with the image swapped: its flags, its kubeconfig, and the kubelet's probes turn ready."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime

import aiohttp
import yaml

from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage.store import Store
from tests.e2e.processes import BERTH, free_port
from tests.waiting import until

MANIFEST_FLAGS = (
    "--authentication-kubeconfig={conf}",
    "--authorization-kubeconfig={conf}",
    "--bind-address=127.0.0.1",
    "--kubeconfig={conf}",
    "--leader-elect=true",
)

"""What kubeadm writes into /etc/kubernetes/manifests/kube-scheduler.yaml."""


def scheduler_conf(directory, server):
    """kubeadm's scheduler.conf: a client certificate for the user system:kube-scheduler."""
    pair = server.authority.client_certificate("system:kube-scheduler")
    encoded = [base64.b64encode(part).decode() for part in (server.authority.certificate_pem, *pair)]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes",
                      "cluster": {"certificate-authority-data": encoded[0], "server": server.url}}],
        "contexts": [{"name": "system:kube-scheduler@kubernetes",
                      "context": {"cluster": "kubernetes", "user": "system:kube-scheduler"}}],
        "current-context": "system:kube-scheduler@kubernetes",
        "preferences": {},
        "users": [{"name": "system:kube-scheduler",
                   "user": {"client-certificate-data": encoded[1], "client-key-data": encoded[2]}}],
    }  # fmt: skip
    path = directory / "scheduler.conf"
    path.write_text(yaml.safe_dump(document))
    return path


def as_the_kubelet():
    """Probes of scheme HTTPS verify nothing and show nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def test_the_static_pod_turns_ready_and_gives_nothing_else_to_strangers(tmp_path):
    store, port = Store(clock=lambda: datetime.now(UTC)), free_port()
    create_nodes(store, NodeTemplate(cpu="1"), 1)
    server = ApiServer(store, tmp_path / "cluster", users={})
    await server.start()
    try:
        flags = [flag.format(conf=scheduler_conf(tmp_path, server)) for flag in MANIFEST_FLAGS]
        process = await asyncio.create_subprocess_exec(
            BERTH, "run", *flags, f"--secure-port={port}", "--v=2",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said = asyncio.create_task(process.stdout.read())
        url = f"https://127.0.0.1:{port}"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=as_the_kubelet())) as kubelet:
            assert await turns_well(kubelet, url + "/livez", process, said)
            assert await turns_well(kubelet, url + "/readyz", process, said)
            async with kubelet.get(url + "/metrics") as answer:
                assert answer.status == 403
                assert 'User \\"system:anonymous\\" cannot get path \\"/metrics\\"' in await answer.text()
            bearer = {"Authorization": f"Bearer {server.token}"}
            async with kubelet.get(url + "/metrics", headers=bearer) as answer:
                assert answer.status == 200
            async with kubelet.get(url + "/metrics", headers={"Authorization": "Bearer nonsense"}) as answer:
                assert answer.status == 401
        process.terminate()
        assert await process.wait() == 0, (await said).decode()
        output = (await said).decode()
        assert "is ignored" not in output
        assert "Traceback" not in output
    finally:
        await server.stop()


async def turns_well(session, url, process, said):
    """Probe until it answers 200, as the kubelet does."""
    answers = []

    async def has_answered():
        try:
            async with session.get(url) as answer:
                answers.append((answer.status, await answer.text()))
        except aiohttp.ClientConnectionError as error:
            answers.append((0, str(error)))
        return answers[-1][0] == 200 or process.returncode is not None

    try:
        await until(has_answered)
    finally:
        if answers[-1][0] != 200 and process.returncode is None:
            process.kill()
    assert answers[-1][0] == 200, f"{answers[-1]}\n{(await said).decode()}"
    return True
