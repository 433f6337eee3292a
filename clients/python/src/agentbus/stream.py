"""A stream of events over as many connections as it takes."""

from __future__ import annotations

import asyncio
import codecs
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from urllib.parse import quote

from ._http import START_ATTEMPTS, Backoff, Call, Connection, Http
from .errors import ApiError, ConnectionFailed, ProtocolError, is_temporary
from .events import AgentEvent, ContinuationEvent
from .sse import ParsedEvent, ParseResult, parse_sse_chunk

_MAX_EVENT = 8 << 20  # characters that may wait for the end of an event
_TERMINAL = frozenset({"done", "error", "aborted"})


class EventStream:
    """The events of a request, up to its terminal event, or of a thread, until it is deleted.

    Each event is yielded once, in order; a cut connection is resumed. Iterate with `for` or with `async for`. If an iteration is
    left, a second one continues after the last event.
    """

    def __init__(
        self,
        http: Http,
        call: Call,
        *,
        resumable: bool,
        thread: bool = False,
        request_id: str | None = None,
        thread_id: str | None = None,
        after: str | None = None,
        include: Sequence[str] = (),
        on_reset: Callable[[], None] | None = None,
    ) -> None:
        self.request_id = request_id
        """The request, once the server has accepted it. Of a thread: the request of the last event."""
        self.thread_id = thread_id
        self.cursor = after
        """The position of the last event, to follow the stream after it later."""
        self.actions: list[ContinuationEvent] = []
        """The actions that the newest request of the stream waits for."""
        self._http = http
        self._call = replace(call, query={**call.query, "include": ",".join(include)})
        self._resumable = resumable  # the call resumes the stream; otherwise it starts a request
        self._thread = thread
        self._on_reset = on_reset
        self._last = after if after and _position(after) else None  # the cursor up to which events are not yielded again
        self._closed = threading.Event()
        self._backoff = Backoff(self._closed)
        self._connection: Connection | None = None
        self._connected = False  # a connection was established
        self._received = False  # an event has come
        self._progress = False  # since the last failure
        self._iterating = False
        self._ended = False

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream, also from another thread: its iteration stops. The request runs on; `abort` of the client ends it."""
        self._closed.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def __iter__(self) -> Generator[AgentEvent, None, None]:
        if self._iterating:
            raise RuntimeError("iterate a stream: another iteration of it has not ended; follow the request again")
        self._iterating = True
        try:
            while not self._ended and not self._closed.is_set():
                try:
                    yield from self._connect()
                except (ApiError, ProtocolError, OSError, HTTPException) as error:
                    self._recover(error)
        finally:
            self._iterating = False

    async def __aiter__(self) -> AsyncGenerator[AgentEvent, None]:
        loop = asyncio.get_running_loop()
        events = iter(self)
        thread = ThreadPoolExecutor(1, "agentbus-stream")
        try:
            while (event := await loop.run_in_executor(thread, _next, events)) is not None:
                yield event
        except asyncio.CancelledError:
            self.close()  # so that the thread ends
            raise
        finally:
            thread.shutdown()
            events.close()

    def _recover(self, error: Exception) -> None:
        """Waits before the next connection. It raises an error that another connection would not repair."""
        if self._closed.is_set():
            return
        if self._thread and self._connected and isinstance(error, ApiError) and error.code == "thread_not_found":
            self._ended = True  # the thread was deleted
            return
        if self._progress:
            self._backoff.reset()
        self._progress = False
        attempts = self._http.attempts if self._resumable else START_ATTEMPTS
        if is_temporary(error) and self._backoff.pause(error, attempts):
            return
        if isinstance(error, (ApiError, ProtocolError)):
            raise error
        raise ConnectionFailed(self._http.base, error, self.request_id, self.cursor) from error

    def _connect(self) -> Generator[AgentEvent, None, None]:
        """Yields the events of one connection. It raises an error if the connection ends before the terminal event."""
        self._connection = connection = self._http.connection()
        try:
            response = self._http.open(self._resumed(), connection)
            if self._accept(response) or self._closed.is_set():
                return
            yield from self._read(response)
        finally:
            connection.close()

    def _read(self, response: HTTPResponse) -> Generator[AgentEvent, None, None]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        remainder = ""
        while data := response.read1(65_536):
            chunk = self._parse(remainder + decoder.decode(data))
            for event in chunk.events:
                if not self._take(event):
                    continue
                yield event.data
                if self._ended or self._closed.is_set():
                    return
            remainder = chunk.remainder
            if len(remainder) > _MAX_EVENT:
                raise ProtocolError(f"an event of the stream is longer than {_MAX_EVENT} characters")
            if chunk.retry is not None:
                self._backoff.suggested = chunk.retry
        raise ConnectionError("the connection was cut before the end of the stream")

    def _resumed(self) -> Call:
        headers = {**self._call.headers, "Accept": "text/event-stream"}
        if self.cursor is not None:
            headers["Last-Event-ID"] = self.cursor
        return replace(self._call, headers=headers)

    def _accept(self, response: HTTPResponse) -> bool:
        """Reads the headers of a response. It reports whether the stream has no further event."""
        if response.status == 204:
            if self._received:
                raise ProtocolError("the server reports the end of the request, and has not sent its terminal event")
            self._ended = True
            return True
        if response.headers.get_content_type() != "text/event-stream":
            raise ProtocolError(f"the response is not a stream of events; is {self._http.base} an agentbus gateway?")
        self._connected = True
        if self._thread:
            self._progress = True  # a thread may be silent for longer than a connection lasts
            self.cursor = self.cursor or response.headers.get("X-Stream-Start")
        else:
            self.thread_id = self.thread_id or response.headers.get("X-Thread-Id")
            self._started(response.headers.get("X-Request-Id"))
        if "X-Stream-Reset" in response.headers:
            self._reset()
        return False

    def _started(self, request_id: str | None) -> None:
        if request_id is None or self._resumable:
            return
        self.request_id = request_id
        self._resumable = True
        self._call = Call(stream_path(request_id), query={"include": self._call.query["include"]})

    def _reset(self) -> None:
        if self._on_reset is None:
            raise ProtocolError(f"the server has no event {self.cursor} any more; follow from the start, or handle on_reset")
        self._last = None
        self.actions = []
        self._on_reset()

    def _parse(self, text: str) -> ParseResult:
        try:
            return parse_sse_chunk(text)
        except ValueError as error:
            raise ProtocolError(str(error)) from error

    def _take(self, parsed: ParsedEvent) -> bool:
        """Updates the state of the stream. It returns False for an event that was received before."""
        event = parsed.data
        cursor = parsed.id if self._thread else event.get("id", parsed.id)
        if cursor is None:
            raise ProtocolError(f"the event {event['event']} has no id")
        if self._last is not None and not _is_after(cursor, self._last):
            return False
        self.cursor = self._last = cursor
        self._received = self._progress = True
        self._started(event["requestId"])
        self.request_id = event["requestId"]
        if event["event"] == "metadata":
            self.thread_id = event["threadId"]
            self.actions = []
        elif event["event"] == "continuation":
            self.actions.append(event)
        elif event["event"] in _TERMINAL:
            if event.get("finishReason") != "action_required":
                self.actions = []
            self._ended = not self._thread
        return True


def _next(events: Generator[AgentEvent, None, None]) -> AgentEvent | None:
    return next(events, None)


def stream_path(request_id: str) -> str:
    """The path of a request's stream."""
    return f"/v1/requests/{quote(request_id, safe='')}/stream"


def _is_after(cursor: str, last: str) -> bool:
    """Compares the ids of events. Those of another incarnation are those of another log."""
    at, before = _position(cursor), _position(last)
    if at is None or before is None:
        raise ProtocolError(f"{cursor!r} is not the id of an event")
    return at[0] != before[0] or at > before


def _position(cursor: str) -> tuple[str, int, int] | None:
    """Reads <incarnation>-<n> or <incarnation>-<index>.<n>.

    It returns None for a cursor that is not the id of an event, such as the start of a thread's stream.
    """
    match = re.fullmatch(r"([a-z0-9]+)-(?:([0-9]+)\.)?([0-9]+)", cursor)
    return None if match is None else (match[1], int(match[2] or 0), int(match[3]))
