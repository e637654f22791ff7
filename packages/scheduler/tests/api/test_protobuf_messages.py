"""Messages from tables; bytes are put together by hand, after the wire format's documentation."""

import pytest
from google.protobuf.message import DecodeError

from berth.api.protobuf_messages import message_classes

TABLE = {
    "Point": "1 x int64, 2 label string, 3 seen bool",
    "Line": "1 points []Point, 4 counts []uint64, 15 raw bytes",
}


def test_what_is_written():
    points = [{"x": 0}, {"x": 300, "label": "b"}]
    line = message_classes("drawn", TABLE)["Line"](points=points, counts=[1, 300], raw=b"\xff")
    first, second = b"\x0a\x02\x08\x00", b"\x0a\x06\x08\xac\x02\x12\x01b"
    assert line.SerializeToString() == first + second + b"\x22\x03\x01\xac\x02" + b"\x7a\x01\xff"


def test_what_was_there_is_told_from_what_was_not():
    point = message_classes("drawn", TABLE)["Point"].FromString(b"\x08\x00")
    assert [(field.name, value) for field, value in point.ListFields()] == [("x", 0)]


def test_texts_must_be_utf_8():
    with pytest.raises(DecodeError):
        message_classes("drawn", TABLE)["Point"].FromString(b"\x12\x01\xff")
