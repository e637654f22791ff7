"""Pods in protobuf are the structs that the same pods in JSON are.

`recorded_pods.json` has answers of a kube-apiserver v1.36 to the same requests for both formats: for a pod with every
field that is read and that the server takes, for one with next to none, for a bound one, and for one that is being
deleted; a streaming list, and a refusal. It is the source of the numbers of fields. (spec.schedulingGroup is behind a
feature gate and not in it; its number is that of generated.proto.)
"""

import base64
import json
import re

import msgspec
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from berth.api.codec import ObjectError, decode
from berth.api.errors import api_error_from_body
from berth.api.pod import Pod
from berth.api.protobuf_pods import FIELDS, PodReader, identity_of, read_event, read_page, status_json
from berth.api.shared_parts import PodSharing
from tests import protobuf
from tests.paths import ROOT

RECORDED = json.loads((ROOT / "tests/recorded_pods.json").read_text())
NOT_RECORDED = {
    ("PodSpec", "schedulingGroup"), ("PodSchedulingGroup", "podGroupName"),
    ("PodSpec", "activeDeadlineSeconds"), ("PodSpec", "runtimeClassName"),
    ("Container", "securityContext"), ("PodSecurityContext", "seccompProfile"), ("SecurityContext", "seccompProfile"),
    ("SeccompProfile", "type"), ("SeccompProfile", "localhostProfile"),
}  # fmt: skip
"""Fields whose numbers are those of types.go in k8s.io/api/core/v1 alone."""


def recorded(entry):
    return base64.b64decode(entry["protobuf"])


def structs_in(struct):
    """A struct's class and all below it."""
    found, todo = set(), [struct]
    while todo:
        one = todo.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls not in found:
                found.add(one.cls)
                todo += [field.type for field in one.fields]
        elif isinstance(one, msgspec.inspect.UnionType):
            todo += one.types
        elif isinstance(one, msgspec.inspect.VarTupleType):
            todo.append(one.item_type)
    return found


@pytest.mark.parametrize("entry", RECORDED["lists"], ids=lambda entry: entry["json"]["items"][0]["metadata"]["name"])
def test_a_recorded_pod(entry):
    page = read_page(recorded(entry))
    assert page.resource_version == entry["json"]["metadata"]["resourceVersion"]
    read = PodReader()
    for _ in range(2):  # the second time its parts are those of the first
        assert [read.read(item) for item in page.items] == [decode("Pod", one) for one in entry["json"]["items"]]


def test_every_field_is_recorded():
    """Each field of each message of a pod has a value in some record, so that a wrong number would be noticed."""
    seen = set()

    def walk(message):
        for field, value in message.ListFields():
            seen.add((message.DESCRIPTOR.name, field.name))
            if field.message_type is not None:
                for each in value if field.is_repeated else [value]:
                    walk(each)

    for entry in RECORDED["lists"]:
        for item in read_page(recorded(entry)).items:
            walk(protobuf.message_class("Pod").FromString(item))
    wanted = {
        (name, described.split()[1])
        for name in reachable("Pod")
        for described in FIELDS[name].split(", ")
    } - NOT_RECORDED  # fmt: skip
    assert wanted - seen == set()


def reachable(name):
    found, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in FIELDS and one not in found:
            found.add(one)
            todo += [described.split()[2].removeprefix("[]") for described in FIELDS[one].split(", ")]
    return found


def test_every_field_of_the_structs_is_read():
    """A field that a struct of pods gains is one that the table needs, too."""
    in_table = {described.split()[1] for fields in FIELDS.values() for described in fields.split(", ")}
    names = {field.encode_name for struct in structs_in(msgspec.inspect.type_info(Pod))
             for field in msgspec.structs.fields(struct)}  # fmt: skip
    assert names - in_table == set()


texts = st.text(min_size=1, max_size=8)
times = st.sampled_from(["2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"])
quantities = st.sampled_from(["1", "250m", "3Gi", "1e3"])
requests = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), quantities, max_size=2)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": texts},
        optional={
            "image": texts,
            "resources": st.fixed_dictionaries({}, optional={"requests": requests, "limits": requests}),
            "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 9)},
                                                    optional={"protocol": st.just("UDP")}), max_size=2),
        },
    ),
    max_size=3,
)  # fmt: skip
volumes = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": texts, "persistentVolumeClaim": st.fixed_dictionaries({"claimName": texts})}),
        st.fixed_dictionaries({"name": texts, "emptyDir": st.just({})}),
    ),
    max_size=4,
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": texts, "namespace": texts},
            optional={"labels": st.dictionaries(texts, st.text(max_size=4)), "uid": texts,
                      "deletionTimestamp": st.just("2026-01-02T03:04:05Z")},
        ),
        "spec": st.fixed_dictionaries(
            {"containers": containers},
            optional={"nodeName": st.sampled_from(["n1", "n2"]), "volumes": volumes, "priority": st.integers(-3, 3),
                      "hostUsers": st.booleans(), "overhead": requests, "schedulerName": texts,
                      "nodeSelector": st.dictionaries(texts, texts)},
        ),
        "status": st.fixed_dictionaries(
            {}, optional={"phase": texts, "startTime": times}
        ),
    }
)  # fmt: skip


@given(st.lists(pods, max_size=6))
def test_random_pods(documents):
    """With one reader for all, so that some of them share parts, and with the parts of JSON shared as well."""
    read, share = PodReader(), PodSharing()
    for document in documents:
        expected = decode("Pod", document)
        share(expected)
        assert read.read(protobuf.pod(document)) == expected


def test_replicas_share_their_parts():
    """However their tokens' volumes are named, and on whatever nodes they are."""

    def replica(number):
        return {"metadata": {"name": f"p{number}", "labels": {"app": "x"}, "ownerReferences": [{"uid": "u"}]},
                "spec": {"nodeName": f"n{number}", "containers": [{"name": "c"}],
                         "volumes": [{"name": f"token-{number}", "projected": {}}]}}  # fmt: skip

    read = PodReader()
    one, other = (read.read(protobuf.pod(replica(number))) for number in (1, 2))
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert one.spec.containers is other.spec.containers
    assert one.status is other.status
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.owner_references is other.metadata.owner_references


def test_a_bad_quantity_names_the_pod_and_the_field():
    broken = {"metadata": {"name": "p", "namespace": "ns"},
              "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}  # fmt: skip
    read = PodReader()
    for _ in range(2):  # what is bad is not remembered as good
        with pytest.raises(ObjectError, match=r"Pod ns/p: .*requests\[cpu\]"):
            read.read(protobuf.pod(broken))
    assert identity_of(protobuf.pod(broken)) == {"name": "p", "namespace": "ns"}


def test_texts_that_are_not_utf_8_are_mended_as_in_json():
    body = protobuf.pod({"metadata": {"name": "p", "annotations": {"note": "XX"}}, "spec": {"nodeName": "n"}})
    broken = body.replace(b"XX", b"\xff\xfe")
    pod = PodReader().read(broken)
    assert pod.metadata.annotations == {"note": "\ufffd\ufffd"}
    assert pod.spec.node_name == "n"
    assert identity_of(broken)["annotations"] == {"note": "\ufffd\ufffd"}


@pytest.mark.parametrize("seconds", [2**62, -(2**62)])
def test_a_time_that_no_calendar_has(seconds):
    pod = protobuf.message_class("Pod")()
    pod.metadata.name = "p"
    pod.status.startTime.seconds = seconds
    with pytest.raises(ObjectError, match="Pod /p"):
        PodReader().read(pod.SerializeToString())


def test_a_recorded_watch():
    body, read = recorded(RECORDED["watch"]), PodReader()
    for line in RECORDED["watch"]["json"]:
        size = int.from_bytes(body[:4], "big")
        event, body = body[4 : 4 + size], body[4 + size :]
        kind, about = read_event(event)
        expected = decode("Pod", line["object"])
        assert kind == line["type"]
        assert read.read(about) == expected
        assert identity_of(about)["resourceVersion"] == expected.metadata.resource_version
    assert not body
    assert kind == "BOOKMARK" and "k8s.io/initial-events-end" in identity_of(about)["annotations"]


def test_a_recorded_refusal():
    error = api_error_from_body(504, status_json(recorded(RECORDED["refusal"])))
    expected = api_error_from_body(504, json.dumps(RECORDED["refusal"]["json"]).encode())
    # The two were asked for one after the other, and the server had gone on meanwhile.
    told, wanted = (re.sub(r"current: \d+", "current: N", str(each)) for each in (error, expected))
    assert (error.status, error.reason, told) == (expected.status, expected.reason, wanted)
    assert (error.retry_after_s, error.is_ahead_of_server) == (expected.retry_after_s, True)


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00\xff", b"k8s", b"k8s\x00\x12\x05abc"])
def test_no_list(body):
    with pytest.raises(DecodeError):
        read_page(body)
