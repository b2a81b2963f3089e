"""The server of the page, behind a look at who asks.

A web page that somebody opens elsewhere may send requests to this machine, also under a name of its
own that leads here (DNS rebinding). So the `Host` has to be an address or a name of this machine, and
an `Origin`, which browsers add to what another page asks for, has to be the page itself. The page in
turn may load nothing from elsewhere: all it needs is served from here.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).with_name("app.py")
_TRIES, _BETWEEN = 100, 0.2  # looks at the port before the browser opens, and seconds between them
_FROM_HERE = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' ws: wss: data: blob:"
_ASGI = Callable[[Mapping[str, Any], Any, Any], Awaitable[None]]


def may_ask(host: str | None, origin: str | None, names: frozenset[str]) -> bool:
    """Whether a request with these headers comes from the page, or from no page at all.

    **Arguments:** the `Host`, the `Origin` (None: not sent), the `names` of this machine.
    """
    if host is None:
        return False
    name = _name(host)
    if name not in names and not _is_address(name):
        return False
    return origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def names_of(host: str) -> frozenset[str]:
    """The names under which a server at `host` may be asked, addresses aside."""
    return frozenset(name.lower() for name in (host, "localhost", socket.gethostname()))


def guarded(app: _ASGI, names: frozenset[str]) -> _ASGI:
    """`app` for those who may ask; others get status 403, or no connection. Browsers are told to take
    nothing from other places for its pages."""

    async def guard(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        alone = len(hosts) == 1 and len(origins) <= 1
        if alone and may_ask(hosts[0], origins[0] if origins else None, names):
            await app(scope, receive, _confined(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            plain = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 403, "headers": plain})
            await send({"type": "http.response.body", "body": b"not for this host or page\n"})

    return guard


def _confined(send: Any) -> Any:
    """`send` with the policy of contents in the headers of each answer."""

    async def confined(message: Any) -> None:
        if message["type"] == "http.response.start":
            policy = (b"content-security-policy", _FROM_HERE.encode())
            message = {**message, "headers": [*message.get("headers", []), policy]}
        await send(message)

    return confined


def _name(host: str) -> str:
    """The name in `name:port` or `[address]:port`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def main() -> None:
    """The life of the server process. Its arguments: host, port, and `browser` to open one."""
    import marimo
    import uvicorn

    host, port, *more = sys.argv[1:]
    # marimo reads settings, such as a path for modules, from a pyproject.toml where it is started
    with contextlib.chdir(_PAGE.parent):
        app: Any = marimo.create_asgi_app(quiet=True).with_app(path="", root=str(_PAGE)).build()
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}"
    print(f"the page is at {address} (Ctrl-C ends it)", flush=True)
    if more:
        threading.Thread(target=_open, args=(host, int(port), address), daemon=True).start()
    uvicorn.run(
        guarded(app, names_of(host)),  # type: ignore[arg-type]
        host=host,
        port=int(port),
        log_level="error",
        timeout_graceful_shutdown=2,
    )


def _open(host: str, port: int, address: str) -> None:
    """Opens a browser once the server answers."""
    import webbrowser

    for _ in range(_TRIES):
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            time.sleep(_BETWEEN)
        else:
            webbrowser.open(address)
            return
