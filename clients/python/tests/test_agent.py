"""An agent behind agentbus.

AGENTBUS_URLS names gateways whose configuration has the agent of AGENTBUS_AGENT at AGENTBUS_AGENT_ADDRESS, with the key of
AGENTBUS_AGENT_KEY.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentbus import AgentClient, EventStream
from agentbus.agent import Agent, AgentError, Chunk, Turn, new_server
from agentbus.api import Started
from agentbus.events import AgentEvent, ContinuationEvent
from gateways import URLS

CLIENT = AgentClient(URLS[0])
NAME = os.environ.get("AGENTBUS_AGENT", "")
ADDRESS = os.environ.get("AGENTBUS_AGENT_ADDRESS", "127.0.0.1:9000")
KEY = os.environ.get("AGENTBUS_AGENT_KEY", "")


def run(prompt: str) -> EventStream:
    return CLIENT.stream(NAME, {"messages": [{"role": "user", "content": prompt}]}, include=["extended"])


def text(events: Iterable[AgentEvent]) -> str:
    """Returns the text of the finished answer."""
    blocks = [block for event in events if event["event"] == "done" for block in event["content"]]
    return "".join(block.get("text", "") for block in blocks if block["type"] == "text")


@unittest.skipUnless(NAME, "AGENTBUS_AGENT names the agent")
class TestBehindAgentbus(unittest.TestCase):
    server: ThreadingHTTPServer
    agent: Agent

    @classmethod
    def setUpClass(cls) -> None:
        host, _, port = ADDRESS.partition(":")
        cls.server = new_server(lambda turn: cls.agent(turn), int(port), host, signing_key=KEY)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.shutdown()
        cls.server.server_close()

    def serve(self, agent: Agent) -> None:
        type(self).agent = staticmethod(agent)

    def test_an_answer_is_streamed_with_everything_that_it_contains(self) -> None:
        def agent(turn: Turn) -> Iterator[str | Chunk]:
            yield {"type": "thinking", "delta": "hm"}
            yield "You said: "
            yield turn.text
            yield {"type": "custom", "name": "metric", "data": {"value": 42}}
            yield {"type": "end", "usage": {"inputTokens": 10, "outputTokens": 5}}

        self.serve(agent)
        events = list(run("hello"))
        self.assertEqual(text(events), "You said: hello")
        self.assertLessEqual({"thinking", "custom"}, {event["event"] for event in events})
        last = events[-1]
        assert last["event"] == "done"
        self.assertEqual((last["usage"]["inputTokens"], last["usage"]["outputTokens"]), (10, 5))

    def test_a_call_of_a_tool_is_run_by_agentbus(self) -> None:
        def agent(turn: Turn) -> Iterator[str | Chunk]:
            for result in turn.results:
                yield f"{result['ref']} {result['status']} {result['content']}"
            if not turn.results:
                yield {"type": "tool_call", "id": "c1", "name": "calculator", "args": {"expression": "6*7"}}

        self.serve(agent)
        self.assertEqual(text(run("calculate")), "c1 success 42")

    def test_an_approval_and_its_decision(self) -> None:
        def agent(turn: Turn) -> Iterator[str | Chunk]:
            for result in turn.results:
                yield f"{result['ref']} {result['status']}"
            if not turn.results:
                yield {"type": "approval", "id": "d1", "name": "deploy", "args": {"to": "production"}}

        self.serve(agent)
        cases: list[tuple[Callable[[ContinuationEvent], Started], str]] = [(CLIENT.approve, "d1 success"), (CLIENT.deny, "d1 denied")]
        for decide, want in cases:
            stream = run("deploy")
            list(stream)
            (action,) = stream.actions
            self.assertEqual((action["kind"], action["payload"]["args"]), ("approval", {"to": "production"}))
            self.assertEqual(text(CLIENT.follow(decide(action)["requestId"])), want)

    def test_a_question_and_its_answer_with_a_session(self) -> None:
        def agent(turn: Turn) -> Iterator[str | Chunk]:
            for result in turn.results:
                yield f"{turn.request['session']}: {result['content']}"
            if not turn.results:
                yield {"type": "session", "session": "session-1"}
                yield {"type": "question", "id": "q1", "question": "Which city?"}

        self.serve(agent)
        stream = run("ask")
        list(stream)
        started = CLIENT.answer(stream.actions[0], "Oslo")
        self.assertEqual(text(CLIENT.follow(started["requestId"])), "session-1: Oslo")

    def test_an_abort_ends_the_agent(self) -> None:
        ended = threading.Event()

        def agent(turn: Turn) -> Iterator[str | Chunk]:
            yield "begun"
            turn.aborted.wait()
            ended.set()

        self.serve(agent)
        for event in run("wait"):
            if event["event"] == "text" and event["stage"] == "delta":
                CLIENT.abort(event["requestId"])
        self.assertEqual(event["event"], "aborted")
        self.assertTrue(ended.wait(20))

    def test_an_error_ends_the_request(self) -> None:
        cases: list[tuple[Exception, str, bool]] = [
            (AgentError("no capacity", retryable=True), "no capacity", True),
            (ValueError("secret"), "internal error", False),
        ]
        for error, message, retryable in cases:
            with self.subTest(error=error):

                def agent(turn: Turn, error: Exception = error) -> Iterator[str | Chunk]:
                    yield "half"
                    raise error

                self.serve(agent)
                last = list(run("fail"))[-1]
                assert last["event"] == "error"
                self.assertRegex(last["message"], f"{message}$")
                self.assertEqual(last["retryable"], retryable)


class TestServer(unittest.TestCase):
    turn = json.dumps({"requestId": "req_1", "threadId": "thr_1", "agentId": "a", "attempt": 1, "known": 0, "messages": [], "tools": []})

    def post(self, agent: Agent, body: str, headers: dict[str, str] | None = None, **options: Any) -> tuple[int, str]:
        server = new_server(agent, 0, **options)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            connection = http.client.HTTPConnection(*server.server_address[:2])  # type: ignore[arg-type]
            connection.request("POST", "/", body, {"Agentbus-Agent-Version": "1", **(headers or {})})
            response = connection.getresponse()
            result = response.status, response.read().decode()
            connection.close()
            return result
        finally:
            server.shutdown()
            server.server_close()

    def test_requests_that_are_refused(self) -> None:
        key = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQ="
        wrong = {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
        cases: list[tuple[str, int, str, dict[str, str], str | None]] = [
            ("another version", 400, "{}", {"Agentbus-Agent-Version": "2"}, None),
            ("a body that is not JSON", 400, "{", {}, None),
            ("a body that is not a turn", 400, "null", {}, None),
            ("a part without a type", 400, '{"messages":[{"role":"user","content":[{}]}]}', {}, None),
            ("no signature", 401, self.turn, {}, key),
            ("another signature", 401, self.turn, wrong, key),
            ("an old signature", 401, self.turn, {**wrong, "webhook-timestamp": "1000000000"}, key),
        ]
        for name, status, body, headers, signing_key in cases:
            with self.subTest(name):
                got, answer = self.post(lambda turn: [], body, headers, signing_key=signing_key)
                self.assertEqual(got, status, answer)
                self.assertIn("message", json.loads(answer))

    def test_an_answer_without_an_end_gets_one(self) -> None:
        self.assertEqual(self.post(lambda turn: [], self.turn), (200, '{"type": "end"}\n'))
        end: Chunk = {"type": "end", "finishReason": "length"}
        self.assertEqual(self.post(lambda turn: [end, "more"], self.turn), (200, '{"type": "end", "finishReason": "length"}\n'))

    def test_a_silent_agent_sends_empty_lines(self) -> None:
        silence = threading.Event()

        def agent(turn: Turn) -> Iterator[str | Chunk]:
            silence.wait()
            yield "end"

        server = new_server(agent, 0, heartbeat=0.01)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(server.server_address[:2]) as connection:  # type: ignore[arg-type]
            head = f"POST / HTTP/1.1\r\nHost: a\r\nAgentbus-Agent-Version: 1\r\nContent-Length: {len(self.turn)}\r\n\r\n"
            connection.sendall((head + self.turn).encode())
            lines = connection.makefile("rb")
            while lines.readline() != b"\r\n":
                pass
            self.assertEqual(lines.readline(), b"\n")
            silence.set()
            rest = lines.read().decode()
        server.shutdown()
        server.server_close()
        self.assertEqual(rest.strip(), '{"type": "text", "delta": "end"}\n{"type": "end"}')


class TestReadme(unittest.TestCase):
    def test_the_example_of_the_readme_runs(self) -> None:
        readme = (Path(__file__).parent.parent / "README.md").read_text()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        example = readme.split("```python\n")[2].split("```")[0].replace("9000", str(port))
        with subprocess.Popen([sys.executable, "-c", example]) as process:
            try:
                self.assertEqual(json.loads(self.ask(port).split("\n")[0])["type"], "approval")
            finally:
                process.kill()

    def ask(self, port: int) -> str:
        deadline = time.monotonic() + 20
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            try:
                body = json.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": "deploy it"}]}]})
                connection.request("POST", "/", body, {"Agentbus-Agent-Version": "1"})
                return connection.getresponse().read().decode()
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(0.05)  # the example has not begun to listen
            finally:
                connection.close()
