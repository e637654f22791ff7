"""Reading protobuf bodies, built here byte by byte after the wire format's documentation."""

import pytest

from berth_cluster.apimachinery import protobuf
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES
from berth_cluster.apimachinery.schema import message, message_of, numbered_types


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def envelope(version, kind, raw):
    return b"k8s\x00" + data(1, data(1, version) + data(2, kind)) + data(2, raw)


def test_a_config_map():
    labels = data(11, data(1, "app") + data(2, "web"))
    meta = data(1, "settings") + data(3, "default") + data(5, "") + data(8, b"") + number(7, 0) + labels
    raw = data(1, meta) + data(2, data(1, "color") + data(2, "red")) + data(3, data(1, "bin") + data(2, b"\x00\x01"))
    assert protobuf.decode(envelope("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default", "labels": {"app": "web"}},
        "data": {"color": "red"},
        "binaryData": {"bin": "AAE="},
    }


def test_a_deployment_with_zero_replicas_and_a_quantity():
    requests = data(2, data(1, "cpu") + data(2, data(1, "100m")))
    container = data(1, "main") + data(2, "nginx") + data(8, requests) + number(16, 0)
    template = data(1, b"") + data(2, data(2, container))
    surge = number(1, 1) + number(2, 0) + data(3, "25%")
    unavailable = number(1, 0) + number(2, 1) + data(3, "")
    strategy = data(1, "RollingUpdate") + data(2, data(1, unavailable) + data(2, surge))
    spec = number(1, 0) + data(3, template) + data(4, strategy) + number(5, 0)
    decoded = protobuf.decode(envelope("apps/v1", "Deployment", data(2, spec) + data(3, b"")))
    assert decoded["spec"] == {
        # A Deployment's replicas are a pointer: zero means zero. minReadySeconds is not: zero means nothing.
        "replicas": 0,
        "template": {
            "metadata": {},
            "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]},
        },
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}},
    }
    assert "status" not in decoded


def test_structs_that_json_has_inline():
    volume = data(1, "scratch") + data(2, data(2, data(1, "")))
    decoded = protobuf.decode(envelope("v1", "Pod", data(2, data(1, volume))))
    assert decoded["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_negative_numbers_and_times():
    meta = data(1, "a") + data(8, number(1, 1_700_000_000) + number(2, 0))
    decoded = protobuf.decode(envelope("scheduling.k8s.io/v1", "PriorityClass", data(1, meta) + number(2, -5)))
    assert decoded["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert decoded["value"] == -5


@pytest.mark.parametrize("name", numbered_types())
def test_every_type_with_numbers_can_be_read(name):
    sent = b"".join(data(at, b"") if is_bytes(one) else number(at, 1) for at, one in message(name).numbers.items())
    read = protobuf._Reader()._message(message(name), sent)
    assert all(isinstance(key, str) for key in read)


def is_bytes(field):
    return field.is_map or field.type not in ("bool", "int32", "int64")


def test_a_quantity_that_says_nothing_is_zero():
    raw = data(2, data(2, data(8, data(2, data(1, "cpu")))))
    resources = protobuf.decode(envelope("v1", "Pod", raw))["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "0"}}


def test_fields_newer_than_the_schema_are_skipped():
    raw = data(1, data(1, "a")) + data(999, "future") + number(998, 1)
    assert protobuf.decode(envelope("v1", "ConfigMap", raw))["metadata"] == {"name": "a"}


def test_delete_options_come_under_any_version():
    decoded = protobuf.decode(envelope("policy/v1", "DeleteOptions", number(1, 0)))
    assert decoded["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"not this", 400, "not in the Kubernetes protobuf format"),
        (b"k8s\x00" + data(1, data(1, "v1") + data(2, "Pod")) + b"\x12\x7f", 400, "the protobuf body is broken"),
        (envelope("v1", "Pod", number(2, 5)), 400, "a field of kubernetes.core.v1.Pod is of another type"),
        (envelope("v1", "Pod", data(1, data(1, b"\xff"))), 400, "the protobuf body is broken"),
        (envelope("v1", b"\xff", b""), 400, "the protobuf body is broken"),
        (envelope("v1", "Pod", data(2, number(900, 0) * 900_000)), 413, "too many values"),
        (envelope("v1", "Pod", data(2, data(2, b"") * 900_000)), 413, "too many values"),
        (envelope("v1", "Pod", data(2, data(2, number(900, 0)) * 90_000)), 413, "too many values"),
        (envelope("example.com/v1", "Gadget", b""), 415, "cannot read Gadget"),
        (envelope("scheduling.k8s.io/v1alpha2", "PodGroup", b""), 415, "application/json"),
    ],
)
def test_bodies_that_cannot_be_read(body, status, why):
    with pytest.raises(StoreError, match=why) as caught:
        protobuf.decode(body)
    assert caught.value.status_code == status


def test_raw_extensions_are_json():
    raw = data(2, data(1, '{"spec": {"a": 1}}')) + number(3, 2)
    decoded = protobuf.decode(envelope("apps/v1", "ControllerRevision", raw))
    assert (decoded["data"], decoded["revision"]) == ({"spec": {"a": 1}}, 2)
    for broken in ("{", "[" * 100_000):
        with pytest.raises(StoreError, match="broken"):
            protobuf.decode(envelope("apps/v1", "ControllerRevision", data(2, data(1, broken))))


def test_the_rules_of_a_webhook_are_structs_in_structs():
    rule = data(1, "CREATE") + data(2, data(1, "apps") + data(2, "v1") + data(3, "deployments"))
    webhook = data(1, "a.example.com") + data(3, rule) + number(7, 5)
    version = "admissionregistration.k8s.io/v1"
    decoded = protobuf.decode(envelope(version, "MutatingWebhookConfiguration", data(2, webhook)))
    rules = [{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]
    assert decoded["webhooks"] == [{"name": "a.example.com", "rules": rules, "timeoutSeconds": 5}]


@pytest.mark.parametrize("kind", RESOURCE_TYPES, ids=lambda kind: kind.kind)
def test_no_part_of_a_kind_that_can_be_read_is_lost(kind):
    known = message_of(kind.group, kind.version, kind.kind)
    read = {field.name for field in known.numbers.values()}
    assert not read or read | {"apiVersion", "kind"} >= set(known.fields)


def test_an_ingress_with_its_rules():
    """The rule's value is a struct that Go embeds; the numbers are those of networking/v1/generated.proto."""
    backend = data(4, data(1, "web") + data(2, data(1, "") + number(2, 80)))
    path = data(1, "/") + data(2, backend) + data(3, "Prefix")
    rule = data(1, "example.com") + data(2, data(1, data(1, path)))
    raw = data(1, data(1, "front")) + data(2, data(3, rule) + data(4, "nginx"))
    assert protobuf.decode(envelope("networking.k8s.io/v1", "Ingress", raw))["spec"] == {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": "example.com",
                "http": {
                    "paths": [
                        {"path": "/", "pathType": "Prefix",
                         "backend": {"service": {"name": "web", "port": {"number": 80}}}}
                    ]
                },
            }
        ],
    }  # fmt: skip
