"""A client of agentbus that receives each event once. It needs the standard library alone.

Start at AgentClient.
"""

from .client import AgentClient
from .errors import ApiError, ConnectionFailed, ProtocolError
from .events import EVENT_TYPES, EXTENDED_EVENT_TYPES, PROTOCOL_VERSION
from .sse import ParsedEvent, encode_sse, parse_sse_chunk
from .stream import EventStream

__all__ = [
    "EVENT_TYPES",
    "EXTENDED_EVENT_TYPES",
    "PROTOCOL_VERSION",
    "AgentClient",
    "ApiError",
    "ConnectionFailed",
    "EventStream",
    "ParsedEvent",
    "ProtocolError",
    "encode_sse",
    "parse_sse_chunk",
]
