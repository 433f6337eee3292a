"""The client on real gateways, also over connections that are cut and through several gateways."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from agentbus import AgentClient, ApiError, ConnectionFailed, ProtocolError
from agentbus.events import AgentEvent, AgentRequest, ContinuationEvent, Decision
from gateways import URLS, CuttingProxy

CLIENT = AgentClient(URLS[0])
OTHER = AgentClient(URLS[-1])  # another gateway where there are several


def prompt(*lines: str) -> AgentRequest:
    return {"messages": [{"role": "user", "content": "\n".join(lines)}]}


def on_thread(thread_id: str, *lines: str) -> AgentRequest:
    request = prompt(*lines)
    request["threadId"] = thread_id
    return request


def text(events: Iterable[AgentEvent]) -> str:
    """Returns what the deltas of an answer say."""
    return "".join(event.get("delta", "") for event in events if event["event"] == "text")


class Case(unittest.TestCase):
    def assert_unique(self, events: list[AgentEvent]) -> None:
        ids = [(event["requestId"], event["id"]) for event in events]
        self.assertEqual(len(ids), len(set(ids)), "events that came twice")

    def assert_error(self, code: str, call: Any, *args: Any) -> ApiError:
        with self.assertRaises(ApiError) as raised:
            call(*args)
        self.assertEqual(raised.exception.code, code)
        return raised.exception


class TestStreams(Case):
    def test_a_stream_is_complete_over_cut_connections_on_all_gateways(self) -> None:
        with CuttingProxy() as proxy:
            stream = AgentClient(proxy.url).stream("demo", prompt("/stream 40 100"))
            events = list(stream)
        self.assert_unique(events)
        self.assertGreater(proxy.connections, 1)
        assert stream.request_id is not None
        self.assertEqual(events, list(OTHER.follow(stream.request_id)))

    def test_a_stream_continues_after_an_iteration_that_was_left(self) -> None:
        stream = CLIENT.stream("demo", prompt("/stream 20 100"))
        events: list[AgentEvent] = []
        for event in stream:
            events.append(event)
            if len(events) == 5:
                break
        events += stream
        self.assert_unique(events)
        assert stream.request_id is not None
        self.assertEqual(events, list(CLIENT.follow(stream.request_id)))
        self.assertEqual(list(stream), [])

    def test_a_stream_is_closed_by_another_thread_and_the_request_runs_on(self) -> None:
        stream = CLIENT.stream("demo", prompt("/sleep 1s", "/say end"))
        for event in stream:
            if event["event"] == "metadata":
                threading.Thread(target=stream.close).start()
        assert stream.request_id is not None
        self.assertEqual(text(OTHER.follow(stream.request_id)), "end")

    def test_a_request_is_followed_after_a_cursor(self) -> None:
        stream = CLIENT.stream("demo", prompt("/say hello"), include=["extended"])
        events = list(stream)
        self.assertLessEqual({"input", "metadata", "usage", "done"}, {event["event"] for event in events})
        assert stream.request_id is not None
        self.assertEqual(list(OTHER.follow(stream.request_id, after=events[2]["id"], include=["extended"])), events[3:])
        self.assertEqual(list(CLIENT.follow(stream.request_id, after=stream.cursor)), [])

    def test_a_cursor_of_another_log_starts_again_if_the_caller_handles_it(self) -> None:
        stream = CLIENT.stream("demo", prompt("/say hello"))
        events = list(stream)
        assert stream.request_id is not None
        resets: list[None] = []
        got = list(CLIENT.follow(stream.request_id, after="another-2", on_reset=lambda: resets.append(None)))
        self.assertEqual((got, len(resets)), (events, 1))
        with self.assertRaises(ProtocolError):
            list(CLIENT.follow(stream.request_id, after="another-2"))

    def test_a_failed_request_ends_with_its_error(self) -> None:
        last = list(CLIENT.stream("demo", prompt("/fail tool_error")))[-1]
        assert last["event"] == "error"
        self.assertEqual((last["code"], last["retryable"]), ("tool_error", False))


class TestAsyncStreams(Case, unittest.IsolatedAsyncioTestCase):
    async def test_a_stream_over_cut_connections(self) -> None:
        with CuttingProxy() as proxy:
            events = [event async for event in AgentClient(proxy.url).stream("demo", prompt("/stream 40 100"))]
        self.assert_unique(events)
        self.assertEqual(len([event for event in events if event["event"] == "text" and event["stage"] == "delta"]), 40)

    async def test_a_task_that_is_cancelled_leaves_the_stream(self) -> None:
        stream = CLIENT.stream("demo", prompt("/sleep 1s", "/say end"))
        begun = asyncio.Event()

        async def read() -> None:
            async for event in stream:
                if event["event"] == "metadata":
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        assert stream.request_id is not None
        self.assertEqual(text([event async for event in OTHER.follow(stream.request_id)]), "end")


class TestErrors(Case):
    def test_an_error_has_the_code_of_the_api(self) -> None:
        error = self.assert_error("agent_not_found", list, CLIENT.stream("missing", prompt("/say hello")))
        self.assertEqual((error.status, error.retryable), (404, False))
        self.assert_error("thread_not_found", CLIENT.thread, "thr_missing")
        self.assert_error("thread_not_found", list, CLIENT.follow_thread("thr_missing"))
        self.assert_error("invalid_message_format", CLIENT.start, "demo", {"messages": []})

    def test_a_busy_thread_names_its_request(self) -> None:
        started = CLIENT.start("demo", prompt("/sleep 20s"))
        error = self.assert_error("thread_busy", CLIENT.start, "demo", on_thread(started["threadId"], "/say no"))
        self.assertEqual(error.running_request_id, started["requestId"])
        CLIENT.abort(started["requestId"])

    def test_a_server_that_does_not_respond(self) -> None:
        absent = AgentClient("http://127.0.0.1:9")
        with self.assertRaises(ConnectionFailed):
            absent.agents()
        with self.assertRaises(ConnectionFailed):
            list(absent.stream("demo", prompt("/say hello")))

    def test_an_address_without_a_scheme(self) -> None:
        with self.assertRaisesRegex(ValueError, "http://127.0.0.1:8080"):
            AgentClient("127.0.0.1:8080")


class TestRequests(Case):
    def test_a_request_in_the_background(self) -> None:
        started = CLIENT.start("demo", prompt("/say hello"), idempotency_key=(key := f"key-{id(self)}-{datetime.now().timestamp()}"))
        again = OTHER.start("demo", prompt("/say hello"), idempotency_key=key)
        self.assertEqual(again["requestId"], started["requestId"])
        self.assertEqual(text(OTHER.follow(started["requestId"])), "hello")
        self.assertEqual(OTHER.request(started["requestId"])["status"], "done")

    def test_an_abort_has_a_reason(self) -> None:
        stream = CLIENT.stream("demo", prompt("/sleep 20s"))
        for event in stream:
            if event["event"] == "metadata":
                OTHER.abort(event["requestId"], "not needed")
        assert event["event"] == "aborted"
        self.assertEqual(event.get("reason"), "not needed")
        self.assert_error("request_finished", CLIENT.abort, event["requestId"])

    def test_a_steer_and_a_follow_up(self) -> None:
        first = CLIENT.start("demo", prompt("/sleep 1s", '/tool echo {"text":"x"}'))
        following = CLIENT.follow_up(first["requestId"], prompt("/say next"))
        steer_id = OTHER.steer(first["requestId"], "/say steered")
        inputs = [event for event in CLIENT.follow(first["requestId"], include=["input"]) if event["event"] == "input"]
        self.assertEqual([event.get("steerId") for event in inputs], [None, steer_id])
        self.assertEqual(text(CLIENT.follow(following["requestId"])), "next")


class TestActions(Case):
    approval = prompt('/tool calculator {"expression":"6*7"}', "/say end")

    def results(self, request_id: str) -> list[tuple[str | None, str | None]]:
        return [
            (event.get("status"), event.get("summary"))
            for event in CLIENT.follow(request_id)
            if event["event"] == "tool_result" and event["stage"] == "stop"
        ]

    def test_an_approval(self) -> None:
        stream = CLIENT.stream("careful", self.approval)
        list(stream)
        started = OTHER.approve(stream.actions[0])
        self.assertEqual(self.results(started["requestId"]), [("success", "6*7 = 42")])
        self.assert_error("invalid_action_id", CLIENT.approve, stream.actions[0])

    def test_a_denial_from_the_list_of_open_actions(self) -> None:
        stream = CLIENT.stream("careful", self.approval)
        list(stream)
        action = OTHER.actions(thread_id=stream.thread_id)["actions"][0]
        started = OTHER.deny(action, "too hard")
        self.assertEqual([status for status, _ in self.results(started["requestId"])], ["denied"])

    def test_an_answer(self) -> None:
        stream = CLIENT.stream("careful", prompt("/ask Which city?", "/say end"))
        list(stream)
        self.assertEqual(stream.actions[0]["payload"]["question"], "Which city?")
        self.assertEqual(text(CLIENT.follow(CLIENT.answer(stream.actions[0], "Oslo")["requestId"])), "end")

    def test_a_run_decides_actions_over_cut_connections(self) -> None:
        request = prompt('/tool calculator {"expression":"6*7"}', "/client-tool get_location {}", "/say end")
        request["tools"] = [{"name": "get_location", "schema": {"type": "object"}}]
        kinds: list[str] = []

        def decide(action: ContinuationEvent) -> Decision:
            kinds.append(f"{action['kind']} {action['payload']['name']}")
            return {"status": "success", "result": {"city": "Oslo"}} if action["kind"] == "tool" else {"status": "success"}

        with CuttingProxy() as proxy:
            events = list(AgentClient(proxy.url).run("careful", request, decide))
        self.assert_unique(events)
        self.assertEqual(kinds, ["approval calculator", "tool get_location"])
        self.assertEqual(events[-1]["event"], "done")


class TestThreads(Case):
    def test_a_thread_is_followed_over_cut_connections_to_its_deletion(self) -> None:
        first = CLIENT.start("demo", prompt("/stream 20 100"))
        list(CLIENT.follow(first["requestId"]))
        events: list[AgentEvent] = []
        with CuttingProxy() as proxy:
            for event in AgentClient(proxy.url).follow_thread(first["threadId"], from_start=True):
                events.append(event)
                if event["event"] == "done" and event["requestId"] == first["requestId"]:
                    OTHER.start("demo", on_thread(first["threadId"], "/stream 20 100"))
                elif event["event"] == "done":
                    CLIENT.delete_thread(first["threadId"])
        self.assert_unique(events)
        self.assertEqual(len([event for event in events if event["event"] == "input"]), 2)
        self.assertEqual(len([event for event in events if event["event"] == "text" and event["stage"] == "delta"]), 40)

    def test_a_thread_is_followed_after_a_cursor(self) -> None:
        thread_id = CLIENT.start("demo", prompt("/say hello"))["threadId"]
        stream = CLIENT.follow_thread(thread_id, from_start=True)
        for event in stream:
            if event["event"] == "done":
                break
        started = CLIENT.start("demo", on_thread(thread_id, "/say again"))
        events = []
        for event in OTHER.follow_thread(thread_id, after=stream.cursor):
            events.append(event)
            if event["event"] == "done":
                break
        self.assertEqual({event["requestId"] for event in events}, {started["requestId"]})
        self.assertEqual(text(events), "again")

    def test_a_thread_is_followed_after_the_start_of_a_request(self) -> None:
        thread_id = CLIENT.start("demo", prompt("/say hello"))["threadId"]
        stream = CLIENT.follow_thread(thread_id, from_start=True)
        first = next(iter(stream))
        assert stream.cursor is not None
        start = stream.cursor.rpartition(".")[0] + ".start"  # the X-Stream-Start of a stream that begins with the request
        self.assertEqual(next(iter(OTHER.follow_thread(thread_id, after=start))), first)

    def test_a_history(self) -> None:
        stream = CLIENT.stream("demo", prompt("/say hello"))
        live = list(stream)
        thread_id = stream.thread_id
        assert thread_id is not None
        user, assistant = OTHER.messages(thread_id)["messages"]
        self.assertEqual((user["input"], assistant["content"]), ("/say hello", [{"type": "text", "text": "hello"}]))
        stored = list(OTHER.events(thread_id, types=["text", "done"]))
        self.assertEqual(stored, [event for event in live if event["event"] in ("text", "done")])
        self.assertEqual(list(OTHER.events(thread_id, until=datetime.fromtimestamp(0, timezone.utc))), [])
        self.assertIn(thread_id, [thread["threadId"] for thread in CLIENT.threads(limit=200)["threads"]])
        self.assertIn("demo", [agent["name"] for agent in CLIENT.agents()])
