"""The errors of the client."""

from __future__ import annotations

import json
from http.client import HTTPResponse


class ApiError(Exception):
    """An error of the server.

    code is the reason, for programs: decide by retryable for a code that you do not use. retry_after is in seconds.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool,
        status: int,
        retry_after: float | None = None,
        running_request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.running_request_id = running_request_id
        """With thread_busy: the request that runs on the thread."""


class ConnectionFailed(ConnectionError):
    """The connection failed more often than the client tries. The request runs on: follow it after the cursor."""

    def __init__(self, url: str, cause: BaseException, request_id: str | None = None, cursor: str | None = None) -> None:
        super().__init__(f"{url} does not respond: {cause}")
        self.request_id = request_id
        self.cursor = cursor


class ProtocolError(Exception):
    """A response that is not one of the protocol. Another attempt would fail in the same way."""


def is_temporary(error: Exception) -> bool:
    """Reports whether the same call may succeed soon. A busy thread may take long, and its running request can be followed."""
    if isinstance(error, ApiError):
        return error.retryable and error.code != "thread_busy"
    return not isinstance(error, ProtocolError)


_MAX_ERROR_BODY = 65_536


def read_error(response: HTTPResponse) -> ApiError:
    """Reads the error event in the body of a response. Another body, such as a proxy's page, gives an error by the status."""
    status = response.status
    seconds = response.headers.get("Retry-After", "")
    retry_after = float(seconds) if seconds.isdecimal() else None
    try:
        event = json.loads(response.read(_MAX_ERROR_BODY))
    except ValueError:
        event = None
    if not isinstance(event, dict) or event.get("event") != "error" or not isinstance(event.get("code"), str):
        code, retryable = _by_status(status)
        message = f"the server responded with status {status} and no error event"
        return ApiError(code, message, retryable=retryable, status=status, retry_after=retry_after)
    return ApiError(
        event["code"],
        str(event.get("message", event["code"])),
        retryable=event.get("retryable") is True,
        status=status,
        retry_after=retry_after,
        running_request_id=event.get("runningRequestId"),
    )


def _by_status(status: int) -> tuple[str, bool]:
    if status in (502, 503, 504):
        return "unavailable", True
    if status == 429:
        return "rate_limit_exceeded", True
    if status == 401:
        return "auth_failed", False
    if status == 404:
        return "route_not_found", False
    return "internal_error", status >= 500
