"""The calls of a gateway."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from ._http import Call, Http, new_key
from .api import ActionPage, ActionRef, Agent, MessagePage, RequestState, Started, Thread, ThreadPage
from .events import ActionResult, AgentEvent, AgentRequest, ContinuationEvent, Decision, InputMessage
from .stream import EventStream, stream_path


class AgentClient:
    """A client of one gateway. It is safe for use by several threads.

    url is the gateway's address, for example http://127.0.0.1:8080. A connection that was silent for idle_timeout seconds counts
    as cut; a gateway sends a heartbeat every 15 s. attempts is how often in a row a cut stream is resumed in vain.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        idle_timeout: float = 60.0,
        attempts: int = 10,
    ) -> None:
        self._http = Http(url, api_key, headers, idle_timeout, attempts)

    def stream(
        self,
        agent: str,
        request: AgentRequest,
        *,
        include: Sequence[str] = (),
        idempotency_key: str | None = None,
        create_thread: bool = False,
        on_reset: Callable[[], None] | None = None,
    ) -> EventStream:
        """Starts a request when the stream is iterated, and yields its events up to the terminal one.

        The same idempotency_key makes repeated calls with the same request give the same run. With create_thread the request
        creates the thread that its threadId names. on_reset is called when the server cannot use the cursor, after a loss of
        data: the stream starts again at the first event, so clear what was shown. Without it such a stream raises ProtocolError.
        """
        call = _start_call(agent, "stream", request, idempotency_key, create_thread)
        return EventStream(self._http, call, resumable=False, include=include, on_reset=on_reset)

    def follow(
        self,
        request_id: str,
        *,
        after: str | None = None,
        include: Sequence[str] = (),
        on_reset: Callable[[], None] | None = None,
    ) -> EventStream:
        """Yields the events of a request that was started elsewhere, from the start or after a cursor."""
        call = Call(stream_path(request_id))
        return EventStream(self._http, call, resumable=True, request_id=request_id, after=after, include=include, on_reset=on_reset)

    def follow_thread(
        self,
        thread_id: str,
        *,
        from_start: bool = False,
        after: str | None = None,
        include: Sequence[str] = (),
        on_reset: Callable[[], None] | None = None,
    ) -> EventStream:
        """Yields the events of a thread, request after request, until the thread is deleted; input events are among them.

        It begins with the request that runs or comes next, or with from_start at the first one, or after a cursor of such a stream.
        """
        call = Call(f"/v1/threads/{_segment(thread_id)}/stream", query={"from": "start" if from_start else None})
        return EventStream(
            self._http, call, resumable=True, thread=True, thread_id=thread_id, after=after, include=include, on_reset=on_reset
        )

    def run(
        self,
        agent: str,
        request: AgentRequest,
        decide: Callable[[ContinuationEvent], Decision],
        *,
        include: Sequence[str] = (),
    ) -> Generator[AgentEvent, None, None]:
        """Runs a request, and the requests that answer its actions, until one ends without an action.

        decide shows an action to the user, or runs the client tool that its payload names.
        """
        stream = self.stream(agent, request, include=include)
        while True:
            yield from stream
            if not stream.actions:
                return
            results = [cast(ActionResult, {"actionId": action["actionId"], **decide(action)}) for action in stream.actions]
            answer: AgentRequest = {"threadId": stream.thread_id or "", "messages": [], "context": {"actionResults": results}}
            stream = self.stream(agent, answer, include=include)

    def start(self, agent: str, request: AgentRequest, *, idempotency_key: str | None = None, create_thread: bool = False) -> Started:
        """Starts a request in the background, and returns when the server has accepted it. follow shows its events."""
        return cast(Started, self._http.json(_start_call(agent, "requests", request, idempotency_key, create_thread)))

    def follow_up(self, request_id: str, request: AgentRequest, *, idempotency_key: str | None = None) -> Started:
        """Starts a request of the same agent on the thread of a request, after all that runs or waits there."""
        return cast(Started, self._http.json(_post(f"/v1/requests/{_segment(request_id)}/follow-up", request, idempotency_key)))

    def request(self, request_id: str) -> RequestState:
        """Returns the state of a request."""
        return cast(RequestState, self._http.json(Call(f"/v1/requests/{_segment(request_id)}")))

    def abort(self, request_id: str, reason: str | None = None) -> None:
        """Asks for the end of a request, whose last event is then aborted. It raises request_finished if the request has ended."""
        self._http.json(_post(f"/v1/requests/{_segment(request_id)}/abort", {} if reason is None else {"reason": reason}))

    def steer(self, request_id: str, message: str | InputMessage) -> str:
        """Sends a message to a running request, which the model reads before its next turn.

        It returns the steerId of its input event.
        """
        content = {"role": "user", "content": message} if isinstance(message, str) else message
        return str(self._http.json(_post(f"/v1/requests/{_segment(request_id)}/steer", {"messages": [content]}))["steerId"])

    def approve(self, action: ActionRef) -> Started:
        """Allows a call that needs an approval. Returns the request that continues."""
        return self.resolve(action["requestId"], [{"actionId": action["actionId"], "status": "success"}])

    def deny(self, action: ActionRef, reason: str | None = None) -> Started:
        """Refuses an action. The model reads the reason."""
        result: ActionResult = {"actionId": action["actionId"], "status": "denied"}
        if reason is not None:
            result["error"] = reason
        return self.resolve(action["requestId"], [result])

    def answer(self, action: ActionRef, result: Any) -> Started:
        """Answers a question, or returns the result of a client tool: any JSON."""
        return self.resolve(action["requestId"], [{"actionId": action["actionId"], "status": "success", "result": result}])

    def resolve(self, request_id: str, results: Sequence[ActionResult]) -> Started:
        """Resolves several actions of a request at once. Returns the request that continues."""
        request = self.request(request_id)
        answer: AgentRequest = {"threadId": request["threadId"], "messages": [], "context": {"actionResults": list(results)}}
        return self.start(request["agentId"], answer)

    def actions(
        self, *, thread_id: str | None = None, agent_id: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> ActionPage:
        """Lists the caller's open actions."""
        query = {"threadId": thread_id, "agentId": agent_id, "limit": limit, "cursor": cursor}
        return cast(ActionPage, self._http.json(Call("/v1/actions", query=query)))

    def agents(self) -> list[Agent]:
        """Lists the agents, by name."""
        return cast(list[Agent], self._http.json(Call("/v1/agents"))["agents"])

    def threads(self, *, limit: int | None = None, cursor: str | None = None) -> ThreadPage:
        """Lists the caller's threads, the newest change first."""
        return cast(ThreadPage, self._http.json(Call("/v1/threads", query={"limit": limit, "cursor": cursor})))

    def thread(self, thread_id: str) -> Thread:
        """Returns a thread."""
        return cast(Thread, self._http.json(Call(f"/v1/threads/{_segment(thread_id)}")))

    def messages(self, thread_id: str, *, limit: int | None = None, cursor: str | None = None) -> MessagePage:
        """Lists the messages of a thread, in order. The limit counts requests."""
        query = {"limit": limit, "cursor": cursor}
        return cast(MessagePage, self._http.json(Call(f"/v1/threads/{_segment(thread_id)}/messages", query=query)))

    def events(
        self,
        thread_id: str,
        *,
        types: Sequence[str] = (),
        include: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Generator[AgentEvent, None, None]:
        """Yields the stored events of a thread, those of all pages. The times need a time zone."""
        query: dict[str, str | int | None] = {
            "type": ",".join(types),
            "include": ",".join(include),
            "since": since.isoformat() if since else None,
            "until": until.isoformat() if until else None,
            "limit": 1000,
        }
        while True:
            page = self._http.json(Call(f"/v1/threads/{_segment(thread_id)}/events", query=query))
            yield from page["events"]
            query["cursor"] = page.get("nextCursor")
            if not query["cursor"]:
                return

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread with all its requests."""
        self._http.json(Call(f"/v1/threads/{_segment(thread_id)}", method="DELETE"))


def _segment(text: str) -> str:
    return quote(text, safe="")


def _start_call(agent: str, route: str, request: AgentRequest, key: str | None, create_thread: bool) -> Call:
    query = {"createThread": "true" if create_thread else None}
    return _post(f"/v1/agents/{_segment(agent)}/{route}", request, key, query)


def _post(path: str, body: object, key: str | None = None, query: Mapping[str, str | int | None] | None = None) -> Call:
    """Returns a call with one idempotency key for all its attempts, so that it takes effect once."""
    return Call(path, "POST", query or {}, {"Idempotency-Key": key or new_key()}, body)
