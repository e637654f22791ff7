"""Which proxy is used, by the rules of Go's `ProxyFromEnvironment`."""

import pytest

from berth.kube.credentials.proxy import proxy_from_environment, proxy_problem

SERVER = "https://api.example.com:6443"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        (SERVER, {}, ""),
        (SERVER, {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (SERVER, {"https_proxy": "http://p:1"}, "http://p:1"),
        (SERVER, {"HTTPS_PROXY": "p:1"}, "http://p:1"),
        (SERVER, {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://api:80", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_environment(server, environ, expected):
    assert proxy_from_environment(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        (SERVER, "*", True),
        (SERVER, "example.com", True),
        (SERVER, ".example.com", True),
        (SERVER, "a.b, API.example.com", True),
        (SERVER, "api.example.com:6443", True),
        (SERVER, "api.example.com:443", False),
        (SERVER, "ample.com", False),
        ("https://example.com", ".example.com", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        (SERVER, "10.0.0.0/8", False),
        (SERVER, "nonsense/x", False),
        (SERVER, "", False),
    ],
)
def test_no_proxy(server, no_proxy, direct):
    environ = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy}
    assert (proxy_from_environment(server, environ) == "") is direct


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://p:1", ""),
        ("https://p", ""),
        ("socks5://p", "SOCKS"),
        ("p:1", "not the URL"),
        ("http://", "not the URL"),
    ],
)
def test_problems(url, words):
    assert (words in proxy_problem(url)) if words else proxy_problem(url) == ""
