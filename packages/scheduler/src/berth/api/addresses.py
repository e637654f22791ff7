"""Which hosts are this machine, and which URLs lead over a network that anybody may listen to."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Say whether a host name or address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def sends_in_clear(url: str) -> bool:
    """Say whether whatever is sent to this URL can be read on its way: no TLS, and not to this machine."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")
