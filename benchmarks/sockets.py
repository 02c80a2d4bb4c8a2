"""Bytes from one process to another over this machine's own address, without any library: what a network can give."""

from __future__ import annotations

import socket
import ssl
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

BLOCK = 2**20


def sent(port: int, size: int, keys: Path | None) -> None:
    """Send so many bytes to a port."""
    block, left = memoryview(bytes(BLOCK)), size
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with secured(plain, keys, server=False) as line:
            line.recv(1)  # the other side is ready
            while left:
                line.sendall(block[: min(left, BLOCK)])
                left -= min(left, BLOCK)
            line.recv(1)  # all of it is there


def received(told: Connection, size: int, keys: Path | None) -> None:
    """Receive so many bytes, and tell the port first and the seconds in the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told.send(listening.getsockname()[1])
        plain, _ = listening.accept()
        with plain, secured(plain, keys, server=True) as line:
            buffer, left = memoryview(bytearray(BLOCK)), size
            start = time.perf_counter()
            line.sendall(b"1")
            while left:
                left -= line.recv_into(buffer)
            told.send(time.perf_counter() - start)
            line.sendall(b"1")


def secured(plain: socket.socket, keys: Path | None, server: bool) -> socket.socket:
    """The same connection under TLS in which both show certificates, if there are keys."""
    if keys is None:
        return plain.dup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    mine = keys / ("server" if server else "p0000")
    context.load_cert_chain(mine / "cert.pem", mine / "key.pem")
    context.load_verify_locations(mine / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        return context.wrap_socket(plain, server_side=True)
    return context.wrap_socket(plain, server_hostname="localhost")


def seconds(size: int, keys: Path | None) -> float:
    """How long so many bytes take from one process to another."""
    spawn = get_context("spawn")
    here, there = spawn.Pipe()
    receiving = spawn.Process(target=received, args=(there, size, keys))
    receiving.start()
    there.close()
    sending = spawn.Process(target=sent, args=(here.recv(), size, keys))
    sending.start()
    found: float = here.recv()
    for process in (sending, receiving):
        process.join()
    return found
