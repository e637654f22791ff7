"""What is left of texts, URLs and documents that hold secrets, and what is left alone."""

import msgspec
import pytest

from berth.api.redaction import Concealed, is_secret, redact, redact_document, redact_url
from tests.effort import times_as_long

SECRET = "s3cr3t-Value"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzY2hlZHVsZXIifQ.c2lnbmF0dXJl"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nIJfs\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"at https://me:{SECRET}@host:1/x", "at https://[redacted]@host:1/x"),
        (f"at https://{SECRET}@host", "at https://[redacted]@host"),
        (f"at https://me:{SECRET}/half@host/x", "at https://[redacted]@host/x"),
        (f"at https://me:{SECRET}@part@host", "at https://[redacted]@host"),
        (f"Authorization: Bearer {SECRET}!", "Authorization: Bearer [redacted]"),
        (f'{{"authorization": "Basic {SECRET}"}}', '{"authorization": "Basic [redacted]"}'),
        (f"sent bearer {SECRET}, refused", "sent bearer [redacted], refused"),
        (f"the token {JWT} is old", "the token [redacted] is old"),
        (f"key: {PEM} and more", "key: [redacted] and more"),
        (f'{{"key": "{PEM[:40]}"}}', '{"key": "[redacted]"}'),
        (f"GET /x?a=1&token={SECRET}&b=2", "GET /x?a=1&token=[redacted]&b=2"),
        ("data LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1IYw== end", "data [redacted] end"),
    ],
)
def test_secrets_are_known_by_their_form(text, shown):
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cannot connect to https://10.0.0.1:6443/api: refused",
        "http://[::1]:8080/path@v1",
        "basic authentication is not supported; use a bearer token",
        "the image registry.example/app@sha256:0123456789abcdef",
        "pod default/web: 0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes",
        "http://host:80/a?x=1",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_known_secrets_go_wherever_they_stand_but_for_short_ones():
    assert redact(f"x{SECRET}y {SECRET}{SECRET}", SECRET, "x", "") == "x[redacted]y [redacted][redacted]"
    assert redact("abcdef abcd", "abcd", "abcdef") == "[redacted] [redacted]"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/p", "https://h/p"),
        (f"https://u:{SECRET}@h:1/p?k={SECRET}&flag", "https://[redacted]@h:1/p?k=[redacted]&flag"),
        (f"u:{SECRET}@h:1", "[redacted]@h:1"),
        (f"http://u:{SECRET}/x@h", "http://[redacted]@h"),
        ("http://h:80/p@v1", "http://h:80/p@v1"),
        ("http://[::1]:80/p@v1", "http://[::1]:80/p@v1"),
        (f"http://[bad:{SECRET}@h", "http://[redacted]@h"),
    ],
)
def test_urls(url, shown):
    assert redact_url(url) == shown


def test_documents_lose_what_their_fields_call_a_secret():
    document = {
        "password": SECRET,
        "tokens": 3,
        "apiKey": SECRET,
        "token": 1234567,
        "keyData": SECRET.encode(),
        "secret": {"value": SECRET, "list": [SECRET]},
        "passwordFile": "/etc/x",
        "secretName": "name",
        "topologyKey": "zone",
        "credential": "",
        "insecureToken": False,
        "url": f"https://a:{SECRET}@h/",
    }
    shown = redact_document(document)
    assert SECRET not in repr(shown)
    assert "1234567" not in repr(shown)
    kept = ("tokens", "passwordFile", "secretName", "topologyKey", "credential", "insecureToken")
    assert {name: shown[name] for name in kept} == {name: document[name] for name in kept}


def test_names():
    assert all(map(is_secret, ("password", "db_passwd", "clientSecret", "TOKEN", "private-key", "key-data")))
    assert not any(map(is_secret, ("key", "topologyKey", "tokenFile", "keyFile", "secretRef", "weight")))


def test_a_concealed_struct_shows_nothing():
    class Holder(Concealed, frozen=True):
        token: str = ""

    assert SECRET not in f"{Holder(SECRET)} {Holder(SECRET)!r} {[Holder(SECRET)]}"
    assert msgspec.structs.asdict(Holder(SECRET)) == {"token": SECRET}


@pytest.mark.parametrize(
    "piece", ["://", "://a:b", "-----BEGIN PRIVATE KEY-----", "Bearer ", "eyJ", "?token=", "x://a:@"]
)
def test_no_text_takes_long(piece):
    """What is four times as long takes four times as long; a quadratic pattern would take sixteen times."""
    small, large = piece * (25_000 // len(piece)), piece * (100_000 // len(piece))
    assert times_as_long(lambda: redact(large), lambda: redact(small)) < 8
