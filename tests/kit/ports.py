"""Ports for servers that must know theirs beforehand. Every other server binds to port 0, and says what it got."""

import random
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


def free_port() -> int:
    """One of `free_ports`."""
    [port] = free_ports(1)
    return port


def two_free_ports() -> int:
    """The first of two that follow each other: for `answerkey serve`, the server's, and that of the pages."""
    while True:
        port = free_port()
        with suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port


def free_ports(n: int) -> list[int]:
    """Free ports of 127.0.0.1, for servers that may be gone for a while and want the same ports again.

    They are none of those that the kernel gives to connections: a client that tries to reach a server which is gone
    would some time be given the server's own port, be connected with itself, and keep the port.
    """
    held: list[socket.socket] = []
    while len(held) < n:
        with suppress(OSError):
            held.append(socket.create_server(("127.0.0.1", random.SystemRandom().randrange(12_000, _first_port()))))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@cache
def _first_port() -> int:
    """The first port that the kernel may give to a connection."""
    linux = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return max(int(linux.read_text().split()[0]) if linux.exists() else 49_152, 20_000)
