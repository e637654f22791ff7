"""Files that are replaced while they are in use, at once or one after the other, and with what cannot be used."""

import logging

import pytest

from berth.kube.credentials.access import in_cluster_access, kubeconfig_access
from berth.kube.credentials.replaced_files import LOOK_AGAIN_S
from packages.scheduler.tests.kube.fakes import VirtualClock
from packages.scheduler.tests.kube.servers import Certificates

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "SERVER", certificate-authority: ca.crt}}]
users: [{name: u, user: {client-certificate: me.crt, client-key: me.key}}]
"""


def kubeconfig(directory, server="https://127.0.0.1:6443"):
    path = directory / "kubeconfig"
    path.write_text(KUBECONFIG.replace("SERVER", server))
    return path


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def signer(tmp_path):
    found = Certificates(tmp_path)
    found.issue("me")
    return found


@pytest.fixture
def access(tmp_path, signer, clock):
    return kubeconfig_access([kubeconfig(tmp_path)], clock=clock)


def files(directory):
    return (directory / "me.crt").read_bytes(), (directory / "me.key").read_bytes()


async def shown(access):
    credential = await access.credential()
    return credential.certificate_pem, credential.key_pem


async def test_a_new_certificate_is_shown_without_a_restart(access, clock, signer, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    old, context = files(tmp_path), access.tls_context(await access.credential())
    signer.issue("me")
    assert await shown(access) == old
    clock.now_s = LOOK_AGAIN_S
    assert await shown(access) == files(tmp_path) != old
    assert access.tls_context(await access.credential()) is not context
    assert "me.crt" in caplog.text and "in use from now on" in caplog.text


async def test_a_certificate_whose_key_is_still_the_old_one_waits_for_its_key(access, clock, signer, tmp_path, caplog):
    old = files(tmp_path)
    signer.issue("me")
    new = files(tmp_path)
    (tmp_path / "me.key").write_bytes(old[1])
    for now_s in (LOOK_AGAIN_S, 2 * LOOK_AGAIN_S):
        clock.now_s = now_s
        assert await shown(access) == old
    assert caplog.text.count("what was read before stays in use") == 1
    (tmp_path / "me.key").write_bytes(new[1])
    clock.now_s = 3 * LOOK_AGAIN_S
    assert await shown(access) == new


@pytest.mark.parametrize("broken", [b"", b"-----BEGIN CERTIFICATE-----\nAA", None])
async def test_what_cannot_be_used_or_read_changes_nothing(access, clock, tmp_path, broken, caplog):
    old = files(tmp_path)
    for name in ("me.crt", "ca.crt"):
        (tmp_path / name).unlink() if broken is None else (tmp_path / name).write_bytes(broken)
    clock.now_s = LOOK_AGAIN_S
    context = access.tls_context(await access.credential())
    assert await shown(access) == old
    assert context is access.tls_context(await access.credential())
    assert "me.crt" in caplog.text and "ca.crt" in caplog.text


async def test_a_refusal_has_the_files_read_at_once(access, signer, tmp_path):
    refused = await access.credential()
    assert not access.invalidate(refused)  # they hold what was refused
    signer.issue("me")
    assert access.invalidate(refused)
    assert await shown(access) == files(tmp_path)
    assert access.invalidate(refused)  # a late answer to the old certificate says nothing of the new


async def test_a_new_authority_is_trusted(access, clock, tmp_path):
    context = access.tls_context(await access.credential())
    Certificates(tmp_path)
    clock.now_s = LOOK_AGAIN_S
    settings = access.tls_settings(await access.credential())
    assert settings.ca_pem == (tmp_path / "ca.crt").read_bytes()
    assert access.tls_context(await access.credential()) is not context


async def test_a_server_that_is_not_trusted_has_the_authority_read_at_once(access, tmp_path):
    Certificates(tmp_path)
    access.distrusted()
    assert access.tls_settings(await access.credential()).ca_pem == (tmp_path / "ca.crt").read_bytes()


async def test_the_authority_of_a_pod_is_read_again_as_well(clock, signer, tmp_path):
    (tmp_path / "token").write_text("t")
    access = in_cluster_access({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, tmp_path, clock=clock)
    Certificates(tmp_path)
    clock.now_s = LOOK_AGAIN_S
    assert access.tls_settings(await access.credential()).ca_pem == (tmp_path / "ca.crt").read_bytes()
    assert access.may_change


async def test_what_stands_in_the_kubeconfig_itself_is_read_once(tmp_path, signer):
    """As client-go: it does not read the kubeconfig again."""
    import base64

    data = {name: base64.b64encode((tmp_path / name).read_bytes()).decode() for name in ("ca.crt", "me.crt", "me.key")}
    path = kubeconfig(tmp_path)
    text = path.read_text()
    for field in ("certificate-authority: ca.crt", "client-certificate: me.crt", "client-key: me.key"):
        key, _, name = field.partition(": ")
        text = text.replace(field, f"{key}-data: {data[name]}")
    path.write_text(text)
    access = kubeconfig_access([path])
    assert not access.may_change
    assert not access.invalidate(await access.credential())
