"""What a server keeps in its directory: the same clients after a restart, and no second server meanwhile."""

import base64
import os
import socket
import ssl
import stat

import aiohttp
import pytest
import yaml

from berth_cluster.serving.certificates import ClusterAuthorityError
from berth_cluster.serving.directory_lock import DirectoryInUseError
from berth_cluster.serving.server import ApiServer
from packages.cluster.tests.objects import make_store


async def version(kubeconfig):
    """The status with which the server of a kubeconfig answers."""
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers) as session,
        session.get(cluster["server"] + "/version") as response,
    ):
        return response.status


async def test_a_kubeconfig_survives_a_restart(tmp_path):
    first = ApiServer(make_store(), tmp_path)
    await first.start()
    handed_out = yaml.safe_load(first.kubeconfig.read_text())
    await first.stop()
    second = ApiServer(make_store(), tmp_path)
    await second.start()
    try:
        assert second.url == handed_out["clusters"][0]["cluster"]["server"]
        assert await version(handed_out) == 200
    finally:
        await second.stop()


async def test_a_former_port_that_is_taken(tmp_path):
    first = ApiServer(make_store(), tmp_path)
    await first.start()
    await first.stop()
    port = int(first.url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        second = ApiServer(make_store(), tmp_path)
        await second.start()
        try:
            assert second.url != first.url
            assert await version(yaml.safe_load(second.kubeconfig.read_text())) == 200
        finally:
            await second.stop()


async def test_a_second_server_is_refused_and_changes_nothing(tmp_path):
    first = ApiServer(make_store(), tmp_path)
    await first.start()
    try:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        second = ApiServer(make_store(), tmp_path, token="another")
        with pytest.raises(DirectoryInUseError, match=f"in use: process {os.getpid()} runs a server there"):
            await second.start()
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        assert await version(yaml.safe_load(first.kubeconfig.read_text())) == 200
    finally:
        await first.stop()
    await second.start()
    await second.stop()


async def test_a_lock_whose_holder_was_killed_is_no_hindrance(tmp_path):
    (tmp_path / "lock").write_text("4194304\n")
    server = ApiServer(make_store(), tmp_path)
    await server.start()
    await server.stop()


async def test_keys_are_their_owners_alone(tmp_path):
    server = ApiServer(make_store(), tmp_path / "cluster")
    await server.start()
    await server.stop()
    for name in ("kubeconfig", "lock", "pki/ca.key"):
        assert stat.S_IMODE((tmp_path / "cluster" / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE((tmp_path / "cluster/pki").stat().st_mode) == 0o700
    assert {path.name for path in (tmp_path / "cluster").rglob("*")} == {
        "kubeconfig", "lock", "pki", "ca.crt", "ca.key",
    }  # fmt: skip


@pytest.mark.parametrize("broken", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [None, b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nxx\n"])
async def test_a_broken_ca_is_not_replaced_silently(tmp_path, broken, content):
    server = ApiServer(make_store(), tmp_path)
    await server.start()
    await server.stop()
    path = tmp_path / "pki" / broken
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ClusterAuthorityError, match="remove the directory"):
        await ApiServer(make_store(), tmp_path).start()


async def test_a_key_of_another_ca(tmp_path):
    for name in ("one", "other"):
        server = ApiServer(make_store(), tmp_path / name)
        await server.start()
        await server.stop()
    (tmp_path / "one/pki/ca.key").write_bytes((tmp_path / "other/pki/ca.key").read_bytes())
    with pytest.raises(ClusterAuthorityError, match=r"ca\.key is not the key of ca\.crt"):
        await ApiServer(make_store(), tmp_path / "one").start()


@pytest.mark.parametrize("text", ["", "[", "a: b", "users: []", "users: [{user: {token: 5}}]\nclusters: []"])
async def test_a_kubeconfig_of_somebody_else_is_replaced(tmp_path, text):
    (tmp_path / "kubeconfig").write_text(text)
    server = ApiServer(make_store(), tmp_path)
    await server.start()
    try:
        assert await version(yaml.safe_load(server.kubeconfig.read_text())) == 200
    finally:
        await server.stop()
