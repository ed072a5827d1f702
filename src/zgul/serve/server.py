"""Starts the service: binds, says where it is, opens the page, and stops without losing what is begun."""

import contextlib
import errno
import ipaddress
import logging
import os
import socket
import sys
import threading
import warnings
import webbrowser
from typing import Any

import uvicorn
from fastapi import FastAPI

from zgul.errors import ZgulError, ZgulWarning
from zgul.serve.app import create_app
from zgul.serve.serve_config import ServeConfig

BACKLOG = 256


def serve(config: ServeConfig) -> None:
    """Answer requests until a signal ends it."""
    listening = bind(config.host, config.port)
    host, port = listening.getsockname()[:2]
    address = f"http://{'localhost' if host in ('0.0.0.0', '::') else f'[{host}]' if ':' in host else host}:{port}/"
    print(f"zgul: the page is at {address} (stop with Ctrl-C)", file=sys.stderr, flush=True)
    if not _is_loopback(host):
        key = "" if config.api_key else ", without a key (ZGUL_API_KEY sets one)"
        print(f"zgul: other machines can reach it at {host}, port {port}{key}", file=sys.stderr, flush=True)
    warnings.simplefilter("ignore", ZgulWarning)  # the service gives them with the text they belong to
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    server = new_server(create_app(config), config)
    if config.open and _has_display():
        threading.Timer(1.0, webbrowser.open, [address]).start()
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has stopped
        server.run(sockets=[listening])


def new_server(app: FastAPI, config: ServeConfig) -> uvicorn.Server:
    """A server that leaves the log of requests to the app, and finishes what is begun when it is stopped."""
    quiet: dict[str, Any] = {"access_log": False, "log_config": None, "log_level": "warning", "server_header": False}
    return uvicorn.Server(
        uvicorn.Config(app, lifespan="on", timeout_graceful_shutdown=config.grace, timeout_keep_alive=30, **quiet)
    )


def bind(host: str, port: int) -> socket.socket:
    """A socket on this address, or an error that says what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)  # from here on requests wait until the service has started
    except UnicodeError as error:
        raise ZgulError(f"{host} is no name of a machine. Leave --host out.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = f"Stop what uses it, or choose another: zgul serve --port {port + 1 if port < 65535 else 0}"
            raise ZgulError(f"Port {port} is taken. {advice}") from error
        if error.errno == errno.EACCES:
            raise ZgulError(f"Port {port} is for the system alone. Choose one from 1024: --port 8000") from error
        raise ZgulError(f"{host} is no address of this machine ({error.strerror}). Leave --host out.") from error
    return listening


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
