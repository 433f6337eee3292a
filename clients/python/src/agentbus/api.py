"""The responses of the gateway, as schemas/openapi.yaml describes them."""

from typing import Any, Literal, NotRequired, TypedDict

from .events import AgentEvent, AssistantContentBlock, ContinuationKind, FinishReason, Usage

Status = Literal["queued", "running", "done", "error", "aborted"]
"""queued: no runner has claimed the request yet."""


class Agent(TypedDict):
    name: str
    description: NotRequired[str]
    backend: str
    model: NotRequired[str]
    models: NotRequired[list[str]]
    tools: NotRequired[list[str]]
    capabilities: NotRequired[list[str]]
    online: NotRequired[bool]


class Started(TypedDict):
    """A request that was accepted."""

    requestId: str
    threadId: str
    agentId: str
    status: Status


class RequestState(Started):
    owner: str
    index: int
    createdAt: str
    endedAt: NotRequired[str]
    usage: NotRequired[Usage]
    terminal: NotRequired[AgentEvent]
    unreadSteers: NotRequired[list[str]]


class ActionRef(TypedDict):
    """What identifies an action. A `continuation` event and an item of `actions` have more members."""

    actionId: str
    requestId: str


class OpenAction(TypedDict):
    actionId: str
    kind: ContinuationKind
    expiresAt: NotRequired[str]


class Action(OpenAction):
    """An open action of a thread."""

    threadId: str
    requestId: str
    agentId: str
    payload: dict[str, Any]
    at: str


class Thread(TypedDict):
    threadId: str
    agentId: str
    owner: str
    title: NotRequired[str]
    requests: int
    lastRequestId: NotRequired[str]
    createdAt: str
    updatedAt: str
    openActions: NotRequired[list[OpenAction]]


class Message(TypedDict):
    """A message of a thread: input is what a user said, content what an agent said."""

    requestId: str
    messageId: NotRequired[str]
    role: Literal["user", "assistant"]
    input: NotRequired[str | list[dict[str, Any]]]
    content: NotRequired[list[AssistantContentBlock]]
    finishReason: NotRequired[FinishReason]
    at: str


class ThreadPage(TypedDict):
    threads: list[Thread]
    nextCursor: NotRequired[str]


class MessagePage(TypedDict):
    messages: list[Message]
    nextCursor: NotRequired[str]


class ActionPage(TypedDict):
    """Only an absent nextCursor marks the last page; a page may be empty."""

    actions: list[Action]
    nextCursor: NotRequired[str]
