"""Delays that grow, and are forgotten."""

import random

from berth.api.errors import ApiError, ConnectionLost
from berth.kube.backoff import Backoff
from packages.scheduler.tests.kube.fakes import VirtualClock


def test_doubles_up_to_the_cap_with_jitter():
    backoff = Backoff(random.Random(7), clock=VirtualClock())
    for step_s in (0.8, 1.6, 3.2, 6.4, 12.8):
        assert step_s <= backoff.next_delay_s() <= min(2 * step_s, 30)
    assert 25.6 <= backoff.next_delay_s() <= 30
    assert [backoff.next_delay_s() for _ in range(5)] == [30.0] * 5


def test_starts_over_after_quiet_or_when_told():
    clock = VirtualClock()
    backoff = Backoff(random.Random(7), clock=clock)
    for _ in range(9):
        backoff.next_delay_s()
    clock.now_s = 121
    assert backoff.next_delay_s() <= 1.6
    backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= 1.6


def test_jitter_differs_between_clients():
    assert len({Backoff(random.Random(seed), clock=VirtualClock()).next_delay_s() for seed in range(20)}) == 20


def test_what_the_server_asks_for_goes_before_the_steps():
    backoff = Backoff(random.Random(7), clock=VirtualClock())
    assert backoff.delay_after_s(ApiError(429, "TooManyRequests", "slow down", retry_after_s=17.0)) == 17.0
    assert backoff.delay_after_s(ApiError(429, "TooManyRequests", "slow down", retry_after_s=7200.0)) == 60.0
    assert backoff.delay_after_s(ApiError(429, "TooManyRequests", "slow down")) <= 1.6
    assert 1.6 <= backoff.delay_after_s(ConnectionLost("down")) <= 3.2
