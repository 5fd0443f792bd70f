"""HTTP with the servers of models: one session per event loop, no redirects, and no more of an answer than is allowed.

All calls go through here, also those that litellm makes (see `Carrier`).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.request
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import aiohttp
import certifi
import httpx
from yarl import URL

from answerkey.metrics_core.llm.transport import NO_CONNECTION, CallError

MOST_BYTES = 4 * 2**20
"""Of one answer, as it comes and unpacked: a hundred times what a model says, and little beside the memory of a run."""

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_PROXIES = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "REQUEST_METHOD",
)  # fmt: skip
"""The variables that say which proxy is for a request."""
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_NOT_PASSED_ON = frozenset(("host", "content-length", "transfer-encoding", "accept-encoding", "connection"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, unpacked. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class _Session:
    session: aiohttp.ClientSession
    users: int = 0


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()


@asynccontextmanager
async def opened() -> AsyncIterator[aiohttp.ClientSession]:
    """The session of this event loop. It is closed, and its connections with it, when its last user leaves."""
    loop = asyncio.get_running_loop()
    shared = _sessions.get(loop)
    if shared is None:
        shared = _sessions[loop] = _Session(_new_session())
    shared.users += 1
    try:
        yield shared.session
    finally:
        shared.users -= 1
        if not shared.users:
            del _sessions[loop]
            await shared.session.close()


def _new_session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, ssl=_trusted())
    # Each call has a limit of its own.
    unlimited = aiohttp.ClientTimeout(total=None, sock_connect=None)
    return aiohttp.ClientSession(
        connector=connector, timeout=unlimited, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )


def _trusted() -> ssl.SSLContext | bool:
    """The certificates that litellm trusts: those that the environment names, or those of certifi."""
    verify = os.environ.get("SSL_VERIFY", "")
    if verify.strip().lower() == "false":
        return False
    files = verify, os.environ.get("SSL_CERT_FILE", ""), certifi.where()
    return ssl.create_default_context(cafile=next(file for file in files if os.path.isfile(file)))


async def exchange(
    method: str, url: str, headers: Mapping[str, str], body: bytes, most_bytes: int = MOST_BYTES
) -> Answer:
    """Send a request and read all of its answer, whatever its status.

    Raises:
        CallError: the connection broke, the server sends the request on to another address, or its answer is too long.
    """
    sent = {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED_ON}
    sent["Accept-Encoding"] = "gzip, deflate"
    try:
        async with (
            opened() as session,
            session.request(
                method, _address(url), data=body, headers=sent, allow_redirects=False, proxy=_proxy_of(url)
            ) as response,
        ):
            found = {name.lower(): value for name, value in response.headers.items()}
            if response.status in _REDIRECTS:
                raise _sent_on(url, found.get("location", ""))
            return Answer(response.status, found, await _read(response, found.get("content-encoding", ""), most_bytes))
    except (aiohttp.ClientError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        # Without a connection nothing was sent; after that, the server may have answered all the same.
        code = NO_CONNECTION if isinstance(error, aiohttp.ClientConnectorError) else "disconnected"
        raise CallError("trouble", code, f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=64)
def _address(url: str) -> URL:
    # A login in the address is in the headers already; aiohttp does not take both.
    return URL(url, encoded=True).with_user(None)


async def _read(response: aiohttp.ClientResponse, encoding: str, most_bytes: int) -> bytes:
    if (response.content_length or 0) > most_bytes:
        raise _too_long(most_bytes)
    unpacker = None if encoding.lower() in ("", "identity") else zlib.decompressobj(_GZIP_OR_ZLIB)
    pieces, size, came = [], 0, 0
    try:
        async for piece in response.content.iter_any():
            came += len(piece)
            data = piece
            if unpacker is not None:
                data = unpacker.decompress(piece, most_bytes + 1 - size)
            pieces.append(data)
            size += len(data)
            if max(size, came) > most_bytes:
                raise _too_long(most_bytes)
    except zlib.error as error:
        raise CallError("trouble", "disconnected", f"the server's answer cannot be unpacked ({encoding})") from error
    return b"".join(pieces)


def _too_long(most_bytes: int) -> CallError:
    return CallError("permanent", "too_large", f"the server's answer is longer than {most_bytes // 2**20} MiB")


def _sent_on(url: str, location: str) -> CallError:
    # A POST that is sent on becomes a GET, or shows the texts to a server that nobody named.
    try:
        target = URL(url).join(URL(location)).with_user(None).with_query(None).with_fragment(None)
        where = f"to {target}; name that address if you trust it"
    except ValueError:
        where = "to a malformed address"
    return CallError("fatal", "redirect", f"the server sends calls on {where}")


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), if any."""
    return _proxy(url.partition("?")[0], tuple(map(os.environ.get, _PROXIES)))


@lru_cache(maxsize=256)
def _proxy(url: str, _environment: tuple[str | None, ...]) -> str | None:
    # Reading the whole environment takes as long as all else about a request.
    proxies = urllib.request.getproxies()
    if not proxies:
        return None
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    proxy = proxies.get(scheme)
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


_SAID = (
    b'{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": '
    b'"stop", "message": {"role": "assistant", "content": "yes"}}], "usage": {"prompt_tokens": 1, "completion_tokens": '
    b'1, "total_tokens": 2}}'
)


_A_WORD = Answer(200, {"content-type": "application/json"}, _SAID)

_rehearsal: ContextVar[tuple[list[httpx.Request], Answer] | None] = ContextVar("rehearsal", default=None)


@contextmanager
def rehearsed(answer: Answer = _A_WORD) -> Iterator[list[httpx.Request]]:
    """What a `Carrier` is given in this context goes nowhere: it is kept, and answered with this."""
    requests: list[httpx.Request] = []
    token = _rehearsal.set((requests, answer))
    try:
        yield requests
    finally:
        _rehearsal.reset(token)


class Carrier(httpx.AsyncBaseTransport):
    """What litellm's own HTTP client is given to send its requests with."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        body = await request.aread()
        if (rehearsal := _rehearsal.get()) is not None:
            requests, given = rehearsal
            requests.append(request)
            return httpx.Response(given.status, headers=given.headers, content=given.body, request=request)
        answer = await exchange(request.method, str(request.url), request.headers, body)
        # Its length and packing were those of the bytes that came.
        headers = {name: value for name, value in answer.headers.items() if name not in _OF_THE_BYTES}
        return httpx.Response(answer.status, headers=headers, content=answer.body, request=request)


_OF_THE_BYTES = frozenset(("content-encoding", "content-length", "transfer-encoding"))
