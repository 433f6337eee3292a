"""Server-sent events, as the HTML standard defines them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

from .events import AgentEvent


class ParsedEvent(NamedTuple):
    """An event of a stream: the name of its event line, the JSON of its data lines, and the id to resume after."""

    event: str
    data: AgentEvent
    id: str | None


class ParseResult(NamedTuple):
    """The complete events of a chunk, what follows the last one, and the wait in seconds that the chunk asks for."""

    events: list[ParsedEvent]
    remainder: str
    retry: float | None


def encode_sse(name: str, event: AgentEvent) -> str:
    """Encodes an event for a stream, with its id as the id to resume after.

    It raises ValueError if the name or the id contains a line break.
    """
    cursor = event.get("id")
    for field in (name, cursor or ""):
        if re.search(r"[\r\n\0]", field):
            raise ValueError(f"encode an event: {field!r} contains a line break or NUL")
    head = "" if cursor is None else f"id: {cursor}\n"
    return f"{head}event: {name}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


# A CR at the end of a chunk may be the first half of CRLF, so it ends no line yet.
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\n|\r(?!\Z))")


def parse_sse_chunk(chunk: str) -> ParseResult:
    """Parses a chunk that starts at the beginning of an event. Put the remainder in front of the next chunk.

    It raises ValueError if the data of a complete event is not an object in JSON.
    """
    events: list[ParsedEvent] = []
    retry: float | None = None
    block: list[str] = []
    end = 0  # of the last blank line
    for line in _LINE.finditer(chunk):
        if line[1]:
            block.append(line[1])
            continue
        end = line.end()
        event, wait = _interpret(block)
        block = []
        retry = retry if wait is None else wait
        if event is not None:
            events.append(event)
    return ParseResult(events, chunk[end:], retry)


def _interpret(lines: list[str]) -> tuple[ParsedEvent | None, float | None]:
    data: list[str] = []
    name, cursor, retry = "message", None, None
    for line in lines:
        field, _, value = line.removeprefix("\ufeff").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value or "message"
        elif field == "id" and "\0" not in value:
            cursor = value
        elif field == "retry" and re.fullmatch(r"[0-9]{1,10}", value):
            retry = int(value) / 1000
    if not data:
        return None, retry
    return ParsedEvent(name, _decode("\n".join(data)), cursor), retry


def _decode(text: str) -> AgentEvent:
    value: Any = json.loads(text)
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        raise ValueError(f'parse an event: {text[:80]} is not an object with the member "event"')
    return cast(AgentEvent, value)
