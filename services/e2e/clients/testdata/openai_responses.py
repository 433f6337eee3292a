"""Reads OpenAI's Responses as the client for Python does, with the standard library alone.

The client decodes lines as server-sent events, and then reads the members that its models require. The last event must be one of the
three that end a response: the client's helper for streams waits for them, and no "[DONE]" follows.
"""

import json
import sys
import urllib.request

ITEM = {"item": dict, "output_index": int}
PART = {"item_id": str, "output_index": int, "content_index": int, "part": dict}
TEXT = {"item_id": str, "output_index": int, "content_index": int, "logprobs": list}
SUMMARY = {"item_id": str, "output_index": int, "summary_index": int}
CALL = {"item_id": str, "output_index": int}
RESPONSE = {"response": dict}

EVENTS = {
    "response.created": RESPONSE,
    "response.queued": RESPONSE,
    "response.in_progress": RESPONSE,
    "response.completed": RESPONSE,
    "response.incomplete": RESPONSE,
    "response.failed": RESPONSE,
    "response.output_item.added": ITEM,
    "response.output_item.done": ITEM,
    "response.content_part.added": PART,
    "response.content_part.done": PART,
    "response.output_text.delta": TEXT | {"delta": str},
    "response.output_text.done": TEXT | {"text": str},
    "response.reasoning_summary_part.added": SUMMARY | {"part": dict},
    "response.reasoning_summary_part.done": SUMMARY | {"part": dict},
    "response.reasoning_summary_text.delta": SUMMARY | {"delta": str},
    "response.reasoning_summary_text.done": SUMMARY | {"text": str},
    "response.function_call_arguments.delta": CALL | {"delta": str},
    "response.function_call_arguments.done": CALL | {"arguments": str, "name": str},
    "response.mcp_call.in_progress": CALL,
    "response.mcp_call.completed": CALL,
    "response.mcp_call.failed": CALL,
    "response.mcp_call_arguments.delta": CALL | {"delta": str},
    "response.mcp_call_arguments.done": CALL | {"arguments": str},
}

ITEMS = {
    "message": {"id": str, "content": list, "role": str, "status": str},
    "reasoning": {"id": str, "summary": list},
    "function_call": {"arguments": str, "call_id": str, "name": str},
    "mcp_call": {"id": str, "arguments": str, "name": str, "server_label": str},
    "mcp_approval_request": {"id": str, "arguments": str, "name": str, "server_label": str},
}

MEMBERS = {
    "id": str, "created_at": (int, float), "model": str, "object": str, "output": list, "parallel_tool_calls": bool,
    "tool_choice": (str, dict), "tools": list,
}


def events(response):
    """Decode the lines of a stream as the client does: an empty line ends an event, and a comment begins with a colon."""
    name, data = None, []
    for line in response:
        line = line.decode().rstrip("\r\n")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


def require(value, members, where):
    for name, kind in members.items():
        assert isinstance(value.get(name), kind), f"{where}.{name} is {value.get(name)!r}"


def check(name, data):
    """Return an event whose members are those of the client's model."""
    event = json.loads(data)
    assert event["type"] == name, f"the event {name} has the type {event['type']}"
    require(event, EVENTS[name] | {"sequence_number": int}, name)
    if "response" in event:
        require(event["response"], MEMBERS, name)
    for item in [event["item"]] if "item" in event else event.get("response", {}).get("output", []):
        require(item, ITEMS[item["type"]], f"{name} {item['type']}")
    return event


def stream(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Authorization": "Bearer unused"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as response:
        assert response.headers["Content-Type"] == "text/event-stream", response.headers["Content-Type"]
        return [check(name, data) for name, data in events(response)]


def accumulate(all_events):
    """Return the texts and arguments of the output as the client's helper collects them: by the index of the output."""
    output = []
    for event in all_events:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(output)
            output.append("")
        elif kind.endswith(".delta"):
            output[event["output_index"]] += event["delta"]
    return output


def main(gateway, other):
    responses = gateway + "/openai/v1/responses"
    script = "\n".join(["/think hm", "/say one two", '/tool echo {"text":"x"}', '/client-tool pick {"kind":"pdf"}'])
    tools = [{"type": "function", "name": "pick", "parameters": {"type": "object"}, "strict": True}]
    first = stream(responses, {"model": "demo", "input": script, "stream": True, "tools": tools})
    assert [e["sequence_number"] for e in first] == list(range(len(first)))
    assert first[-1]["type"] == "response.completed", first[-1]["type"]
    whole = first[-1]["response"]
    assert accumulate(first) == ["hm", "one two", '{"text":"x"}', '{"kind":"pdf"}'], accumulate(first)
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "mcp_call", "function_call"]

    rest = stream(f"{other}/openai/v1/responses/{whole['id']}?stream=true&starting_after=4")
    assert rest == first[5:]

    output = {"type": "function_call_output", "call_id": whole["output"][3]["call_id"], "output": "a.pdf"}
    body = {"model": "demo", "input": [output], "previous_response_id": whole["id"], "stream": True, "tools": tools}
    assert stream(responses, body)[-1]["type"] == "response.completed"

    failed = stream(responses, {"model": "demo", "input": "/fail agent_error", "stream": True, "background": True})
    assert [e["type"] for e in failed[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert failed[-1]["type"] == "response.failed" and failed[-1]["response"]["error"]["code"] == "server_error"


if __name__ == "__main__":
    main(*sys.argv[1:3])
