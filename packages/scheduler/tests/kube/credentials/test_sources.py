"""Token files as they are replaced, and TLS contexts as certificates change."""

import pytest

from berth.kube.credentials.sources import ClusterAccess, Credential, CredentialError, StaticCredential, TokenFile
from berth.kube.credentials.tls import TlsSettings
from packages.scheduler.tests.kube.fakes import VirtualClock
from packages.scheduler.tests.kube.servers import Certificates


class TestTokenFile:
    async def test_is_read_again_after_a_minute(self, tmp_path):
        clock = VirtualClock()
        path = tmp_path / "token"
        path.write_text("one\n")
        source = TokenFile(path, clock=clock)
        assert (await source.current()).token == "one"
        path.write_text("two")
        clock.now_s = 59
        assert (await source.current()).token == "one"
        clock.now_s = 61
        assert (await source.current()).token == "two"

    async def test_a_refusal_reads_it_at_once(self, tmp_path):
        clock = VirtualClock()
        path = tmp_path / "token"
        path.write_text("one")
        source = TokenFile(path, clock=clock)
        one = await source.current()
        path.write_text("two")
        assert not source.invalidate(one)  # it was read this very moment
        clock.now_s = 5
        assert (await source.current()).token == "two"
        assert source.invalidate(one)  # a late answer to the old token says nothing of the new

    async def test_the_old_token_serves_while_the_file_is_away(self, tmp_path):
        clock = VirtualClock()
        path = tmp_path / "token"
        path.write_text("one")
        source = TokenFile(path, clock=clock)
        await source.current()
        path.unlink()
        clock.now_s = 100
        assert (await source.current()).token == "one"
        path.write_text("two")
        assert (await source.current()).token == "two"

    @pytest.mark.parametrize("content", [None, "", "\n"])
    async def test_no_token_at_all(self, tmp_path, content):
        if content is not None:
            (tmp_path / "token").write_text(content)
        with pytest.raises(CredentialError, match=r"cannot read the bearer token in .*token: "):
            await TokenFile(tmp_path / "token").current()


async def test_a_static_credential_is_not_worth_asking_again():
    source = StaticCredential(Credential(token="t"))
    assert not source.invalidate(await source.current()) and (await source.current()).token == "t"


class TestContexts:
    def test_one_context_until_the_certificate_changes(self, tmp_path):
        made = Certificates(tmp_path)
        access = ClusterAccess("https://x", tls=TlsSettings(ca_pem=made.ca.read_bytes()))
        plain = access.tls_context(Credential(token="a"))
        assert access.tls_context(Credential(token="b")) is plain
        certificate, key = (path.read_bytes() for path in made.issue("me"))
        mine = access.tls_context(Credential(certificate_pem=certificate, key_pem=key))
        assert mine is not plain
        assert access.tls_context(Credential(certificate_pem=certificate, key_pem=key)) is mine

    def test_none_for_plain_http(self):
        assert ClusterAccess("http://x").tls_context(Credential()) is None

    def test_a_plugin_s_broken_certificate(self):
        access = ClusterAccess("https://x", description="context 'c' of f")
        with pytest.raises(CredentialError, match="context 'c' of f: client-certificate: "):
            access.tls_context(Credential(certificate_pem=b"x", key_pem=b"y"))


@pytest.mark.parametrize(
    ("server", "proxy", "is_clear"),
    [
        ("https://api.example", "", False),
        ("https://api.example", "http://proxy:3128", False),
        ("http://127.0.0.1:8001", "", False),
        ("http://localhost:8001", "", False),
        ("http://[::1]:8001", "", False),
        ("http://api.example:8080", "", True),
        ("http://127.0.0.1.example", "", True),
        ("http://127.0.0.1:8001", "http://proxy:3128", True),
    ],
)
async def test_no_token_goes_where_others_can_read_it(server, proxy, is_clear):
    access = ClusterAccess(server, proxy=proxy, source=StaticCredential(Credential(token="t")))
    assert access.is_clear is is_clear
    if is_clear:
        with pytest.raises(CredentialError, match="in clear"):
            await access.credential()
    else:
        assert (await access.credential()).token == "t"
    assert await ClusterAccess(server, proxy=proxy).credential() == Credential()
