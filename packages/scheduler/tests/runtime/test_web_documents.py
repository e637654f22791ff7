"""Documents from elsewhere are asked for again and again; what cannot be had leaves what is known in force.

Expectations are those of the contract in `berth.api.web`.
"""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from berth.api.codec import ObjectError
from berth.api.web import WebResource
from berth.kube.changes import Added, Modified
from berth.runtime.web_documents import WebDocuments
from tests.waiting import until


class Elsewhere:
    """A server that answers what it is told to, and what has been heard of it."""

    def __init__(self):
        self.answers = []
        self.changes, self.troubles = [], []
        self.turns = asyncio.Semaphore(0)
        self.sleeps = 0

    async def answer(self, _request):
        status, text = self.answers.pop(0)
        return web.Response(status=status, text=text)

    async def sleep(self, _seconds):
        self.sleeps += 1
        await self.turns.acquire()
        self.sleeps -= 1

    def is_asleep(self):
        """Whether the last answer has been taken in."""
        return self.sleeps == 1

    def heard(self):
        """The kinds of changes, and what each said."""
        return [(type(each.change).__name__, each.change.object["load"]) for each in self.changes]


@pytest.fixture
async def elsewhere():
    served = Elsewhere()
    app = web.Application()
    app.router.add_get("/watcher", served.answer)
    async with TestServer(app) as server:
        resource = WebResource("load", str(server.make_url("/watcher")))
        served.documents = WebDocuments([resource], served.changes.extend, served.troubles.append, served.sleep)
        yield served


async def lived(served, *answers):
    """Have these answers given one after the other, each in a turn of its own."""
    task = asyncio.create_task(served.documents.run())
    for number, answer in enumerate(answers):
        served.answers.append(answer)
        if number:
            served.turns.release()
        await until(lambda: not served.answers and served.is_asleep())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_has_changed_is_handed_on_and_nothing_else(elsewhere):
    await lived(elsewhere, (200, '{"load": 1}'), (200, '{"load": 1}'), (200, '{"load": 2}'))
    assert elsewhere.heard() == [(Added.__name__, 1), (Modified.__name__, 2)]
    assert [document.content["load"] for document in elsewhere.documents] == [2]


@pytest.mark.parametrize("answer", [(500, '{"load": 9}'), (200, "no JSON"), (200, "[1]")])
async def test_an_answer_that_cannot_be_used_is_told_once_and_changes_nothing(elsewhere, answer):
    await lived(elsewhere, (200, '{"load": 1}'), answer, answer, (200, '{"load": 3}'))
    assert elsewhere.heard() == [("Added", 1), ("Modified", 3)]
    told = [str(trouble) for trouble in elsewhere.troubles]
    assert told[0].startswith("load: http://127.0.0.1") and "asking again every 30 s" in told[0]
    assert len(told) == len(set(told))


async def test_the_start_waits_for_the_first_try_and_no_longer(elsewhere):
    waits = asyncio.create_task(elsewhere.documents.wait_until_asked())
    await asyncio.sleep(0)
    assert not waits.done()
    await lived(elsewhere, (404, ""))
    await waits
    assert elsewhere.heard() == []
    assert "code 404" in str(elsewhere.troubles[0])


def test_a_document_is_an_object():
    assert WebResource("load", "http://x").read(b'{"a": [1, {"b": 2}]}')["a"][1]["b"] == 2
    for wrong in (b"[]", b"", b"{"):
        with pytest.raises(ObjectError, match="load"):
            WebResource("load", "http://x").read(wrong)
