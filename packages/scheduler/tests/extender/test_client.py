"""Calls over HTTP: what is sent, what counts as a failure, time limits, TLS."""

import asyncio
import base64
import socket

import pytest
from aiohttp import web

from berth.config.errors import ConfigError
from berth.config.load import load_config
from berth.extender.client import ExtenderClient
from berth.framework.effects import CallExtender, ExtenderAnswer
from berth.kube.fence import Fence
from packages.scheduler.tests.extender.support import configured, listed
from packages.scheduler.tests.kube.fakes import VirtualClock
from packages.scheduler.tests.kube.servers import Certificates, serving
from tests.waiting import WAIT_S, for_ever

CALL = CallExtender(0, "filter", b'{"Pod":null}')


def client(url, **fields):
    return ExtenderClient(load_config(configured(listed(url, "filter", **fields)), "a test").extenders)


async def answer_of(url, **fields):
    found = client(url, **fields)
    try:
        return await found.call(CALL)
    finally:
        await found.close()


async def test_a_call_is_a_post_of_json_to_prefix_and_verb():
    seen = []

    async def handler(request):
        seen.append((request.method, request.path, request.headers["Content-Type"], await request.read()))
        return web.Response(text="{}")

    async with serving(handler) as url:
        assert await answer_of(f"{url}/api/") == ExtenderAnswer(b"{}")
        assert await answer_of(f"{url}/api") == ExtenderAnswer(b"{}")
    assert seen == [("POST", "/api/filter", "application/json", b'{"Pod":null}')] * 2


# HTTPExtender.send: anything but 200 is a failure


@pytest.mark.parametrize("status", [204, 302, 404, 500])
async def test_any_other_status_is_a_failure(status):
    async def handler(_request):
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with serving(handler) as url:
        answer = await answer_of(url)
    assert answer.error == f"failed filter with extender at URL {url}/filter, code {status}"


async def test_an_extender_that_is_not_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        answer = await answer_of(url)
    assert answer.error == f"failed filter with extender at URL {url}/filter: cannot connect: Connection refused"
    assert not answer.is_unknown


async def test_a_connection_that_breaks():
    async def handler(request):
        request.transport.abort()
        return web.Response()

    async with serving(handler) as url:
        answer = await answer_of(url)
    assert "failed filter with extender" in answer.error and answer.is_unknown


@pytest.mark.parametrize("where", ["head", "body"])
async def test_the_time_limit_counts_wherever_the_extender_hangs(where):
    release = asyncio.Event()

    async def handler(request):
        response = web.StreamResponse()
        if where == "body":
            await response.prepare(request)
            await response.write(b'{"Nodes"')
        await release.wait()
        return response

    async with serving(handler) as url:
        answer = await asyncio.wait_for(answer_of(url, httpTimeout="50ms"), WAIT_S)
        release.set()
    assert answer.error.endswith("no answer within 50ms (httpTimeout)") and answer.is_unknown


async def test_calls_of_different_extenders_run_at_the_same_time():
    both = asyncio.Barrier(2)

    async def handler(request):
        await both.wait()
        return web.Response(text=request.path)

    async with serving(handler) as url:
        entries = [listed(f"{url}/{name}", "filter") for name in "ab"]
        found = ExtenderClient(load_config(configured(*entries), "a test").extenders)
        answers = await found.call_all([CallExtender(1, "filter", b""), CallExtender(0, "filter", b"")])
        await found.close()
    assert [answer.body for answer in answers] == [b"/b/filter", b"/a/filter"]


async def test_the_environments_proxy_is_not_used_for_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def handler(_request):
        return web.Response(text="{}")

    async with serving(handler) as url:
        assert (await answer_of(url)).error == ""


# -- TLS: makeTransport in pkg/scheduler/extender.go --


async def ok(_request):
    return web.Response(text="{}")


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode()


async def test_a_ca_from_a_file_or_from_data_is_trusted(certificates):
    async with serving(ok, certificates.server_context()) as url:
        assert (await answer_of(url, enableHTTPS=True, tlsConfig={"caFile": str(certificates.ca)})).error == ""
        assert (await answer_of(url, tlsConfig={"caData": encoded(certificates.ca)})).error == ""


async def test_a_certificate_of_somebody_else_is_refused(certificates, tmp_path):
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    async with serving(ok, certificates.server_context()) as url:
        answer = await answer_of(url, enableHTTPS=True, tlsConfig={"caFile": str(other.ca)})
        without = await answer_of(url)
    assert "cannot connect: its certificate is not accepted" in answer.error
    assert "its certificate is not accepted" in without.error


@pytest.mark.parametrize("fields", [{"enableHTTPS": True}, {"tlsConfig": {"insecure": True}}])
async def test_https_without_a_ca_accepts_any_certificate_as_upstream(certificates, fields):
    async with serving(ok, certificates.server_context()) as url:
        assert (await answer_of(url, **fields)).error == ""


async def test_the_server_name_is_what_the_certificate_must_be_for(certificates):
    ca = {"caFile": str(certificates.ca)}
    async with serving(ok, certificates.server_context(hosts=("gpu.example.com",))) as url:
        assert (await answer_of(url, tlsConfig={**ca, "serverName": "gpu.example.com"})).error == ""
        assert "not accepted" in (await answer_of(url, tlsConfig=ca)).error


async def test_a_client_certificate_is_shown(certificates):
    certificate, key = certificates.issue("scheduler")
    files = {"certFile": str(certificate), "keyFile": str(key), "caFile": str(certificates.ca)}
    data = {"certData": encoded(certificate), "keyData": encoded(key), "caFile": str(certificates.ca)}
    async with serving(ok, certificates.server_context(ask_client=True)) as url:
        assert (await answer_of(url, tlsConfig=files)).error == ""
        assert (await answer_of(url, tlsConfig=data)).error == ""
        assert (await answer_of(url, tlsConfig={"caFile": str(certificates.ca)})).error != ""


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        (
            {"caFile": "/no/ca.crt"},
            'tlsConfig.caFile: Invalid value: "/no/ca.crt": cannot be read: No such file',
        ),
        ({"caData": base64.b64encode(b"no").decode()}, "tlsConfig.caFile: holds no certificate in PEM form"),
        ({"caData": "bm8=", "insecure": True}, "tlsConfig.insecure: Invalid value: true: a CA makes no sense"),
        ({"certData": "bm8="}, "tlsConfig.keyFile: Required value: a certificate and its key are given together"),
        ({"certData": "bm8=", "keyData": "bm8="}, "tlsConfig.certFile: certificate and key cannot be used together"),
    ],
)
def test_certificates_that_cannot_be_used_are_said_at_the_start(tls, message):
    with pytest.raises(ConfigError) as caught:
        client("https://127.0.0.1:1", tlsConfig=tls)
    assert f"extenders[0].{message}" in str(caught.value)


# The fence: a call to bind is a write


BIND = CallExtender(0, "bind", b"{}", writes_in="team")


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def fence(clock):
    return Fence("ns/lease", clock)


def fenced_client(url, fence):
    config = load_config(configured(listed(url, "filter", "bind")), "a test")
    return ExtenderClient(config.extenders, {"team": fence}.__getitem__)


@pytest.mark.parametrize(("is_held", "verbs"), [(True, ["filter", "bind"]), (False, ["filter"])])
async def test_only_who_holds_the_lease_has_pods_bound(fence, is_held, verbs):
    asked = []

    async def handler(request):
        asked.append(request.path.strip("/"))
        return web.Response(text="{}")

    if is_held:
        fence.extend(10.0)
    async with serving(handler) as url:
        found = fenced_client(url, fence)
        assert (await found.call(CALL)).body == b"{}"
        answer = await found.call(BIND)
        await found.close()
    assert asked == verbs and bool(answer.error) != is_held and not answer.is_unknown


async def test_a_binding_by_an_extender_is_cut_off_with_the_lease(fence):
    arrived = asyncio.Event()

    async def handler(_request):
        arrived.set()
        await for_ever()

    fence.extend(10.0)
    async with serving(handler) as url:
        found = fenced_client(url, fence)
        calling = asyncio.create_task(found.call(BIND))
        await asyncio.wait_for(arrived.wait(), WAIT_S)
        fence.shut("it was taken over")
        answer = await asyncio.wait_for(calling, WAIT_S)
        await found.close()
    assert answer.is_unknown and "cut off: the lease ns/lease is not held: it was taken over" in answer.error


async def test_the_fence_is_asked_when_the_call_goes_to_the_socket(clock, fence, monkeypatch):
    asked, connected = [], asyncio.Event()

    async def handler(request):
        asked.append(request.path)
        return web.Response(text="{}")

    fence.extend(10.0)
    async with serving(handler) as url:
        found = fenced_client(url, fence)
        session = found._session(0)
        connect = session.connector.connect

        async def slowly(*given, **named):
            made = await connect(*given, **named)
            clock.now_s = 40.0  # it stood still while it waited for its connection
            connected.set()
            return made

        monkeypatch.setattr(session.connector, "connect", slowly)
        calling = asyncio.create_task(found.call(BIND))
        await asyncio.wait_for(connected.wait(), WAIT_S)
        while not fence.refused:
            await asyncio.sleep(0)
        fence.shut("it was taken over")
        answer = await calling
        await found.close()
    assert asked == [] and not answer.is_unknown and "not sent" in answer.error


async def test_a_certificate_replaced_on_disk_is_shown_without_a_restart(certificates):
    certificate, key = certificates.issue("scheduler")
    files = {"certFile": str(certificate), "keyFile": str(key), "caFile": str(certificates.ca)}
    shown = []

    async def handler(request):
        shown.append(request.transport.get_extra_info("peercert")["serialNumber"])
        return web.Response(text="{}")

    async with serving(handler, certificates.server_context(ask_client=True)) as url:
        found = client(url, tlsConfig=files)
        assert (await found.call(CallExtender(0, "filter", b"{}"))).error == ""
        certificates.issue("scheduler")
        found._extenders[0][1]._source._files.look_now()  # as after a while
        assert (await found.call(CallExtender(0, "filter", b"{}"))).error == ""
        await found.close()
    assert len(set(shown)) == 2


async def test_an_authority_replaced_on_disk_is_trusted_once_the_old_one_was_refused(certificates, tmp_path):
    context = certificates.server_context()
    async with serving(ok, context) as url:
        found = client(url, tlsConfig={"caFile": str(certificates.ca)})
        context.load_cert_chain(*Certificates(tmp_path).issue("server"))  # which overwrites the authority's file
        assert "not accepted" in (await found.call(CallExtender(0, "filter", b"{}"))).error
        assert (await found.call(CallExtender(0, "filter", b"{}"))).error == ""
        await found.close()
