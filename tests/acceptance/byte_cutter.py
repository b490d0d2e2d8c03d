"""A proxy that passes an answer on byte by byte, each in a network packet of its own. Holds no test."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK = 65_536


@contextmanager
def byte_cutter(port: int) -> Iterator[int]:
    """The port of a proxy in front of the server at `port`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_serve, args=(listening, port), daemon=True).start()
        yield int(listening.getsockname()[1])


def _serve(listening: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return  # closed: the test is over
        threading.Thread(target=_connect, args=(client, port), daemon=True).start()


def _connect(client: socket.socket, port: int) -> None:
    """Both ways, until both are over."""
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pass_on, args=(server, client, 1), daemon=True)
        back.start()
        _pass_on(client, server, _CHUNK)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket, size: int) -> None:
    try:
        while received := source.recv(_CHUNK):
            for start in range(0, len(received), size):
                target.sendall(received[start : start + size])
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # either side has gone
