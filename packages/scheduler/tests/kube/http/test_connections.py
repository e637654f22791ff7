"""The sockets of a transport."""

import socket

from berth.kube.http.connections import _socket


def test_sockets_send_at_once_and_notice_a_dead_peer():
    made = _socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0)))
    try:
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    finally:
        made.close()
