import unittest
from typing import Any, cast

from agentbus import encode_sse, parse_sse_chunk
from agentbus.events import AgentEvent, TextEvent

EVENT: TextEvent = {
    "event": "text",
    "id": "one-3",
    "requestId": "req_1",
    "timestamp": "2026-01-02T03:04:05Z",
    "blockId": "b0",
    "stage": "delta",
    "deltaIndex": 0,
    "delta": "line\nline\u2028é",
}


class TestSSE(unittest.TestCase):
    def test_an_encoded_event_is_parsed(self) -> None:
        text = encode_sse("text", EVENT)
        self.assertRegex(text, r"\Aid: one-3\nevent: text\ndata: \{[^\n]*\}\n\n\Z")
        self.assertEqual(parse_sse_chunk(text), ([("text", EVENT, "one-3")], "", None))

    def test_a_name_that_would_forge_a_line_is_refused(self) -> None:
        for name in ("te\nxt", "te\rxt", "te\0xt"):
            with self.subTest(name=name), self.assertRaises(ValueError):
                encode_sse(name, EVENT)

    def test_lines_with_any_end_in_chunks_of_any_size(self) -> None:
        unix = (": heartbeat\n\n" + encode_sse("text", EVENT) + 'retry: 250\n\nid\ndata:{"event":\ndata: "custom"}\n\n') * 2
        want = [("text", EVENT, "one-3"), ("message", {"event": "custom"}, "")] * 2
        for end in ("\n", "\r\n", "\r"):
            stream = unix.replace("\n", end)
            for size in range(1, len(stream) + 1):
                got: list[Any] = []
                remainder = ""
                for at in range(0, len(stream), size):
                    events, remainder, _ = parse_sse_chunk(remainder + stream[at : at + size])
                    got += events
                got += parse_sse_chunk(remainder + "\n").events  # a CR at the end may be the first half of CRLF
                self.assertEqual(got, want, f"chunks of {size} with {end!r}")
        self.assertEqual(parse_sse_chunk("retry: 250\n\n").retry, 0.25)

    def test_data_that_is_not_an_event_is_refused(self) -> None:
        for data in ("{", "null", '"text"', "{}", "1"):
            with self.subTest(data=data), self.assertRaises(ValueError):
                parse_sse_chunk(f"data: {data}\n\n")

    def test_an_event_that_is_not_complete_is_the_remainder(self) -> None:
        text = encode_sse("custom", cast(AgentEvent, {"event": "custom"}))
        result = parse_sse_chunk(text + text[:-1])
        self.assertEqual((len(result.events), result.remainder), (1, text[:-1]))
