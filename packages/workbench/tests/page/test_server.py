"""The page beyond loopback: over HTTPS, for those whom the cluster lets, with a certificate of its own."""

import ssl

import aiohttp
import pytest

from berth.runtime.serving.certificates import ServingCertificates
from berth.runtime.serving.options import TlsOptions
from berth_workbench.page.access import OwnToken, ReviewedTokens
from berth_workbench.page.server import PageAddressTaken, PageServer
from packages.workbench.tests.page.test_access import ApiServer
from packages.workbench.tests.sources.test_cluster_file import source  # noqa: F401 - a fixture


@pytest.fixture
async def served(source):  # noqa: F811
    certificates = ServingCertificates(TlsOptions(), "0.0.0.0")
    cluster = ApiServer({"a": "ada", "b": "bob"}, allowed={"ada"})
    page = PageServer(source, ReviewedTokens(cluster), host="0.0.0.0", tls=certificates.context())
    await page.start()
    trusted = ssl.create_default_context(cadata=certificates.certificate_pem.decode())
    url = page.address.replace("0.0.0.0", "127.0.0.1")
    async with aiohttp.ClientSession(
        url, connector=aiohttp.TCPConnector(ssl=trusted), cookie_jar=aiohttp.CookieJar(unsafe=True)
    ) as session:
        yield session
    await page.stop()


async def test_the_cluster_says_who_may_see_the_page(source, served):  # noqa: F811
    """One test, since NiceGUI starts once in a process."""
    port = served._base_url.port
    with pytest.raises(PageAddressTaken, match=f"cannot serve the page on 127.0.0.1:{port}: "):
        await PageServer(source, OwnToken(), port=port).start()
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer nobody"}, 401),
        ({"Authorization": "Bearer b"}, 403),
        ({"Authorization": "Bearer a"}, 200),
    ):
        for path in ("/", "/data/nodes", "/assets/page.css"):
            async with served.get(path, headers=headers) as answer:
                assert answer.status == status, (path, headers)
    form = {"token": "a"}
    async with served.post("/sign-in", data=form, headers={"Origin": str(served._base_url.origin())}) as answer:
        assert answer.status == 200 and "; Secure" in answer.headers["Set-Cookie"]
    async with served.get("/pods/default/nosuch") as answer:  # with the cookie
        assert answer.status == 404 and "Nothing is known of a pod default/nosuch" in await answer.text()
    async with served.get("/data/nodes") as answer:
        assert answer.status == 200 and "strict-transport-security" in answer.headers
        assert (await answer.json())["names"] == ["n0", "n1", "n2", "n3"]
    text = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}"
    for headers, body, status in (
        ({"Authorization": "Bearer a"}, text, 200),
        ({"Authorization": "Bearer a"}, "{}", 400),
        ({"Authorization": "Bearer a"}, "x" * 70_000, 413),
        ({"Authorization": "Bearer b"}, text, 403),
        ({"Authorization": "Bearer a", "Origin": "https://elsewhere.example"}, text, 403),
    ):
        async with served.post("/data/fit", data=body, headers=headers) as answer:
            assert answer.status == status
            assert status != 200 or (await answer.json())["fits"]


async def test_plain_http_is_for_loopback_only(source):  # noqa: F811
    with pytest.raises(ValueError, match="loopback only"):
        PageServer(source, OwnToken(), host="0.0.0.0")
