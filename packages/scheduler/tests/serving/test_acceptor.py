"""Accepting: connections reach their protocol, and a handshake that does not happen leaves no socket behind."""

import asyncio
import socket
import ssl

import pytest

from berth.serving.acceptor import Acceptor, listening_at
from berth.serving.key_pairs import write_private


class Held:
    """An acceptor on loopback whose connections are begun with or without TLS."""

    def __init__(self, tls=None):
        self.accepted, self.connected, self.failures = [], [], []
        self.tls = tls
        self.acceptor = Acceptor(self.take, self.failures.append)
        self.port = self.acceptor.accept_at(listening_at("127.0.0.1", 0))

    def take(self, accepted, peer):
        self.accepted.append((accepted, peer))
        self.acceptor.begin(accepted, self.protocol, self.tls, self.failures.append, handshake_s=0.05)

    def protocol(self):
        self.connected.append(asyncio.Protocol())
        return self.connected[-1]


async def test_a_connection_reaches_its_protocol_and_stays_when_no_more_are_accepted():
    held = Held()
    reader, writer = await asyncio.open_connection("127.0.0.1", held.port)
    while not held.connected:
        await asyncio.sleep(0)
    await held.acceptor.close()
    assert (len(held.connected), held.failures, held.accepted[0][1]) == (1, [], "127.0.0.1")
    assert not reader.at_eof()
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", held.port)


async def test_who_does_not_shake_hands_is_told_of_and_closed():
    held = Held(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    reader, writer = await asyncio.open_connection("127.0.0.1", held.port)
    assert await reader.read() == b""
    assert len(held.failures) == 1 and isinstance(held.failures[0], OSError)
    assert held.accepted[0][0].fileno() == -1
    writer.close()
    await held.acceptor.close()


async def test_a_connection_that_is_dropped_before_its_first_step_is_closed():
    held = Held()
    held.take = lambda accepted, peer: held.accepted.append(accepted)
    ours, theirs = socket.socketpair()
    held.acceptor.begin(ours, held.protocol, None, held.failures.append, handshake_s=1.0).cancel()
    await held.acceptor.close()
    assert (held.failures, held.connected, ours.fileno()) == ([None], [], -1)
    theirs.close()


def test_an_address_that_is_taken_is_told_in_the_systems_words():
    with listening_at("127.0.0.1", 0) as first, pytest.raises(OSError) as told:
        listening_at("127.0.0.1", first.getsockname()[1])
    assert told.value.strerror == "Address already in use"


def test_a_private_file_is_its_owners_alone(tmp_path):
    write_private(tmp_path / "key", b"k")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
