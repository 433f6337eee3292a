"""HTTP calls of the gateway: headers, silence that counts as a cut connection, errors, and attempts that count as one."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from .errors import ApiError, ConnectionFailed, ProtocolError, is_temporary, read_error

START_ATTEMPTS = 3
"""How often a request is sent before the server has accepted it, so that an unreachable server is reported soon."""

_SHORTEST = 0.25  # about the first wait, in seconds
_LONGEST = 10.0  # that no server has asked for
_LONGEST_ASKED = 60.0
_CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True)
class Call:
    """One call of the gateway."""

    path: str
    method: str = "GET"
    query: Mapping[str, str | int | None] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None


class Backoff:
    """Waits longer after each failure in a row, at random, so that clients do not reconnect at the same time."""

    def __init__(self, closed: threading.Event | None = None) -> None:
        self.suggested = 0.0
        self._failures = 0
        self._closed = closed or threading.Event()

    def reset(self) -> None:
        self._failures = 0

    def pause(self, error: Exception, attempts: int) -> bool:
        """Waits before the next attempt. It returns False if there have been enough."""
        self._failures += 1
        if self._failures >= attempts:
            return False
        self._closed.wait(self._delay(error))
        return True

    def _delay(self, error: Exception) -> float:
        asked = isinstance(error, ApiError) and error.retry_after or self.suggested
        asked = min(asked, _LONGEST_ASKED)
        own = min(_SHORTEST * 2.0 ** (self._failures - 1), _LONGEST)
        return asked * random.uniform(1, 1.5) if asked > own else own * random.uniform(0.5, 1)


class Connection:
    """One connection, with one response."""

    response: HTTPResponse

    def __init__(self, connection: HTTPConnection, idle_timeout: float) -> None:
        self._connection = connection
        self._idle_timeout = idle_timeout
        self._socket: socket.socket | None = None

    def send(self, target: str, call: Call, headers: dict[str, str]) -> None:
        body = None if call.body is None else json.dumps(call.body).encode()
        self._connection.connect()
        self._socket = self._connection.sock
        self._socket.settimeout(self._idle_timeout)
        self._connection.request(call.method, target, body, headers)
        self.response = self._connection.getresponse()

    def interrupt(self) -> None:
        """Ends what another thread reads."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended

    def close(self) -> None:
        self._connection.close()


class Http:
    """Calls one gateway."""

    def __init__(self, url: str, api_key: str | None, headers: Mapping[str, str] | None, idle_timeout: float, attempts: int) -> None:
        self._url = urlsplit(url.rstrip("/"))
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError(f"address of the gateway {url!r}: write one such as http://127.0.0.1:8080")
        self.base = url.rstrip("/")
        self.attempts = attempts
        self._idle_timeout = idle_timeout
        self._headers = {"Accept": "application/json", **(headers or {})}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def connection(self) -> Connection:
        """Returns a connection that is not open yet. It fails when the server was silent for the idle timeout."""
        secure = self._url.scheme == "https"
        kind = HTTPSConnection if secure else HTTPConnection
        timeout = min(self._idle_timeout, _CONNECT_TIMEOUT)
        return Connection(kind(self._url.hostname or "", self._url.port, timeout=timeout), self._idle_timeout)

    def open(self, call: Call, connection: Connection) -> HTTPResponse:
        """Sends a call. An error status is an ApiError."""
        query = urlencode({name: value for name, value in call.query.items() if value not in (None, "")})
        target = self._url.path + call.path + (f"?{query}" if query else "")
        headers = {**self._headers, **call.headers}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        connection.send(target, call, headers)
        if connection.response.status >= 400:
            raise read_error(connection.response)
        return connection.response

    def json(self, call: Call) -> Any:
        """Returns the JSON of a response, None without a body. Temporary errors are retried."""
        backoff = Backoff()
        while True:
            try:
                return self._exchange(call)
            except (ApiError, ProtocolError, OSError, HTTPException) as error:
                if is_temporary(error) and backoff.pause(error, START_ATTEMPTS):
                    continue
                if isinstance(error, (ApiError, ProtocolError)):
                    raise
                raise ConnectionFailed(self.base, error) from error

    def _exchange(self, call: Call) -> Any:
        connection = self.connection()
        try:
            body = self.open(call, connection).read()
            return json.loads(body) if body else None
        except ValueError as error:
            raise ProtocolError(f"the response to {call.path} is not JSON; is {self.base} an agentbus gateway?") from error
        finally:
            connection.close()


def new_key() -> str:
    """Returns an idempotency key: a UUIDv7, whose time tells the server that it cannot be an old one."""
    bits = time.time_ns() // 1_000_000 << 80 | 7 << 76 | random.getrandbits(12) << 64 | 2 << 62 | random.getrandbits(62)
    return str(uuid.UUID(int=bits))
