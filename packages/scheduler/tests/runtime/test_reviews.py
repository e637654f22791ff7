"""Questions to the API server: asked once, few at a time, remembered for a while, and never guessed."""

import asyncio

import pytest

from berth.api.errors import ApiError
from berth.runtime.serving import reviews
from berth.runtime.serving.reviews import BoundedCache, ReviewError, Reviews, TooManyReviews
from tests.waiting import settle


class Server:
    """Answers when it is told to, and knows how much was asked at once."""

    def __init__(self):
        self.asked, self.under_way, self.most, self.gate = 0, 0, 0, asyncio.Event()

    async def ask(self):
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        return "yes"


async def test_one_question_of_many_is_asked_once():
    server, asking = Server(), Reviews(lambda _answer: 10.0, clock=lambda: 0.0)
    answers = [asyncio.create_task(asking.answer(b"q", server.ask)) for _ in range(50)]
    await settle()
    answers[0].cancel()  # the caller that asked first goes away
    await settle()
    server.gate.set()
    assert await asyncio.gather(*answers[1:]) == ["yes"] * 49
    assert server.asked == 1


async def test_strangers_cannot_have_everything_asked_at_once():
    server, asking = Server(), Reviews(lambda _answer: 10.0, clock=lambda: 0.0)
    many = 10 * (reviews.MAX_UNDER_WAY + reviews.MAX_WAITING)
    tasks = [asyncio.create_task(asking.answer(b"%d" % number, server.ask)) for number in range(many)]
    await settle()
    server.gate.set()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert ended.count("yes") == reviews.MAX_UNDER_WAY + reviews.MAX_WAITING
    assert sum(isinstance(one, TooManyReviews) for one in ended) == many - ended.count("yes")
    assert server.most == reviews.MAX_UNDER_WAY
    assert await asking.answer(b"later", server.ask) == "yes"


async def test_a_failure_is_told_to_all_and_not_remembered():
    asking, answers = Reviews(lambda _answer: 10.0, clock=lambda: 0.0), [ApiError(500, "", "broken"), "yes"]

    async def ask():
        await asyncio.sleep(0)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ended = await asyncio.gather(*(asking.answer(b"q", ask) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(one, ReviewError) and "broken" in str(one) for one in ended)
    assert await asking.answer(b"q", ask) == "yes"


async def test_answers_count_for_their_time_and_no_longer():
    now, answers = [0.0], iter(["no", "yes", "never"])

    async def ask():
        return next(answers)

    asking = Reviews(lambda answer: 10.0 if answer == "yes" else 2.0, clock=lambda: now[0])
    for at, expected in ((0.0, "no"), (1.9, "no"), (2.0, "yes"), (11.9, "yes"), (12.0, "never")):
        now[0] = at
        assert await asking.answer(b"q", ask) == expected


def test_the_cache_is_bounded_and_keeps_what_is_asked_for():
    cache = BoundedCache(lambda: 0.0, max_kept=3)
    for number in range(1000):
        cache.put(b"%d" % number, number, 10.0)
        assert len(cache) <= 3
    assert cache.get(b"997") == 997
    cache.put(b"new", 1, 10.0)
    assert cache.get(b"998") is None
    assert cache.get(b"997") == 997
    cache.put(b"at once", 1, 0.0)
    assert cache.get(b"at once") is None


@pytest.mark.parametrize("limit_s", [0.01])
async def test_a_server_that_says_nothing_is_given_up(monkeypatch, limit_s):
    monkeypatch.setattr(reviews, "REVIEW_TIMEOUT_S", limit_s)
    server = Server()
    with pytest.raises(ReviewError, match="no answer within"):
        await Reviews(lambda _answer: 10.0).answer(b"q", server.ask)
    assert server.under_way == 0
