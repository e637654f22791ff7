"""TLS contexts: what is trusted, what is shown, and which piece is to blame."""

import ssl

import pytest

from berth.kube.credentials.tls import TlsError, TlsSettings, build_context
from packages.scheduler.tests.kube.servers import Certificates


def test_system_cas_by_default():
    context = build_context(TlsSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


def test_only_the_ca_given_is_trusted(tmp_path):
    context = build_context(TlsSettings(ca_pem=Certificates(tmp_path).ca.read_bytes()))
    assert [dict(pair[0] for pair in ca["subject"])["commonName"] for ca in context.get_ca_certs()] == ["test CA"]


def test_insecure_checks_nothing():
    context = build_context(TlsSettings(insecure_skip_verify=True))
    assert context.verify_mode is ssl.CERT_NONE and not context.check_hostname


def test_no_key_is_left_on_disk(tmp_path, monkeypatch):
    made = Certificates(tmp_path)
    certificate, key = (path.read_bytes() for path in made.issue("me"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    build_context(TlsSettings(certificate_pem=certificate, key_pem=key))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "piece"),
    [
        (TlsSettings(ca_pem=b"no certificate"), "certificate-authority"),
        (TlsSettings(ca_pem=b"\xff"), "certificate-authority"),
        (TlsSettings(certificate_pem=b"no", key_pem=b"no"), "client-certificate"),
    ],
)
def test_the_piece_to_blame(settings, piece):
    with pytest.raises(TlsError) as caught:
        build_context(settings)
    assert caught.value.piece == piece


def test_a_key_of_another_certificate(tmp_path):
    made = Certificates(tmp_path)
    certificate = made.issue("a")[0].read_bytes()
    key = made.issue("b")[1].read_bytes()
    with pytest.raises(TlsError, match="cannot be used together"):
        build_context(TlsSettings(certificate_pem=certificate, key_pem=key))
