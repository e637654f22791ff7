"""The API server's application: every request comes in here, is authenticated, routed and answered.

It is one handler for aiohttp's low-level server instead of a table of routes: the paths of the Kubernetes API are
regular, and a request that binds a pod should take little longer than the binding itself.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest

from berth_cluster.apimachinery.errors import (
    StoreError,
    forbidden,
    method_not_allowed,
    no_such_path,
    not_found,
    too_many_requests,
)
from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import METRICS_GROUP, ResourceType
from berth_cluster.custom.version import CustomType
from berth_cluster.serving import access
from berth_cluster.serving.bodies import read_object, read_typed
from berth_cluster.serving.delay import ApiDelay
from berth_cluster.serving.discovery import AGGREGATED, Discovery
from berth_cluster.serving.handlers import Handlers
from berth_cluster.serving.negotiation import not_acceptable, wanted_form
from berth_cluster.serving.openapi import OpenApiDocuments
from berth_cluster.serving.rbac import GROUP as RBAC
from berth_cluster.serving.rbac import ClusterUser, RbacAttributes, RbacAuthorizer
from berth_cluster.serving.rbac_escalation import EscalationCheck
from berth_cluster.serving.requests import Target, flag, is_dry_run, parse_path
from berth_cluster.serving.responses import add_warnings, error_response, json_response, preferred, success
from berth_cluster.storage.store import Store
from berth_cluster.storage.usage import measured

_log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 400  # requests that are no watches, as upstream's --max-requests-inflight

HEALTH_NAMES = ("healthz", "livez", "readyz")
ROOT_PATHS = ("/api", "/apis", "/metrics", "/version")
REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource")
HEALTH_PATHS = tuple(f"/{name}" for name in HEALTH_NAMES)


class Application:
    """Answers requests on one store."""

    __slots__ = (
        "_authenticator",
        "_authorizer",
        "_delay",
        "_discovery",
        "_documents",
        "_handlers",
        "_in_flight",
        "_let_in",
        "_metrics",
        "_release",
        "_requests",
        "_store",
        "_version",
        "address",
        "extra_paths",
    )

    def __init__(
        self,
        store: Store,
        authenticator: access.ClusterAuthenticator,
        release: Release,
        let_in: Callable[[web.BaseRequest], bool],
        delay: ApiDelay | None = None,
    ) -> None:
        """`let_in` is told of each request with a credential, and may refuse it for want of room."""
        self._store = store
        self._let_in = let_in
        self._delay = delay or ApiDelay(store)
        self._in_flight = 0
        self._authenticator = authenticator
        self._authorizer = RbacAuthorizer(store)
        self._metrics = CollectorRegistry(auto_describe=False)
        self._requests = Counter("apiserver_request", "Requests answered.", REQUEST_LABELS, registry=self._metrics)
        self._release = release
        self._version = -1
        self._refresh()
        self._handlers = Handlers(store, has_streaming_lists=release.has_streaming_lists)
        self.address = ""
        # Further paths for GET (debug views) that the operator of the server may add; each returns a JSON value.
        self.extra_paths: dict[str, Callable[[], object]] = {"/debug/bindings": self._bindings}

    def _refresh(self) -> None:
        """Have what the server says about itself follow the custom resources."""
        if self._version != self._store.custom.version:
            self._version = self._store.custom.version
            served = self._store.custom.beside(self._release)
            self._discovery, self._documents = Discovery(served), OpenApiDocuments(served)

    def stop(self) -> None:
        """End the requests that would never end by themselves."""
        self._handlers.stop()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; whatever goes wrong becomes a Status."""
        return preferred(await self._answered(request), request.headers.get("Accept", ""))

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        self._in_flight += 1
        try:
            try:
                return await self._answer(request)
            finally:  # refusals tell of objects, too
                if self._store.is_ahead:
                    await asyncio.sleep(0)  # the requests of one turn share a transaction
                self._store.flush()
        except StoreError as error:
            return error_response(error)
        except web.HTTPException as error:
            return error_response(
                StoreError(error.status, HTTPStatus(error.status).phrase.replace(" ", ""), error.reason)
            )
        except ConnectionError:
            raise
        except Exception:
            _log.exception("%s %s failed because of a bug in the API server", request.method, request.path)
            return error_response(StoreError(500, "InternalError", "an error on the server prevented the request"))
        finally:
            self._in_flight -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.startswith(HEALTH_PATHS) and path.split("/")[1] in HEALTH_NAMES:
            return web.Response(text="ok")
        user = self._authenticator.admit(request.headers.get("Authorization", ""), _certificate(request))
        user = access.impersonated(user, request, partial(self._authorize, user))
        if not self._let_in(request) or self._in_flight - self._handlers.watches > MAX_IN_FLIGHT:
            raise too_many_requests()
        await self._delay.wait()
        if path.startswith(("/api/v1/", "/apis/")):
            resource = _resource_path(path)
            if resource is not None:
                return await self._on_resource(resource, user, request)
        self._authorize(user, RbacAttributes(request.method.lower(), path=path))
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return self._on_other(path.rstrip("/") or "/", request)

    def _authorize(self, user: ClusterUser, asked: RbacAttributes) -> None:
        """Raise 403 unless the user may."""
        if access.MASTERS not in user.groups and not self._authorizer.decide(user, asked)[0]:
            raise refused(user, asked)

    async def _on_resource(self, target: Target, user: ClusterUser, request: web.BaseRequest) -> web.StreamResponse:
        self._authorize(user, _asked(target, request))
        if target.plural in access.REVIEWS.get(target.group, {}) and request.method == "POST":
            if wanted_form(request.headers.get("Accept", "")) not in ("object", "protobuf"):
                raise not_acceptable()
            body = await read_object(request, access.REVIEWS[target.group][target.plural])
            answer = access.review(self._authenticator, self._authorizer, user, target.group, target.plural, body)
            return json_response(answer, 201)
        if (target.plural, target.subresource, request.method) == ("serviceaccounts", "token", "POST"):
            return await self._issue_token(target, request)
        if (target.group, target.plural) == ("", "bindings") and request.method == "POST":
            bound = await self._post_binding(target, request)
            self._count(target, request)
            return bound
        kind = self._release.find(target.group, target.version, target.plural) or self._store.custom.find(
            target.group, target.version, target.plural
        )
        if kind is None:
            raise no_such_path()
        if kind.plural == "namespaces" and not kind.group and target.namespace:
            raise no_such_path()
        if target.group == METRICS_GROUP:
            return self._measured(kind, target, request)
        permit = EscalationCheck(self._authorizer, user, target) if kind.group == RBAC else None
        response = await self._handlers.handle(kind, target, request, permit)
        if isinstance(kind, CustomType) and kind.custom.warning and isinstance(response, web.Response):
            add_warnings(response, [kind.custom.warning])
        self._count(target, request)
        return response

    def _count(self, target: Target, request: web.BaseRequest) -> None:
        """Note a request that was not refused: the names in one that was may be anything, and no metric forgets."""
        verb = _asked(target, request).verb
        verb = verb.upper() if verb in ("list", "watch") else request.method
        self._requests.labels(verb, target.group, target.version, target.plural, target.subresource).inc()

    def _measured(self, kind: ResourceType, target: Target, request: web.BaseRequest) -> web.Response:
        """What pods or nodes use."""
        if request.method != "GET" or flag(request.query, "watch"):
            raise method_not_allowed()
        found = measured(self._store, kind.plural, target.namespace, request.query.get("labelSelector", ""))
        if target.name:
            named = [one for one in found if one["metadata"]["name"] == target.name]
            if not named:
                raise not_found(kind.plural, kind.group, target.name)
            return json_response(named[0])
        listed = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": found}
        return json_response(listed)

    async def _issue_token(self, target: Target, request: web.BaseRequest) -> web.Response:
        asked = await read_typed(request, "authentication.v1.TokenRequest")
        tokens = self._authenticator.account_tokens
        if tokens is None:
            raise no_such_path()
        return json_response(tokens.issue(target.namespace, target.name, asked), 201)

    async def _post_binding(self, target: Target, request: web.BaseRequest) -> web.Response:
        body = await read_typed(request, "core.v1.Binding")
        name = (body.get("metadata") or {}).get("name")
        if not name:
            raise StoreError(422, "Invalid", 'Binding "" is invalid: metadata.name: Required value')
        self._store.bind(target.namespace, name, body, dry_run=is_dry_run(request.query))
        return success(code=201)

    def _on_other(self, path: str, request: web.BaseRequest) -> web.Response:
        self._refresh()
        accept = request.headers.get("Accept", "")
        if path == "/version":
            return json_response(self._discovery.version_info())
        if path in ("/api", "/apis") and _wants_aggregated(accept):
            return json_response(self._discovery.aggregated(core=path == "/api"), content_type=AGGREGATED)
        if path == "/api":
            return json_response(self._discovery.core_versions(self.address))
        if path == "/apis":
            return json_response(self._discovery.group_list())
        if path.startswith(("/api/", "/apis/")):
            return self._group(path)
        if path.startswith("/openapi/"):
            return self._documents.answer(path, accept)
        if path == "/metrics":
            return web.Response(body=generate_latest(self._metrics), headers={"Content-Type": CONTENT_TYPE_LATEST})
        if path in self.extra_paths:
            return json_response(self.extra_paths[path]())
        if path == "/":
            return json_response({"paths": sorted([*ROOT_PATHS, *HEALTH_PATHS, *self.extra_paths])})
        raise no_such_path()

    def _group(self, path: str) -> web.Response:
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) == 2:
            found = self._discovery.resource_list("", parts[1])
        elif len(parts) == 2 and parts[1] in self._discovery.groups():
            found = self._discovery.api_group(parts[1])
        elif len(parts) == 3:
            found = self._discovery.resource_list(parts[1], parts[2])
        else:
            found = None
        if found is None:
            raise no_such_path()
        return json_response(found)

    def _bindings(self) -> object:
        return {"kind": "BindingRecordList", "items": [msgspec.to_builtins(record) for record in self._store.bindings]}


# HTTP method -> verb, for a collection and for one object
_VERBS = MappingProxyType(
    {
        "GET": ("list", "get"),
        "HEAD": ("list", "get"),
        "POST": ("create", "create"),
        "PUT": ("update", "update"),
        "PATCH": ("patch", "patch"),
        "DELETE": ("deletecollection", "delete"),
    }
)


def _asked(target: Target, request: web.BaseRequest) -> RbacAttributes:
    """What a request wants to do, in the words of RBAC."""
    verb = _VERBS.get(request.method, ("", ""))[bool(target.name)]
    if request.method == "GET" and flag(request.query, "watch"):
        verb = "watch"
    return RbacAttributes(verb, target.group, target.plural, target.subresource, target.namespace, target.name)


def refused(user: ClusterUser, asked: RbacAttributes) -> StoreError:
    """403, in upstream's words."""
    if asked.path:
        message = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"'
        return StoreError(403, "Forbidden", message)
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot {asked.verb} resource "{resource}" in API group "{asked.group}" {scope}'
    return forbidden(asked.resource, asked.group, asked.name, why)


def _certificate(request: web.BaseRequest) -> Mapping[str, Any] | None:
    """The verified client certificate of the request's connection, if it has one."""
    transport = request.transport
    return None if transport is None else transport.get_extra_info("peercert")


def _resource_path(path: str) -> Target | None:
    """The target, or None for a path that names a group or version only."""
    depth = path.strip("/").count("/")
    if depth < (2 if path.startswith("/api/") else 3):
        return None
    return parse_path(path)


def _wants_aggregated(accept: str) -> bool:
    return "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")
