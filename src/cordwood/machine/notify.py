"""Telling the service manager that we are ready, or about to end, where it asked to be told (sd_notify(3))."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

READY, STOPPING = "READY=1", "STOPPING=1"


def tell(state: str, environment: Mapping[str, str] | None = None) -> None:
    """Say it to the socket that NOTIFY_SOCKET names; without one, or if nobody listens, nothing happens."""
    address = (os.environ if environment is None else environment).get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket, which has no file
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(OSError):  # it is only news
        sock.sendto(state.encode(), address)
