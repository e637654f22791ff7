"""Objects that were written are read again as they were."""

import msgspec
import pytest

from berth.api.codec import KINDS
from berth.core.builders import make_node, make_pod
from berth.recording.errors import RecordingError
from berth.recording.objects import APPLIED, LIKE, NEWER, WHOLE, ObjectWriter, RecordedObjects, plain_mapping
from tests.workbench.replay.histories import Churn, RecordedLife

PACK = msgspec.msgpack.Encoder(enc_hook=plain_mapping)


def unreadable(kind, document):
    raise AssertionError(kind)


class Copier:
    """A writer and a reader, with an encoder between them."""

    def __init__(self):
        self.writer, self.reader = ObjectWriter(), RecordedObjects()

    def write(self, obj, *, is_last=False):
        written = self.writer.write(type(obj).__name__, obj, is_last=is_last)
        return msgspec.msgpack.decode(PACK.encode(written))

    def copy(self, obj, *, is_last=False):
        return self.reader.read(self.write(obj, is_last=is_last), unreadable, is_last=is_last)


@pytest.mark.parametrize("make", [lambda path: RecordedLife(path, 3), lambda path: Churn(path, 3)])
def test_all_objects_of_a_history_come_back(tmp_path, make):
    copier, lived = Copier(), make(tmp_path)
    copied = 0
    put = lived.cluster.put

    def putting(obj):
        nonlocal copied
        obj = obj.build() if hasattr(obj, "build") else obj
        if type(obj).__name__ in KINDS:
            copied += 1
            found = copier.copy(obj)
            assert found == obj
            assert msgspec.json.encode(found) == msgspec.json.encode(obj)  # the order in mappings, too
        put(obj)

    lived.cluster.put = putting
    lived.live(150)
    lived.close()
    assert copied > 100


def test_a_binding_is_written_as_the_node_alone():
    copier, pod = Copier(), make_pod("p").request(cpu="1").build()
    assert copier.write(pod)[0] == WHOLE
    bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n"))
    assert copier.write(bound) == [NEWER, 0, [["spec", [["node_name", "n"]], True]]]


def test_a_replica_is_written_as_what_distinguishes_it():
    copier = Copier()
    one, two = (make_pod(name).request(cpu="1").uid(name).build() for name in ("p1", "p2"))
    copier.copy(make_node("n").build())
    copier.copy(one)
    written = copier.write(two)
    assert written[0] == LIKE
    assert sorted(field for field, _ in written[3][0][1]) == ["name", "uid"]
    assert copier.reader.read(written, unreadable) == two


def test_a_replica_of_one_that_is_gone_is_written_whole():
    copier = Copier()
    one, two = (make_pod(name).uid(name).build() for name in ("p1", "p2"))
    assert copier.copy(one) == one
    assert copier.copy(one, is_last=True) == one
    assert copier.copy(two) == two


def test_equal_mappings_of_another_order_are_not_the_same():
    copier = Copier()
    one, two = (
        make_node("n").capacity(amounts).build() for amounts in ({"cpu": 1, "memory": 2}, {"memory": 2, "cpu": 1})
    )
    assert one == two
    copier.copy(one)
    assert list(copier.copy(two).status.allocatable) == list(two.status.allocatable)


def test_secrets_in_annotations_are_not_written_and_still_tell_states_apart():
    copier = Copier()
    pods = [
        make_pod("p").annotation(APPLIED, '{"env": "hunter2"}').annotation("example.com/token", token).build()
        for token in ("hunter2", "hunter3", "hunter3")
    ]
    written = [copier.write(pod) for pod in pods]
    assert b"hunter" not in msgspec.json.encode(written)
    copies = [copier.reader.read(each, unreadable).metadata.annotations for each in written]
    assert copies[0][APPLIED].startswith("[redacted] ")
    assert copies[0][APPLIED] == copies[1][APPLIED]
    assert copies[0]["example.com/token"] != copies[1]["example.com/token"] == copies[2]["example.com/token"]


@pytest.mark.parametrize(
    "written",
    [[], [WHOLE], [WHOLE, 0, "Pod", {"metadata": 3}], [NEWER, 7, []], [LIKE, 1, 5, []], [WHOLE, 0, "Nothing", {}]],
)
def test_what_makes_no_sense_is_an_error(written):
    with pytest.raises(RecordingError, match="cannot be read"):
        RecordedObjects().read(written, unreadable)
