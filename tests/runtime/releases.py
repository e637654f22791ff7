"""The embedded server as one of an older or newer release: which versions it serves, and the shapes that they have.

The store keeps what v1.36 has. `ReleaseTransport` answers 404 for versions that the release did not serve, says so in
discovery, and converts objects with what the API packages of those releases define. It is written down here a second
time on purpose: what it gives must not come from the code under test.
"""

import json

from berth.api.errors import ApiError
from berth.api.resources import RESOURCES
from berth_cluster.serving.transport import StoreTransport

DEVICES = ("resourceclaims", "resourceslices", "deviceclasses")
RELEASES = {
    "1.30": {"resourceclaims": ["v1alpha2"]},  # dynamic resource allocation of the old kind, with ResourceClasses
    "1.31": {plural: ["v1alpha3"] for plural in DEVICES},
    "1.32": {plural: ["v1beta1", "v1alpha3"] for plural in DEVICES},
    "1.33": {**{plural: ["v1beta1"] for plural in DEVICES}, "devicetaintrules": ["v1alpha3"]},
    "1.33 with v1beta2": {**{plural: ["v1beta2", "v1beta1"] for plural in DEVICES}, "devicetaintrules": ["v1alpha3"]},
    "1.34": {**{plural: ["v1", "v1beta2"] for plural in DEVICES}, "devicetaintrules": ["v1alpha3"]},
    "1.36": {**{plural: ["v1"] for plural in DEVICES}, "devicetaintrules": ["v1beta2"], "podgroups": ["v1alpha2"]},
    "1.37": {**{plural: ["v1"] for plural in DEVICES}, "devicetaintrules": ["v1"], "podgroups": ["v1beta1"]},
}
"""By release, the versions in which it serves what has not always been served as it is today."""
WITHOUT_STREAMS = ("1.30", "1.31", "1.33")
"""The releases whose API server has the gate WatchList off unless told otherwise."""
VARIED = {RESOURCES[kind].plural: RESOURCES[kind]
          for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "PodGroup")}  # fmt: skip
GROUPS = {resource.group for resource in VARIED.values()}
NOT_FOUND = ApiError(404, "NotFound", "the server could not find the requested resource")


class ReleaseTransport:
    """A store's transport, as a server of the release would answer; notes which version each write went to."""

    def __init__(self, store, release):
        self._inner = StoreTransport(store)
        self._serves = RELEASES[release]
        self._streams = not release.startswith(WITHOUT_STREAMS)
        self.writes = []
        self.bind, self.close = self._inner.bind, self._inner.close

    def _stored(self, resource):
        if resource.plural in VARIED:
            if resource.version not in self._serves.get(resource.plural, ()):
                raise NOT_FOUND
            return VARIED[resource.plural]
        return resource

    async def read(self, path):
        _, _, *parts = path.split("/")
        if path.startswith("/api/") or parts[0] not in GROUPS:
            return await self._inner.read(path)
        group = {plural: versions for plural, versions in self._serves.items() if VARIED[plural].group == parts[0]}
        if len(parts) == 1:
            versions = sorted({version for versions in group.values() for version in versions})
            if not versions:
                raise NOT_FOUND
            return json.dumps({"versions": [{"version": version} for version in versions]}).encode()
        names = [plural for plural, versions in group.items() if parts[1] in versions]
        return json.dumps({"resources": [{"name": name, "kind": "X", "namespaced": True} for name in names]}).encode()

    async def list(self, resource, **options):
        page = json.loads(await self._inner.list(self._stored(resource), **options))
        page["items"] = [outward(resource, item) for item in page["items"]]
        return json.dumps(page).encode()

    async def watch(self, resource, **options):
        stored = self._stored(resource)
        if options.get("send_initial_events") and not self._streams:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is on")
        async for line in self._inner.watch(stored, **options):
            event = json.loads(line)
            if event["type"] != "BOOKMARK":
                event["object"] = outward(resource, event["object"])
            yield json.dumps(event).encode()

    async def get(self, resource, namespace, name):
        return self._out(resource, await self._inner.get(self._stored(resource), namespace, name))

    async def create(self, resource, namespace, body, **options):
        body = self._note("create", resource, body)
        return self._out(resource, await self._inner.create(self._stored(resource), namespace, body, **options))

    async def patch(self, resource, namespace, name, body, content_type, **options):
        body = self._note("patch", resource, body)
        stored = self._stored(resource)
        return self._out(resource, await self._inner.patch(stored, namespace, name, body, content_type, **options))

    async def update(self, resource, namespace, name, body, **options):
        return await self._inner.update(self._stored(resource), namespace, name, body, **options)

    async def delete(self, resource, namespace, name, body=b""):
        return await self._inner.delete(self._stored(resource), namespace, name, body)

    def _out(self, resource, answer):
        return json.dumps(outward(resource, json.loads(answer))).encode() if resource.plural in VARIED else answer

    def _note(self, verb, resource, body):
        if resource.plural not in VARIED:
            return body
        document = json.loads(body)
        self.writes.append((verb, resource.plural, resource.version, document))
        return json.dumps(inward(resource, document)).encode()


def outward(resource, obj):
    """What is stored, in the shape of the version."""
    obj = json.loads(json.dumps(obj))
    if "apiVersion" in obj:
        obj["apiVersion"] = resource.api_version
    spec = obj.get("spec", {})
    if resource.version in ("v1beta1", "v1alpha3") and resource.plural == "resourceclaims":
        for request in spec["devices"]["requests"]:
            request.update(request.pop("exactly", {}))
    if resource.version in ("v1beta1", "v1alpha3") and resource.plural == "resourceslices":
        for device in spec.get("devices", ()):
            basic = {key: device.pop(key) for key in list(device) if key != "name"}
            if resource.version == "v1alpha3":
                basic["capacity"] = {name: value["value"] for name, value in basic.get("capacity", {}).items()}
            device["basic"] = basic
    if resource.plural == "podgroups" and resource.version == "v1beta1":
        mode = spec.pop("disruptionMode", None) or "Pod"
        spec["disruptionMode"] = {{"Pod": "single", "PodGroup": "all"}[mode]: {}}
        rename(obj, "PodGroupScheduled", "PodGroupInitiallyScheduled")
    return obj


def inward(resource, document):
    """What is written, in the shape that is stored; the parts that a scheduler writes."""
    document = json.loads(json.dumps(document))
    if "apiVersion" in document:
        assert document["apiVersion"] == resource.api_version
        document["apiVersion"] = VARIED[resource.plural].api_version
    if resource.version in ("v1beta1", "v1alpha3") and resource.plural == "resourceclaims":
        for request in document.get("spec", {}).get("devices", {}).get("requests", ()):
            assert "exactly" not in request
            request["exactly"] = {key: request.pop(key) for key in list(request) if key != "name"}
    if resource.plural == "podgroups" and resource.version == "v1beta1":
        rename(document, "PodGroupInitiallyScheduled", "PodGroupScheduled")
    return document


def rename(document, old, new):
    for condition in document.get("status", {}).get("conditions", ()):
        condition["type"] = new if condition["type"] == old else condition["type"]
