"""The gateways of the tests, and a proxy that cuts each connection and sends each one to the next gateway."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from urllib.parse import urlsplit

URLS = os.environ.get("AGENTBUS_URLS", "http://127.0.0.1:8080").split(",")

_LIMIT = 8000  # bytes of responses that a connection lets pass


class CuttingProxy:
    """Serves on a port of its own until it is closed."""

    def __init__(self) -> None:
        self.connections = 0
        self._targets = itertools.cycle((urlsplit(url).hostname or "", urlsplit(url).port or 80) for url in URLS)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # the proxy is closed
            self.connections += 1
            gateway = socket.create_connection(next(self._targets))
            threading.Thread(target=_copy, args=(client, gateway, None), daemon=True).start()
            threading.Thread(target=_copy, args=(gateway, client, _LIMIT), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    """Copies up to the limit, and ends both connections."""
    try:
        while limit is None or limit > 0:
            data = source.recv(4096)
            if not data:
                break
            target.sendall(data if limit is None else data[:limit])
            limit = None if limit is None else limit - len(data)
    except OSError:
        pass  # the other direction has ended both
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended
    source.close()
