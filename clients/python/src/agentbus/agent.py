"""Serves an agent to agentbus over HTTP, by the contract of the backend http, version 1 (schemas/agent).

Start at serve.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import selectors
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Chunk = dict[str, Any]
"""A piece of an answer, as schemas/agent/chunk.json describes it."""

_VERSION = "1"
_MAX_BODY = 64 << 20
_TOLERANCE = 300  # seconds between the clocks of the two sides


class AgentError(Exception):
    """An error whose message clients may read. The message of any other error is replaced."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


@dataclass(frozen=True)
class Turn:
    """What agentbus sends. request is the whole body, as schemas/agent/request.json describes it."""

    request: Mapping[str, Any]
    text: str
    """The text of the newest message of the user."""
    results: list[dict[str, Any]]
    """The results of the calls that the agent has made since then. ref is the id that the agent gave the call."""
    aborted: threading.Event = field(default_factory=threading.Event)
    """Is set when agentbus closes the connection, because the request was aborted or has exceeded its time."""


Agent = Callable[[Turn], Iterable[str | Chunk]]
"""An agent. A string is a piece of text; the answer ends with the iterable, unless it yields `end` or `error` before."""


def serve(agent: Agent, port: int, host: str = "127.0.0.1", *, signing_key: str | None = None, heartbeat: float = 15.0) -> None:
    """Serves an agent on every path of a port, each turn in its own thread, until the program ends.

    signing_key is the key that signs the requests (signingKeyEnv of the agent in agentbus); requests without a valid signature get
    401. An answer that is silent for heartbeat seconds gets an empty line, which shows that the agent works.
    """
    with new_server(agent, port, host, signing_key=signing_key, heartbeat=heartbeat) as server:
        server.serve_forever()


def new_server(
    agent: Agent, port: int, host: str = "127.0.0.1", *, signing_key: str | None = None, heartbeat: float = 15.0
) -> ThreadingHTTPServer:
    """Returns the server of serve, which listens on the port; 0 selects a free one."""
    key = None if signing_key is None else base64.b64decode(signing_key.removeprefix("whsec_"), validate=True)

    class Handler(_Handler):
        pass

    Handler.agent, Handler.key, Handler.heartbeat = staticmethod(agent), key, heartbeat
    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


class _Refused(Exception):
    """A request that gets a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One request. The end of the connection ends the answer."""

    agent: Agent
    key: bytes | None
    heartbeat: float
    timeout = 60  # of a read or a write, in seconds

    def do_POST(self) -> None:
        try:
            turn = self._turn()
        except _Refused as error:
            self._refuse(error.status, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        _Answer(self.connection, turn, self.heartbeat).write(self.agent)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: agentbus logs each turn."""

    def _turn(self) -> Turn:
        version = self.headers.get("Agentbus-Agent-Version")
        if version != _VERSION:
            raise _Refused(400, f"version {version} of the contract; this agent implements version {_VERSION}")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise _Refused(411, "the length of the turn is missing")
        if int(length) > _MAX_BODY:
            raise _Refused(413, "the turn is too large")
        body = self.rfile.read(int(length))
        if self.key is not None and not _is_signed(self.key, body, dict(self.headers.items())):
            raise _Refused(401, "the signature is missing or not valid")
        try:
            return _parse(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Refused(400, "the body is not a turn") from error

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Answer:
    """Writes the chunks of an agent, and watches the connection meanwhile."""

    def __init__(self, connection: socket.socket, turn: Turn, heartbeat: float) -> None:
        self._connection = connection
        self._turn = turn
        self._heartbeat = heartbeat
        self._lock = threading.Lock()  # of writes
        self._ended = threading.Event()

    def write(self, agent: Agent) -> None:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            self._write_chunks(agent)
        finally:
            self._ended.set()
            _shut_down(self._connection)  # which ends the watcher too
            watcher.join()

    def _write_chunks(self, agent: Agent) -> None:
        try:
            for item in agent(self._turn):
                chunk = {"type": "text", "delta": item} if isinstance(item, str) else item
                if not self._send(json.dumps(chunk).encode() + b"\n"):
                    return
                if chunk["type"] in ("end", "error"):
                    return
            chunk = {"type": "end"}
        except AgentError as error:
            chunk = {"type": "error", "message": str(error), "retryable": error.retryable}
        except Exception:
            if self._turn.aborted.is_set():
                return
            traceback.print_exc(file=sys.stderr)
            chunk = {"type": "error", "message": "internal error"}
        self._send(json.dumps(chunk).encode() + b"\n")

    def _send(self, line: bytes) -> bool:
        """Reports whether agentbus still reads."""
        with self._lock:
            try:
                self._connection.sendall(line)
            except OSError:
                self._turn.aborted.set()
        return not self._turn.aborted.is_set()

    def _watch(self) -> None:
        """Sends the heartbeat, and notices the end of the connection: agentbus sends nothing after the turn."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            while not self._ended.is_set():
                readable = selector.select(self._heartbeat)
                if self._ended.is_set():
                    return
                if readable or not self._send(b"\n"):
                    self._turn.aborted.set()
                    return


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # agentbus has closed it


def _parse(request: dict[str, Any]) -> Turn:
    messages: list[dict[str, Any]] = request["messages"]
    newest = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    said = messages[newest]["content"] if newest >= 0 else []
    text = "".join(part["text"] for part in said if part["type"] == "text")
    following = [part for message in messages[newest + 1 :] for part in message["content"]]
    return Turn(request, text, [part for part in following if part["type"] == "tool_result"])


def _is_signed(key: bytes, body: bytes, headers: Mapping[str, str]) -> bool:
    """Verifies the signature of Standard Webhooks."""
    given = {name.lower(): value for name, value in headers.items()}
    sent = given.get("webhook-timestamp", "")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > _TOLERANCE:
        return False
    content = f"{given.get('webhook-id', '')}.{sent}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256))
    return any(hmac.compare_digest(want, signature.encode()) for signature in given.get("webhook-signature", "").split())
