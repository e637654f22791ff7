"""Lists and watch lines taken apart, or refused with the start of what came."""

import pytest

from berth.api.pod import Pod
from berth.kube.wire import MalformedError, ProtobufPod, WireReader, excerpt
from tests import protobuf


def test_a_page():
    body = b'{"metadata":{"resourceVersion":"5","continue":"x","remainingItemCount":9},"items":[{"a":1},[2]]}'
    page = WireReader().list(body)
    assert (page.metadata.resource_version, page.metadata.continue_token) == ("5", "x")
    assert [bytes(item) for item in page.items] == [b'{"a":1}', b"[2]"]


@pytest.mark.parametrize("items", [b"", b',"items":null', b',"items":[]'])
def test_an_empty_page(items):
    assert not WireReader().list(b'{"metadata":{"resourceVersion":"5"}' + items + b"}").items


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>Sign in</html>", "the list cannot be read.*<html>Sign in"),
        (b"", "the list cannot be read"),
        (b'{"metadata":{"resourceVersion":"5"},"items":[{}', "truncated"),
        (b'{"kind":"Status"}', "no metadata.resourceVersion; is this an API server"),
    ],
)
def test_no_page(body, words):
    with pytest.raises(MalformedError, match=words):
        WireReader().list(body)


def test_an_event():
    event = WireReader().event(b'{"type":"ADDED","object":{"kind":"Pod"}}')
    assert (event.type, bytes(event.object)) == ("ADDED", b'{"kind":"Pod"}')


@pytest.mark.parametrize(
    "line", [b"", b"{", b"null", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b'{"type":"A","obj']
)
def test_no_event(line):
    with pytest.raises(MalformedError, match="a watch line is cut short or malformed"):
        WireReader().event(line)


def test_excerpts_are_short_and_printable():
    assert excerpt(b"a\xff\n") == repr("a\ufffd\n")
    assert len(excerpt(b"x" * 10**6)) < 130


def test_one_deep_object_spoils_no_list():
    """A list is read whole as long as an API server, whose limit is Go's 10000 levels, could have written it."""
    deep = b'{"metadata":{"name":"a","managedFields":%s}}' % (b"[" * 9_990 + b"]" * 9_990)
    reader = WireReader()
    page = reader.list(b'{"metadata":{"resourceVersion":"5"},"items":[%s,{"a":1}]}' % deep)
    assert len(page.items) == 2
    assert reader.identity(page.items[0]).name == "a"
    assert reader.event(b'{"type":"ADDED","object":%s}' % deep).type == "ADDED"


@pytest.mark.parametrize("junk", [b"[" * 200_000 + b"]" * 200_000, b'"\xff"'])
def test_junk_is_malformed(junk):
    reader = WireReader()
    for read in (reader.event, reader.identity):
        with pytest.raises(MalformedError):
            read(b'{"type":%s,"metadata":{"name":%s}}' % (junk, junk))
    with pytest.raises(MalformedError):
        reader.list(b'{"metadata":{"resourceVersion":%s}}' % junk)


POD = b'{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"4"}}'


def test_a_page_of_protobuf():
    reader = WireReader(Pod)
    page = reader.list(protobuf.pod_list(b'{"metadata":{"resourceVersion":"5","continue":"x"},"items":[%s]}' % POD))
    assert (page.metadata.resource_version, page.metadata.continue_token) == ("5", "x")
    assert [reader.pod(item).metadata.name for item in page.items] == ["a"]


def test_an_event_in_protobuf():
    reader = WireReader(Pod)
    event = reader.event(protobuf.event(b'{"type":"MODIFIED","object":%s}' % POD))
    assert event.type == "MODIFIED"
    assert reader.pod(event.object).metadata.uid == "u"
    identity = reader.identity(event.object)
    assert (identity.namespace, identity.name, identity.uid, identity.resource_version) == ("ns", "a", "u", "4")


def test_an_error_in_protobuf_is_read_as_json_is():
    line = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}'
    event = WireReader(Pod).event(protobuf.event(line))
    assert (event.type, bytes(event.object)) == ("ERROR", b'{"message":"too old","reason":"Expired","code":410}')


@pytest.mark.parametrize("body", [b"k8s\x00\xff", b"k8s\x00", protobuf.pod_list(b'{"metadata":{}}')])
def test_no_page_of_protobuf(body):
    with pytest.raises(MalformedError):
        WireReader(Pod).list(body)


@pytest.mark.parametrize("frame", [b"\x0a", b"\x0a\x05ADDED", b"\x0a\x05ADDED\x12\x02\x0a\x00", b"<html>"])
def test_no_event_in_protobuf(frame):
    with pytest.raises(MalformedError):
        WireReader(Pod).event(frame)


def test_no_pod_in_protobuf():
    reader = WireReader(Pod)
    for read in (reader.pod, reader.identity):
        with pytest.raises(MalformedError):
            read(ProtobufPod(b"\x0a\xff"))
