"""A scheduler at work, asked through its endpoints."""

import aiohttp
import msgspec
import pytest

from berth.decisions.fit_question import FitManifestError
from berth_workbench.sources.live import LiveSource
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.source import SourceError
from packages.workbench.tests.sources.test_model import COLUMNS
from tests.runtime.test_serving import at_work, is_settled
from tests.runtime.world import World
from tests.waiting import until


class Reply(msgspec.Struct):
    status: int
    body: bytes


def over(client):
    async def ask(path):
        status, text = await client.text(path)
        return Reply(status, text.encode())

    return ask


@pytest.fixture
def world():
    world = World(nodes=2, cpu="1")
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    return world


async def test_everything_is_told_by_a_scheduler_at_work(world):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        source = LiveSource("test", over(client))
        columns, pending = await source.nodes(), await source.pending()
        elsewhere = await source.pending("elsewhere")
        recent, sample = await source.recent(), await source.sample()
        configuration = await source.configuration()
        node, pods, nowhere = await source.node("node-0"), await source.pods(), await source.node("nowhere")
        story, unknown = await source.story("default", "web", all_nodes=True), await source.story("default", "no")
    assert columns.names == ["node-0", "node-1"] and sum(columns.pods) == 1
    assert (pods.names, pods.total, node.name, nowhere) == (["web"], 1, "node-0", None)
    assert len(node.pods) == columns.pods[0]
    assert [(group.pods, group.reason) for group in pending.groups] == [(1, "Insufficient cpu")]
    assert (elsewhere.pods, elsewhere.groups) == (0, ())
    assert {line.pod for line in recent} == {"default/web", "default/big"}
    assert sample.pending["unschedulable"] == 1 and sample.attempts["scheduled"] == 1
    assert configuration.load().config.profiles[0].scheduler_name == "default-scheduler"
    assert len(story.decision.best) == 2 and unknown is None


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            Reply(503, b"a cycle is under way; try again\n"),
            "answered 503 when asked for /debug/nodes: a cycle is under",
        ),
        (Reply(403, b'{"kind":"Status","message":"forbidden: no"}'), "forbidden: no"),
        (Reply(404, b""), "older than the page"),
        (Reply(200, b'{"names": 5}'), "cannot be read"),
        (Reply(200, b"[" * 100_000), "cannot be read"),
    ],
)
async def test_an_answer_that_is_none_is_told_in_words(reply, told):
    async def ask(path):
        return reply

    with pytest.raises(SourceError, match=told):
        await LiveSource("test", ask).nodes()


async def test_a_scheduler_that_cannot_be_reached_is_told_and_remembered_until_it_can():
    nodes = msgspec.json.encode(COLUMNS)
    answers = [
        aiohttp.ClientError("gone"),
        Reply(200, b'scheduler_pending_pods{queue="active"} 2\n'),
        Reply(200, nodes),
    ]

    async def ask(path):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    recorder = HistoryRecorder(LiveSource("test", ask, (aiohttp.ClientError,)))
    await recorder.take()
    assert recorder.problem == "gone" and len(recorder.history) == 0
    await recorder.take()
    assert recorder.problem == "" and recorder.history.samples[0].pending["active"] == 2
    assert len(recorder.levels) == 1


async def test_a_manifest_goes_to_the_scheduler(world):
    text = b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {requests: {cpu: %s}}}]}"
    async with at_work(world) as client:
        await until(lambda: is_settled(world))

        async def send(path, body):
            status, said = await client.post(path, body)
            return Reply(status, said.encode())

        source = LiveSource("test", over(client), send=send)
        assert (await source.fit(text % b"100m")).fits
        assert not (await source.fit(text % b"3")).fits
        with pytest.raises(FitManifestError) as told:
            await source.fit(text % b"lots")
        assert told.value.field == "spec.containers[0].resources.requests[cpu]"
        assert str(told.value).count("spec.containers") == 1
        with pytest.raises(SourceError, match="its own /fit"):
            await LiveSource("test", over(client)).fit(b"")
