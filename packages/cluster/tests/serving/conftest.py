"""A server on loopback and a client that trusts it."""

import base64
import ssl

import aiohttp
import pytest
import yaml

from berth_cluster.serving.server import ApiServer
from packages.cluster.tests.objects import make_store


class Client:
    """Sends requests with the kubeconfig's token; gives status and decoded body."""

    def __init__(self, session, url):
        self.session = session
        self.url = url

    async def send(self, method, path, body=None, **options):
        if body is not None and "data" not in options:
            options["json"] = body
        async with self.session.request(method, self.url + path, **options) as response:
            return response.status, await response.json(content_type=None)

    async def get(self, path, **options):
        return await self.send("GET", path, **options)

    async def post(self, path, body=None, **options):
        return await self.send("POST", path, body, **options)

    async def patch(self, path, body, kind="merge-patch+json", **options):
        headers = {"Content-Type": f"application/{kind}"}
        return await self.send("PATCH", path, body, headers=headers, **options)


@pytest.fixture
def store():
    return make_store()


@pytest.fixture
async def server(store, tmp_path):
    server = ApiServer(store, tmp_path / "cluster")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server):
    config = yaml.safe_load(server.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    connector = aiohttp.TCPConnector(ssl=context)
    headers = {"Authorization": f"Bearer {user['token']}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Client(session, cluster["server"])
