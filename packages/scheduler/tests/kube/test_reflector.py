"""List and watch through every fault: what the sink is told, where the watch resumes, what people read."""

import asyncio
import json
import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.changes import Added, Deleted, InvalidObject, Modified, Synced
from berth.kube.reflector import LINES_AT_ONCE, NEWS_WITHIN_S, SILENCE_S, Reflector
from packages.scheduler.tests.kube.fakes import HANG, ScriptedTransport, VirtualClock
from tests.waiting import WAIT_S, pass_time, settle, virtually

NODES = RESOURCES["Node"]


def node(name, version, cpu="4"):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "status": {"allocatable": {"cpu": cpu}},
    }


def page(version, *nodes, token=""):
    metadata = {"resourceVersion": str(version), "continue": token}
    return json.dumps({"kind": "NodeList", "metadata": metadata, "items": nodes}).encode()


def line(kind, found):
    return json.dumps({"type": kind, "object": found}).encode()


def bookmark(version):
    return line("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": str(version)}})


def status_line(code, reason, message):
    return line("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": message})


class Following:
    """A reflector at work on a scripted transport, and all that it told."""

    def __init__(self, lists, watches, **options):
        self.clock = VirtualClock()
        self.transport = ScriptedTransport(lists, watches)
        self.batches = []
        self.reports = []
        options.setdefault("sink", self.batches.append)
        options.setdefault("may_stream", False)
        self.reflector = Reflector(
            self.transport,
            NODES,
            report=lambda trouble: self.reports.append(str(trouble)),
            rng=random.Random(1),
            **{"clock": self.clock, "sleep": self.clock.sleep, **options},
        )

    @property
    def told(self):
        return [summary(change) for batch in self.batches for change in batch]

    @property
    def watched_from(self):
        return [call["resource_version"] for call in self.transport.watch_calls]


def summary(change):
    match change:
        case Synced():
            return "synced"
        case InvalidObject():
            return f"invalid {change.name}"
        case Added() | Modified() | Deleted():
            verb = type(change).__name__.lower()
            return f"{verb} {change.object.metadata.name}@{change.object.metadata.resource_version}"


@asynccontextmanager
async def following(lists, watches=(), **options):
    case = Following(lists, watches, **options)
    task = asyncio.create_task(case.reflector.run())
    await settle()
    try:
        yield case
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_lists_then_watches_from_the_list():
    watch = [line("ADDED", node("b", 11)), line("MODIFIED", node("a", 12)), line("DELETED", node("b", 13)), HANG]
    async with following([page(10, node("a", 3))], [watch], field_selector="metadata.name!=x") as case:
        assert case.told == ["added a@3", "synced", "added b@11", "modified a@12", "deleted b@11"]
        assert case.reflector.is_synced and case.reflector.resource_version == "13"
        call = case.transport.watch_calls[0]
        assert call["resource_version"] == "10" and call["field_selector"] == "metadata.name!=x"
        assert 300 <= call["timeout_s"] <= 600
        assert case.reports == []


async def test_what_is_at_hand_comes_as_one_batch():
    watch = [line("ADDED", node(str(number), number)) for number in range(11, 61)]
    async with following([page(10)], [[*watch, HANG]]) as case:
        assert [len(batch) for batch in case.batches] == [1, 50]


@pytest.mark.parametrize("streamed", [True, False])
async def test_others_on_the_loop_have_their_turn_however_much_is_at_hand(streamed):
    watch = [line("ADDED", node(str(number), number)) for number in range(11, 3011)]
    if streamed:
        end = {"metadata": {"resourceVersion": "4000", "annotations": {"k8s.io/initial-events-end": "true"}}}
        watch.append(line("BOOKMARK", end))
    turns, told_at = 0, []

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def sink(batch):
        told_at.extend([turns] * len(batch))

    other = asyncio.create_task(others())
    lists = [] if streamed else [page(10)]
    async with following(lists, [[*watch, HANG]], may_stream=streamed, sink=sink) as case:
        assert len(case.reflector.mirror.objects) == 3000
    other.cancel()
    assert max(Counter(told_at).values()) <= LINES_AT_ONCE + 1  # and that everything was listed


async def test_pages_are_followed_and_told_as_they_come():
    lists = [page(10, node("a", 1), token="next"), page(10, node("b", 2), token="last"), page(10, node("c", 3))]
    async with following(lists, page_size=1) as case:
        assert case.told == ["added a@1", "added b@2", "added c@3", "synced"]
        assert [(call["limit"], call["continue_token"]) for call in case.transport.list_calls] == [
            (1, ""), (1, "next"), (1, "last"),
        ]  # fmt: skip
        assert case.watched_from == ["10"]


async def test_an_expired_continue_token_takes_the_list_in_one():
    expired = ApiError(410, "Expired", "The provided continue parameter is too old")
    lists = [page(10, node("a", 1), node("gone", 2), token="next"), expired, page(20, node("a", 1), node("b", 15))]
    async with following(lists) as case:
        assert case.told == ["added a@1", "added gone@2", "added b@15", "deleted gone@2", "synced"]
        assert case.transport.list_calls[-1]["limit"] == 0
        assert case.watched_from == ["20"]


async def test_resumes_after_a_normal_end_where_the_bookmark_was():
    watches = [[line("ADDED", node("a", 11)), bookmark(30)], [line("ADDED", node("b", 31)), HANG]]
    async with following([page(10)], watches) as case:
        assert case.watched_from == ["10", "30"]
        assert case.told == ["synced", "added a@11", "added b@31"]
        assert case.reports == [] and len(case.transport.list_calls) == 1


@pytest.mark.parametrize(
    "gone",
    [
        ApiError(410, "Gone", "too old resource version: 10 (500)"),
        status_line(410, "Expired", "too old resource version: 10 (500)"),
    ],
    ids=["HTTP", "ERROR event"],
)
async def test_lists_again_when_history_is_gone(gone):
    lists = [
        page(10, node("a", 1), node("b", 2), node("c", 3)),
        page(500, node("a", 1), node("b", 400), node("d", 450)),
    ]
    async with following(lists, [[gone]]) as case:
        assert case.told[3:] == ["synced", "modified b@400", "added d@450", "deleted c@3"]
        assert case.watched_from == ["10", "500"]
        assert case.reports == []


@pytest.mark.parametrize(
    "ahead",
    [
        ApiError(504, "Timeout", "Too large resource version: 500, current: 20"),
        status_line(504, "Timeout", "Too large resource version: 500, current: 20"),
    ],
    ids=["HTTP", "ERROR event"],
)
async def test_a_server_restored_from_a_backup_is_listed_again_at_once(ahead):
    lists = [page(500, node("a", 1), node("b", 400)), page(20, node("a", 1), node("c", 19))]
    async with following(lists, [[ahead]]) as case:
        assert case.told[2:] == ["synced", "added c@19", "deleted b@400"]
        assert case.watched_from == ["500", "20"]
        assert "restored or replaced" in case.reports[0] and len(case.reports) == 1


async def test_history_gone_again_and_again_is_not_hammered():
    gone = ApiError(410, "Gone", "too old resource version")
    async with following([page(n) for n in range(10, 20)], [[gone]] * 9) as case:
        assert len(case.transport.list_calls) == 2
        await case.clock.advance(2)
        assert len(case.transport.list_calls) == 3


async def test_a_truncated_line_is_told_and_read_again():
    whole = line("ADDED", node("b", 12))
    watches = [[line("ADDED", node("a", 11)), whole[:40]], [whole, HANG]]
    async with following([page(10)], watches) as case:
        assert case.told == ["synced", "added a@11"]
        assert len(case.reports) == 1
        assert "nodes: a watch line is cut short or malformed" in case.reports[0]
        assert "trying again in" in case.reports[0] and "ADDED" in case.reports[0]
        await case.clock.advance(5)
        assert case.watched_from == ["10", "11"]
        assert case.told == ["synced", "added a@11", "added b@12"]


async def test_a_malformed_line_hides_nothing_that_follows_it():
    watches = [[b'{"type":"ADDED","object":{{', line("ADDED", node("b", 12))]]
    watches += [[line("ADDED", node("a", 11)), line("ADDED", node("b", 12)), HANG]]
    async with following([page(10)], watches) as case:
        assert case.told == ["synced"]
        await case.clock.advance(5)
        assert case.watched_from == ["10", "10"]
        assert case.told == ["synced", "added a@11", "added b@12"]


async def test_a_place_that_always_breaks_is_passed_by_listing():
    bad = [[b"nonsense"]] * 3
    async with following([page(10), page(50, node("a", 40))], bad) as case:
        await case.clock.advance(60)
        assert case.watched_from == ["10", "10", "10", "50"]
        assert case.told == ["synced", "added a@40"]
        assert "failed 3 times, so listing again" in case.reports[-1]


async def test_an_impossible_quantity_is_set_aside_and_the_rest_goes_on():
    watch = [line("MODIFIED", node("a", 11, cpu="many")), line("ADDED", node("c", 12)), HANG]
    async with following([page(10, node("a", 1), node("bad", 2, cpu="1Q"), node("b", 3))], [watch]) as case:
        assert case.told == ["added a@1", "invalid bad", "added b@3", "synced", "invalid a", "added c@12"]
        invalid = [change for batch in case.batches for change in batch if isinstance(change, InvalidObject)]
        assert "status.allocatable[cpu]" in invalid[0].problem
        assert invalid[1].old.metadata.resource_version == "1"
        assert case.reflector.resource_version == "12"


async def test_a_lost_connection_resumes_with_growing_delays():
    lost = ConnectionLost("watching nodes: connection refused", sent=False)
    async with following([page(10)], [[lost]] * 7) as case:
        await case.clock.advance(1000)
        assert case.watched_from == ["10"] * 8 and len(case.transport.list_calls) == 1
        delays = case.clock.slept
        assert 0.8 <= delays[0] <= 1.6 and 1.6 <= delays[1] <= 3.2 and 3.2 <= delays[2] <= 6.4
        assert max(delays) == 30.0
        assert len(case.reports) == 7


async def test_watches_that_break_before_they_bring_anything_are_replaced_by_lists():
    lost = ConnectionLost("watching nodes: the connection was reset")
    lists = [page(10 + number, *(node(str(index), 5) for index in range(number))) for number in range(30)]
    async with following(lists, [[lost]] * 30) as case:
        await case.clock.advance(60)
        assert case.watched_from[:4] == ["10", "10", "11", "12"]  # one that breaks may be chance, two are not
        assert case.told[:4] == ["synced", "added 0@5", "added 1@5", "added 2@5"]
        assert len(case.transport.list_calls) >= 60 / 5
        assert max(case.clock.slept) <= 5
        assert case.reflector.stale_s <= 5
        assert "watches do not work, so listing instead" in case.reports[-1]


async def test_what_takes_long_to_list_is_listed_rarely():
    lost = ConnectionLost("watching nodes: the connection was reset")
    async with following([page(10)] * 30, [[lost]] * 30) as case:
        answer = case.transport.list

        async def slow(resource, **options):
            await case.clock.sleep(2)
            return await answer(resource, **options)

        case.transport.list = slow
        await case.clock.advance(300)
        delays = [delay for delay in case.clock.slept if delay > 2]
        assert 15 < delays[-1] <= 20


async def test_a_watch_that_works_again_ends_the_listing():
    lost = ConnectionLost("watching nodes: the connection was reset")
    watches = [[lost], [lost], [bookmark(20), lost], [lost], [HANG]]
    async with following([page(10), page(11)], watches) as case:
        await case.clock.advance(60)
        assert case.watched_from == ["10", "10", "11", "20", "20"]
        assert len(case.transport.list_calls) == 2


async def test_a_server_that_is_away_for_long_is_not_listed_when_it_is_back():
    lost = ConnectionLost("watching nodes: connection refused", sent=False)
    async with following([page(10)], [[lost]] * 9 + [[line("ADDED", node("a", 11)), HANG]]) as case:
        await case.clock.advance(600)
        assert case.told == ["synced", "added a@11"] and len(case.transport.list_calls) == 1


async def test_a_list_that_fails_lets_the_watch_try_again():
    lost = ConnectionLost("reset")
    async with following([page(10), lost], [[lost], [lost], [line("ADDED", node("a", 11)), HANG]]) as case:
        await case.clock.advance(60)
        assert case.watched_from == ["10", "10", "10"] and case.told == ["synced", "added a@11"]


async def test_watches_that_are_refused_are_replaced_by_lists_in_time():
    refused = ApiError(500, "InternalError", "no watch here")
    async with following([page(10), page(11, node("a", 3))], [[refused]] * 5 + [[HANG]]) as case:
        await case.clock.advance(100)
        assert case.watched_from == ["10"] * 5 + ["11"] and case.told == ["synced", "added a@3"]


async def test_how_stale_it_is():
    async with following([page(10)], [[bookmark(20), HANG]]) as case:
        assert case.reflector.stale_s == 0
        await case.clock.advance(90)
        assert case.reflector.stale_s == 90
    async with following([ConnectionLost("down")]) as case:
        assert case.reflector.stale_s is None


async def test_a_watch_that_ends_as_agreed_shows_that_nothing_has_happened():
    async with following([page(10)], [[]]) as case:

        async def quiet(*_, **__):
            await case.clock.sleep(400)
            return
            yield

        case.transport.watch = quiet
        await case.clock.advance(450)
        assert len(case.transport.list_calls) == 1
        assert 45 < case.reflector.stale_s < 50


async def test_an_event_ends_the_trouble():
    lost = ConnectionLost("connection refused", sent=False)
    async with following([page(10)], [[lost], [lost], [line("ADDED", node("a", 11)), lost], [HANG]]) as case:
        await case.clock.advance(30)
        assert case.clock.slept[2] <= 1.6
        assert case.watched_from == ["10", "10", "10", "11"]


async def test_a_list_that_fails_is_tried_again():
    refused = ApiError(403, "Forbidden", 'nodes is forbidden: User "x" cannot list resource "nodes"')
    async with following([refused, ConnectionLost("down"), page(10, node("a", 1))]) as case:
        assert "RBAC" in case.reports[0] and "cannot list" in case.reports[0]
        assert "forbidden" in case.reflector.problem and not case.reflector.is_synced
        await case.clock.advance(10)
        assert case.told == ["added a@1", "synced"] and case.reflector.problem == ""


@pytest.mark.parametrize("body", [b"<html>", b'{"items":[]}', b'{"metadata":{"resourceVersion":"1"},"items":[[]]}'])
async def test_an_answer_that_is_no_list_is_told(body):
    async with following([body, page(10)]) as case:
        assert len(case.reports) == 1 and case.told == []
        await case.clock.advance(5)
        assert case.told == ["synced"]


async def test_a_retryable_error_event_resumes_and_another_lists():
    watches = [[status_line(500, "InternalError", "etcd is slow")], [status_line(400, "BadRequest", "what?")]]
    async with following([page(10), page(20)], watches) as case:
        await case.clock.advance(30)
        assert case.watched_from == ["10", "10", "20"]


async def test_a_watch_that_ends_at_once_is_not_hammered():
    async with following([page(10)], [[], []]) as case:
        assert len(case.transport.watch_calls) == 1 and "ended the watch at once" in case.reports[0]


async def test_an_unknown_event_type_is_told():
    async with following([page(10)], [[line("RENAMED", node("a", 11))]]) as case:
        assert "unknown type 'RENAMED'" in case.reports[0]


async def test_every_watch_is_closed():
    async with following([page(10)], [[b"bad"], [ConnectionLost("x")], [HANG]]) as case:
        await case.clock.advance(30)
    assert len(case.transport.watch_calls) == 3
    assert case.transport.closed_watches == 3


@pytest.mark.parametrize("fails_at", [Synced, Modified], ids=["in the list", "in the watch"])
async def test_a_bug_in_the_sink_surfaces(fails_at):
    def sink(batch):
        if any(isinstance(change, fails_at) for change in batch):
            raise ZeroDivisionError("a bug")

    case = Following([page(10, node("a", 1))], [[line("MODIFIED", node("a", 11)), HANG]], sink=sink)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        async with asyncio.timeout(WAIT_S):
            await case.reflector.run()


def end_of_stream(version):
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return line("BOOKMARK", {"kind": "Node", "metadata": metadata})


def added(*nodes):
    return [line("ADDED", node(name, version)) for name, version in nodes]


async def test_a_streaming_list_is_a_watch_that_begins_with_everything():
    stream = [
        line("ADDED", node("a", 7)),
        line("ADDED", node("b", 3)),
        end_of_stream(10),
        line("ADDED", node("c", 11)),
        HANG,
    ]
    async with following([], [stream], may_stream=True, field_selector="metadata.name!=x") as case:
        assert case.told == ["added a@7", "added b@3", "synced", "added c@11"]
        (call,) = case.transport.watch_calls
        assert call["send_initial_events"] and call["resource_version"] == ""
        assert call["field_selector"] == "metadata.name!=x"
        assert case.reflector.resource_version == "11" and case.reflector.lists == 1
        assert case.reports == [] and case.transport.list_calls == []


async def test_the_end_of_a_stream_says_what_is_gone():
    first = [
        line("ADDED", node("a", 1)),
        line("ADDED", node("b", 2)),
        end_of_stream(10),
        status_line(410, "Gone", "old"),
    ]
    second = [
        line("ADDED", node("b", 2)),
        line("ADDED", node("c", 5)),
        line("DELETED", node("c", 15)),
        end_of_stream(20),
        HANG,
    ]
    async with following([], [first, second], may_stream=True) as case:
        assert case.told == ["added a@1", "added b@2", "synced", "added c@5", "deleted c@5", "deleted a@1"]
        assert case.reflector.resource_version == "20" and case.transport.list_calls == []


@pytest.mark.parametrize(
    "trouble",
    [
        [ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is on")],
        [ApiError(500, "InternalError", "no")],
        [line("ADDED", node("a", 1)), ConnectionLost("reset")],
        [line("ADDED", node("a", 1))],
        [b'{"type":"ADDED","object":{{'],
    ],
    ids=["refused", "broken server", "reset", "ended", "malformed"],
)
async def test_a_stream_that_does_not_come_to_its_end_is_replaced_by_a_list_at_once(trouble):
    lists = [page(10, node("b", 2)), page(20, node("b", 2))]
    async with following(lists, [trouble, [status_line(410, "Gone", "old")]], may_stream=True) as case:
        assert (
            "synced" in case.told
            and "added b@2" in case.told
            and case.reports == []
            and set(case.reflector.mirror.objects) == {("", "b")}
        )
        await case.clock.advance(5)
        assert len(case.transport.list_calls) == 2, "streams are not tried again"


async def test_a_version_in_the_middle_of_a_stream_is_none_to_resume_from():
    stream = [line("ADDED", node("a", 9)), ConnectionLost("reset")]
    async with following([page(10, node("a", 9), node("b", 2))], [stream], may_stream=True) as case:
        assert case.watched_from == ["", "10"] and case.told == ["added a@9", "added b@2", "synced"]


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionLost("connection refused", sent=False),
        ApiError(403, "Forbidden", "you may not"),
        ApiError(429, "x", "y"),
    ],
    ids=["not reached", "403", "429"],
)
async def test_what_a_list_would_get_as_well_says_nothing_of_streams(trouble):
    async with following([], [[trouble], [end_of_stream(10), HANG]], may_stream=True) as case:
        assert case.told == [] and len(case.reports) == 1
        await case.clock.advance(5)
        assert case.told == ["synced"] and case.transport.list_calls == []


async def test_an_object_that_cannot_be_read_does_not_end_a_stream():
    stream = [line("ADDED", node("bad", 2, cpu="1Q")), line("ADDED", node("a", 7)), end_of_stream(10), HANG]
    async with following([], [stream], may_stream=True) as case:
        assert case.told == ["invalid bad", "added a@7", "synced"]


# -- silence -------------------------------------------------------------------------------------------------------


def listening(lists, watches=()):
    """The same in virtual time, in which a watch may say nothing for a while."""
    return following(lists, watches, clock=asyncio.get_running_loop().time, sleep=asyncio.sleep)


@virtually
async def test_a_silent_watch_is_opened_again_where_it_was():
    async with listening(
        [page(10)], [[line("ADDED", node("a", 11)), HANG], [line("ADDED", node("b", 12)), HANG]]
    ) as case:
        await pass_time(SILENCE_S - 1)
        assert case.watched_from == ["10"]
        await pass_time(2)
        assert case.watched_from == ["10", "11"] and case.told[1:] == ["added a@11", "added b@12"]
        assert case.transport.closed_watches == 1 and case.reports == [] and case.reflector.problem == ""
        await pass_time(10 * SILENCE_S)
        assert len(case.transport.list_calls) == 1, "silence alone is no reason to list"


@virtually
async def test_whatever_comes_breaks_the_silence():
    async with listening([page(10)], [[60.0, bookmark(20), 60.0, bookmark(30), 60.0, bookmark(40), HANG]]) as case:
        await pass_time(180 + SILENCE_S - 1)
        assert case.watched_from == ["10"]
        await pass_time(2)
        assert case.watched_from == ["10", "40"]


@virtually
async def test_where_there_must_be_news_a_silent_watch_is_opened_again_soon_and_then_replaced_by_a_list():
    async with listening([page(10), page(20, node("a", 15)), page(30)], [[HANG]]) as case:
        await pass_time(20)
        case.reflector.expect_news()
        await pass_time(NEWS_WITHIN_S - 1)
        assert case.watched_from == ["10"]
        await pass_time(1.5)
        assert case.watched_from == ["10", "10"] and case.reports == [
            "nodes: the watch says nothing of what was written 5 s ago; opening it again"
        ]
        await pass_time(2 * NEWS_WITHIN_S)
        assert case.told == ["synced", "added a@15"] and case.watched_from == ["10", "10", "20"]
        await pass_time(SILENCE_S - 1)
        assert len(case.watched_from) == 3, "the list has said all there was to say"
        case.reflector.expect_news()
        await pass_time(3 * NEWS_WITHIN_S)
        assert len(case.transport.list_calls) == 2, "where watches never say anything, lists are made ever more rarely"


@virtually
async def test_news_that_come_are_waited_for_no_longer():
    watch = [30.0, *(line("MODIFIED", node("a", number)) for number in range(11, 14)), HANG]
    async with listening([page(10, node("a", 1))], [watch]) as case:
        await pass_time(30 - NEWS_WITHIN_S / 2)
        for _ in range(100):
            case.reflector.expect_news()
        await pass_time(NEWS_WITHIN_S * 3)
        assert case.watched_from == ["10"] and case.reports == []
        case.reflector.expect_news()
        await pass_time(NEWS_WITHIN_S + 1)
        assert case.watched_from == ["10", "13"], "and then anew"


@virtually
async def test_news_that_are_expected_before_a_watch_is_open_are_looked_for_when_it_is():
    async with listening([page(10)], [[ConnectionLost("down", sent=False)], [HANG]]) as case:
        case.reflector.expect_news()
        await pass_time(2 * NEWS_WITHIN_S)
        assert case.watched_from == ["10", "10", "10"]


@virtually
async def test_a_stream_that_has_come_to_its_end_is_listened_to_as_any_watch():
    stream = [*added(("a", 5)), end_of_stream(10), HANG]
    case = Following([], [stream], may_stream=True, clock=asyncio.get_running_loop().time, sleep=asyncio.sleep)
    task = asyncio.create_task(case.reflector.run())
    await pass_time(SILENCE_S + 1)
    assert case.told == ["added a@5", "synced"] and case.watched_from == ["", "10"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
