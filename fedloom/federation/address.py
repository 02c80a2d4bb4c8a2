"""Address: where somebody listens, as ``host:port``."""

from __future__ import annotations

from fedloom.errors import require


def parted(argument: str, address: str) -> tuple[str, int]:
    """The host and the port of an address.

    >>> parted("server", "[::1]:8443")
    ('::1', 8443)
    >>> parted("listen", "127.0.0.1:99999")
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: listen must be a host and a port, such as 127.0.0.1:8080, but is '127.0.0.1:99999'
    """
    host, _, port = address.rpartition(":")
    good = bool(host) and port.isascii() and port.isdigit() and int(port) <= 65535
    require(good, argument, "a host and a port, such as 127.0.0.1:8080", address)
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own.

    >>> is_loopback("127.0.0.1:0"), is_loopback("localhost:8443"), is_loopback("[::1]:1"), is_loopback("0.0.0.0:1")
    (True, True, True, False)
    """
    return address.rpartition(":")[0].strip("[]") in ("localhost", "127.0.0.1", "::1")
