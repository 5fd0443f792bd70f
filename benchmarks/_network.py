"""A slow network that loses packets, for processes of this machine: network namespaces whose only way out is delayed.

For Linux, as root, with `ip` and `iptables`. A namespace has one interface, a TUN device; a process reads the packets
of all of them, loses some at random, keeps the others for a while, and writes them to where they go. This machine is in
the network as well: what listens on its 127.0.0.1 is reached from a namespace under the same address.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import shlex
import signal
import struct
import subprocess
import time
from collections import deque
from collections.abc import Sequence

_NET = "10.77.0"
_RULES = (
    "PREROUTING -i akhere -p tcp -j DNAT --to-destination 127.0.0.1",
    # Servers that let in nobody but this machine.
    f"INPUT -s {_NET}.0/24 -d 127.0.0.1 -p tcp -j SNAT --to-source 127.0.0.1",
)
_HERE = f"{_NET}.1"
_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001


def _run(command: str) -> None:
    subprocess.run(shlex.split(command), check=True)


def _tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN_WITHOUT_HEADER))
    return device


def _forward(devices: dict[bytes, int], delay_s: float, loss: float) -> None:
    """Pass packets between devices, by their addresses, for ever. All wait equally long, so that they stay in order."""
    waiting: deque[tuple[float, int, bytes]] = deque()
    chance = random.Random(1).random
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select(devices.values(), (), (), pause)
        for device in readable:
            packet = os.read(device, 65_536)
            to = devices.get(packet[16:20])
            if to is not None and chance() >= loss:
                waiting.append((time.monotonic() + delay_s, to, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, packet = waiting.popleft()
            try:
                os.write(to, packet)
            except BlockingIOError:
                # Its queue is full: a router would lose it too.
                continue


class Network:
    """`n` namespaces, from each of which a packet takes `delay_s` seconds and is lost with a probability of `loss`.

    `ports` are those of this machine's 127.0.0.1 that processes in the namespaces can reach.
    """

    def __init__(self, n: int, ports: Sequence[int], delay_s: float, loss: float) -> None:
        self.addresses = [f"{_NET}.{number + 10}" for number in range(n)]
        devices = {_packed(_HERE): _tun("akhere")}
        _run(f"ip addr add {_HERE}/24 dev akhere")
        _run("ip link set akhere up")
        _run("sysctl -qw net.ipv4.conf.akhere.route_localnet=1")
        for rule in _RULES:
            _run(f"iptables -t nat -A {rule}")
        for number, address in enumerate(self.addresses):
            name = f"ak{number}"
            devices[_packed(address)] = _tun(name)
            _run(f"ip netns add {name}")
            _run(f"ip link set {name} netns {name}")
            for inside in (
                "ip link set lo up",
                f"ip addr add {address}/24 dev {name}",
                f"ip link set {name} up",
                "sysctl -qw net.ipv4.conf.all.route_localnet=1",
                *(
                    f"iptables -t nat -A OUTPUT -d 127.0.0.1 -p tcp --dport {port} -j DNAT --to-destination {_HERE}"
                    for port in ports
                ),
                f"iptables -t nat -A POSTROUTING -o {name} -s 127.0.0.1 -j SNAT --to-source {address}",
            ):
                _run(f"ip netns exec {name} {inside}")
        self.pid = os.fork()
        if not self.pid:
            try:
                _forward(devices, delay_s, loss)
            finally:
                os._exit(1)
        for device in devices.values():
            os.close(device)

    def within(self, number: int, command: Sequence[str]) -> Sequence[str]:
        """The command in a namespace."""
        return ["ip", "netns", "exec", f"ak{number}", *command]

    def close(self) -> None:
        """End it. Its devices end with the process that forwards."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for rule in _RULES:
            _run(f"iptables -t nat -D {rule}")
        for number in range(len(self.addresses)):
            _run(f"ip netns del ak{number}")


def _packed(address: str) -> bytes:
    return bytes(map(int, address.split(".")))
