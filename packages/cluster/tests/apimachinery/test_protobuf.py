"""Reading and writing protobuf: bodies built byte by byte after the wire format's documentation, records, round trips.

The numbers of fields are those of k8s.io's generated.proto files; which fields are pointers is as in its types.go.
"""

import base64
import json
import struct

import pytest

from berth.api.protobuf_pods import read_page
from berth_cluster.apimachinery import protobuf, protobuf_writing
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.releases import NEWEST_MINOR, OLDEST_MINOR, release
from berth_cluster.apimachinery.schema import message, message_of, numbered_types
from tests.paths import ROOT

RECORDED = json.loads((ROOT / "tests/recorded_pods.json").read_text())
KINDS = {kind for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1) for kind in release(minor).types}


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
    sent = b"".join(
        data(at, b"") if is_bytes(one) else (double if one.type == "double" else number)(at, 1)
        for at, one in message(name).numbers.items()
    )
    read = protobuf._Reader()._message(message(name), sent)
    assert all(isinstance(key, str) for key in read)


def is_bytes(field):
    return field.is_map or field.type not in ("bool", "double", "int32", "int64")


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


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def test_a_definition_with_every_sort_of_schema():
    def schema(*parts):
        return b"".join(parts)

    def prop(name, *parts):
        return data(29, data(1, name) + data(2, schema(*parts)))

    text = data(5, "string")
    spec = schema(
        data(5, "object"),
        prop("size", data(5, "integer"), data(8, data(1, "0")), double(11, 0.0), double(9, 4.5), number(14, 0)),
        prop("mode", text, data(20, data(1, '"a"')) + data(20, data(1, "null")), number(37, 1)),
        prop("list", data(5, "array"), data(24, data(1, text)), data(41, "name"), data(42, "map")),
        prop("map", data(5, "object"), data(30, number(1, 1) + data(2, text))),
        prop("open", data(30, number(1, 1)), number(38, 0)),
        prop("closed", data(30, number(1, 0)), data(3, "#/x"), number(37, 0)),
        prop("tuple", data(24, data(2, text) + data(2, data(5, "integer")))),
        data(32, data(1, "a") + data(2, data(2, "b"))),
        data(44, data(1, "self.size > 0") + data(4, "FieldValueInvalid") + number(6, 0)),
    )
    version = (
        data(1, "v1") + number(2, 1) + number(3, 1) + data(4, data(1, spec)) + data(6, data(1, "A") + number(5, 0))
    )
    hook = data(2, data(1, data(1, "ns") + data(2, "svc") + number(4, 0)) + data(2, b"CA")) + data(3, "v1")
    raw = data(2, data(1, "example.com") + data(7, version) + data(9, data(1, "Webhook") + data(2, hook)))
    decoded = protobuf.decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))
    (found,) = decoded["spec"]["versions"]
    assert found["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 0, "minimum": 0.0, "maximum": 4.5, "minLength": 0},
            "mode": {"type": "string", "enum": ["a", None], "nullable": True},
            "list": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-list-type": "map",
            },
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"additionalProperties": True, "x-kubernetes-preserve-unknown-fields": False},
            "closed": {"additionalProperties": False, "$ref": "#/x"},
            "tuple": {"items": [{"type": "string"}, {"type": "integer"}]},
        },
        "dependencies": {"a": ["b"]},
        "x-kubernetes-validations": [
            {"rule": "self.size > 0", "reason": "FieldValueInvalid", "optionalOldSelf": False}
        ],
    }
    assert found["additionalPrinterColumns"] == [{"name": "A"}]  # its priority is no pointer
    assert decoded["spec"]["conversion"]["webhook"] == {
        "clientConfig": {"service": {"namespace": "ns", "name": "svc", "port": 0}, "caBundle": "Q0E="},
        "conversionReviewVersions": ["v1"],
    }
    assert protobuf.decode(protobuf_writing.encode(decoded)) == decoded


def test_what_a_zero_means_goes_by_the_type():
    attributes = data(2, data(1, "n") + data(2, number(2, 0))) + data(2, data(1, "f") + data(2, number(3, 0)))
    slice_ = data(2, data(6, data(1, "d") + attributes))
    decoded = protobuf.decode(envelope("resource.k8s.io/v1", "ResourceSlice", slice_))
    assert decoded["spec"]["devices"][0]["attributes"] == {"n": {"int": 0}, "f": {"bool": False}}
    claim = protobuf.decode(envelope("v1", "PersistentVolumeClaim", data(2, data(5, ""))))
    assert claim["spec"] == {"storageClassName": ""}  # which is not "the default one"
    volume = protobuf.decode(envelope("v1", "PersistentVolume", data(2, data(6, ""))))
    assert volume["spec"] == {}


def recorded_pods(which):
    pods = read_page(base64.b64decode(which["protobuf"]))[2]
    return list(zip(pods, which["json"]["items"], strict=True))


@pytest.mark.parametrize(
    ("raw", "expected"), [pair for one in RECORDED["lists"] for pair in recorded_pods(one)], ids=lambda _: ""
)
def test_recorded_pods_are_read_as_the_record_has_them_in_json(raw, expected):
    decoded = protobuf.decode(envelope("v1", "Pod", raw))
    expected = {"apiVersion": "v1", "kind": "Pod", **expected}
    assert in_full(decoded) == in_full(expected)
    assert protobuf.decode(protobuf_writing.encode(decoded)) == decoded


def in_full(pod):
    """A pod as the API server would store it, so that what either form leaves out does not count."""
    made = json.loads(json.dumps(pod))
    made["metadata"].pop("managedFields", None)  # which the record leaves out
    FieldCheck("Pod", "v1").run(message("core.v1.Pod"), made)
    return made


@pytest.mark.parametrize("kind", sorted(KINDS, key=repr), ids=lambda kind: f"{kind.group}/{kind.version}/{kind.plural}")
def test_every_kind_goes_through_protobuf_unchanged(kind):
    whole = {"apiVersion": kind.api_version, "kind": kind.kind}
    whole |= filled(message_of(kind.group, kind.version, kind.kind), ())
    assert protobuf.decode(protobuf_writing.encode(whole)) == whole


ANYTHING = {
    "any": {"a": [1, "b"]}, "JSON": [None, {"x": 1.5}], "JSONSchemaPropsOrArray": [{"type": "string"}],
    "JSONSchemaPropsOrBool": True, "JSONSchemaPropsOrStringArray": ["a"], "IntOrString": "50%", "Quantity": "1500m",
    "Time": "2026-01-02T03:04:05Z", "MicroTime": "2026-01-02T03:04:05.678901Z", "string": "text ä ✓", "bytes": "AAE=",
    "bool": True, "int32": -(2**31), "int64": 2**62, "double": -0.5,
}  # fmt: skip


def filled(known, above):
    """An object of a type with a value in every field that protobuf has; types in themselves end empty."""
    made = {}
    for name, field in known.fields.items():
        if name in ("apiVersion", "kind") and known.is_kind:
            continue
        if field.is_scalar:
            value = ANYTHING[field.type]
        elif field.type in above or len(above) > 12:
            continue
        else:
            value = filled(message(field.type), (*above, known.name))
        made[name] = {"k/1": value, "": value} if field.is_map else [value, value] if field.is_list else value
    return made


def test_a_field_is_written_under_its_number():
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}, "immutable": False}
    raw = data(1, data(1, "a")) + data(2, data(1, "x") + data(2, "y")) + number(4, 0)
    about = data(1, data(1, "v1") + data(2, "ConfigMap"))
    assert protobuf_writing.encode(made) == b"k8s\x00" + about + data(2, raw) + data(3, "") + data(4, "")


def test_what_has_no_form_in_protobuf_is_not_written():
    assert protobuf_writing.encode({"apiVersion": "example.com/v1", "kind": "Gadget"}) is None


@pytest.mark.parametrize("value", ["yesterday", "2026-99-01T00:00:00Z"])
def test_times_that_are_none_are_left_out(value):
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "deletionTimestamp": value}}
    assert protobuf.decode(protobuf_writing.encode(made))["metadata"] == {"name": "a"}
