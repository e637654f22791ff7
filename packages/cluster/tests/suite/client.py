"""What the specs are told with: the official client, every kind by its name, and objects as plain JSON.

The client's own classes know no custom resources and drop unknown fields; here its transport and its credentials are
used, and paths are found by discovery, as client-go's dynamic client finds them.
"""

import json
from functools import partial
from urllib.parse import urlencode

import pytest

from tests.waiting import WAIT_S, eventually

kubernetes = pytest.importorskip("kubernetes", reason="the official client is not installed")

PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


def spec(*names):
    """Say which specs of upstream's suite a test mirrors; `test_list.py` holds the document to it."""

    def mark(test):
        test.specs = names
        return test

    return mark


class RefusedError(Exception):
    """The API server's Status when it is not a success."""

    def __init__(self, code, status):
        super().__init__(status.get("message"))
        self.code = code
        self.reason = status.get("reason")
        self.message = status.get("message", "")
        self.details = status.get("details") or {}


class Client:
    """One caller of an API server, in one namespace."""

    def __init__(self, kubeconfig, namespace="default", _api=None):
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        if _api is None:
            configuration = kubernetes.client.Configuration()
            kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
            _api = kubernetes.client.ApiClient(configuration)
        self._api = _api

    def in_namespace(self, name):
        return Client(self.kubeconfig, name, self._api)

    def close(self):
        self._api.rest_client.pool_manager.clear()

    # --- requests ------------------------------------------------------------------------------------------------

    def open(self, method, path, body=None, query=None, **headers):
        """The answer to a request, which may go on; RefusedError if it is no success."""
        head = {"Accept": "application/json", "Content-Type": "application/json"}
        head |= {name.replace("_", "-"): value for name, value in headers.items()}
        address = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        self._api.update_params_for_auth(head, [], ["BearerToken"], path, method, body)
        if isinstance(body, (bytes, str)):
            body = body.encode() if isinstance(body, str) else body
        elif body is not None:
            body = json.dumps(body).encode()
        manager = self._api.rest_client.pool_manager
        answer = manager.request(method, address, body=body, headers=head, preload_content=False, retries=False)
        if answer.status >= 400:
            text = answer.read()
            answer.release_conn()
            try:
                raise RefusedError(answer.status, json.loads(text))
            except ValueError:
                raise RefusedError(answer.status, {"message": text.decode()}) from None
        return answer

    def call(self, method, path, body=None, query=None, **headers):
        answer = self.open(method, path, body, query, **headers)
        try:
            return json.loads(answer.read())
        finally:
            answer.release_conn()

    def path_of(self, kind, name="", subresource="", everywhere=False):
        group_version, plural, namespaced = self._find(kind)
        parts = ["/api" if group_version == "v1" else "/apis", group_version]
        if namespaced and not everywhere:
            parts += ["namespaces", self.namespace]
        return "/".join(part for part in (*parts, plural, name, subresource) if part)

    def _find(self, kind):
        """Group, version and plural of a kind, which may be written `group/version/Kind`."""
        wanted, _, name = kind.rpartition("/")
        versions = [wanted] if wanted else ["v1", *self.group_versions()]
        for version in versions:
            root = "/api/" if version == "v1" else "/apis/"
            for one in self.call("GET", root + version)["resources"]:
                if one["kind"] == name and "/" not in one["name"]:
                    return version, one["name"], one["namespaced"]
        raise LookupError(f"no {kind} is served")

    def group_versions(self):
        return [group["preferredVersion"]["groupVersion"] for group in self.call("GET", "/apis")["groups"]]

    # --- verbs ---------------------------------------------------------------------------------------------------

    def create(self, obj, subresource_of="", **query):
        kind = kind_of(obj)
        path = self.path_of(kind, subresource_of)
        return self.call("POST", path, obj, query)

    def read(self, kind, name, subresource=""):
        return self.call("GET", self.path_of(kind, name, subresource))

    def listing(self, kind, everywhere=False, **query):
        return self.call("GET", self.path_of(kind, everywhere=everywhere), None, query)

    def list(self, kind, everywhere=False, **query):
        found = self.listing(kind, everywhere, **query)
        said = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [said | one for one in found["items"]]

    def names(self, kind, **query):
        return [one["metadata"]["name"] for one in self.list(kind, **query)]

    def update(self, obj, subresource="", **query):
        path = self.path_of(kind_of(obj), obj["metadata"]["name"], subresource)
        return self.call("PUT", path, obj, query)

    def patch(self, kind, name, patch, subresource="", how="merge", **query):
        path = self.path_of(kind, name, subresource)
        return self.call("PATCH", path, patch, query, Content_Type=PATCHES[how])

    def delete(self, kind, name, **options):
        return self.call("DELETE", self.path_of(kind, name), options or None)

    def delete_all(self, kind, **query):
        return self.call("DELETE", self.path_of(kind), None, query)

    def watch(self, kind, until, everywhere=False, **query):
        """What a watch says until `until` is true of all that it has said, as (type, object)."""
        seen = []
        query = {"watch": "true", "timeoutSeconds": int(WAIT_S)} | query
        answer = self.open("GET", self.path_of(kind, everywhere=everywhere), None, query)
        try:
            for line in lines_of(answer):
                event = json.loads(line)
                seen.append((event["type"], event["object"]))
                if until(seen):
                    return seen
        finally:
            answer.close()
        raise AssertionError(f"the watch ended, and had said {seen}")

    # --- waiting -------------------------------------------------------------------------------------------------

    def until(self, kind, name, question):
        """The object, once a question about it is true."""

        def look():
            obj = self.read(kind, name)
            return obj if question(obj) else None

        return eventually(look)

    def until_gone(self, kind, name):
        eventually(lambda: not self.exists(kind, name))

    def exists(self, kind, name):
        try:
            self.read(kind, name)
        except RefusedError as error:
            if error.code != 404:
                raise
            return False
        return True

    def until_running(self, *names):
        for name in names:
            self.until("Pod", name, is_running)

    def until_count(self, kind, count, question=lambda _: True, **query):
        def look():
            found = [one for one in self.list(kind, **query) if question(one)]
            return found if len(found) == count else None

        if count == 0:
            eventually(lambda: not [one for one in self.list(kind, **query) if question(one)])
            return []
        return eventually(look)


def lines_of(answer):
    rest = b""
    for chunk in iter(partial(answer.read1, 65536), b""):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def kind_of(obj):
    version = obj.get("apiVersion", "")
    return f"{version}/{obj['kind']}" if version else obj["kind"]


def is_running(pod):
    return pod.get("status", {}).get("phase") == "Running"


def condition(obj, name):
    """The status of a condition, or None."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((one["status"] for one in conditions if one["type"] == name), None)


def refused(call, *arguments, **named):
    """What a call is refused with."""
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **named)
    return caught.value


def pod(name, **fields):
    """A pod that pauses; `labels` and `annotations` are its metadata, the rest its spec."""
    metadata = {key: fields.pop(key) for key in ("labels", "annotations", "finalizers", "namespace") if key in fields}
    resources = fields.pop("resources", {})
    ports = fields.pop("ports", [])
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources, "ports": ports}
    fields.setdefault("containers", [container])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": fields}


def template(labels, **fields):
    made = pod("", labels=labels, **fields)
    return {"metadata": {"labels": labels}, "spec": made["spec"]}


def workload(kind, name, replicas=None, labels=None, **fields):
    """A workload of pods that pause; `of` are fields of the pods."""
    labels = labels or {"app": name}
    versions = {"ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}
    made = template(labels, **fields.pop("of", {}))
    body = {"selector": {"matchLabels": labels}, "template": made, **fields}
    if kind == "ReplicationController":
        body["selector"] = labels
    if replicas is not None:
        body["replicas"] = replicas
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, "spec": body}


def both(resource, amount):
    """Requests and limits of one resource."""
    return {"requests": {resource: amount}, "limits": {resource: amount}}
