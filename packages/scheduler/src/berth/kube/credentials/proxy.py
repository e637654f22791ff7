"""Which proxy a request to the API server goes through: `proxy-url`, or the environment as Go reads it."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from berth.api.addresses import is_loopback
from berth.api.redaction import redact_url


def proxy_problem(url: str) -> str:
    """Why this proxy cannot be used, with a remedy; empty when it can."""
    shown = repr(redact_url(url))
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or brackets without an address
        return f"{shown} is not the URL of a proxy; expected something like 'http://proxy.example:3128'"
    if is_usable:
        return ""
    if parts.scheme.startswith("socks"):
        return f"{shown} is a SOCKS proxy, which is not supported; use an http:// proxy"
    return f"{shown} is not the URL of a proxy; expected something like 'http://proxy.example:3128'"


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY choose for `server`; empty for none."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    name = "https_proxy" if parts.scheme == "https" else "http_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    # Like Go, Berth never sends requests to its own machine through a proxy.
    if not proxy or is_loopback(host) or _excluded(host, parts.port, _setting(environ, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _setting(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excluded(host: str, port: int | None, no_proxy: str) -> bool:
    rules = (rule.strip().lower() for rule in no_proxy.split(","))
    return any(_rule_matches(rule, host.lower(), port) for rule in rules if rule)


def _rule_matches(rule: str, host: str, port: int | None) -> bool:
    """One entry of NO_PROXY: `*`, an address, a CIDR, a domain with its subdomains, or `.domain` without itself."""
    if rule == "*":
        return True
    if "/" in rule:
        return _in_network(host, rule)
    name, _, rule_port = rule.rpartition(":") if rule.count(":") == 1 else (rule, "", "")
    if rule_port and rule_port != str(port or ""):
        return False
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith("." + name)


def _in_network(host: str, cidr: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return False
