"""The verbs on stored resources: one method for each, from a parsed request to an answer.

The application (`app`) has done authentication and routing; what is refused here is raised as `StoreError`.
"""

import asyncio
from typing import Any

from aiohttp import web

from berth_cluster.apimachinery.errors import (
    FieldErrors,
    StoreError,
    bad_request,
    method_not_allowed,
    no_such_path,
    not_found,
    too_many_requests,
)
from berth_cluster.apimachinery.field_checks import check_types
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import DEFINITIONS, PODS, ResourceType
from berth_cluster.custom.version import CustomType
from berth_cluster.serving.bodies import delete_options, is_apply, read_body, read_patch, read_typed
from berth_cluster.serving.forms import FORMS, ResponseForm
from berth_cluster.serving.hollow_log import hollow_log
from berth_cluster.serving.listing import Listing, Page, refuse_future
from berth_cluster.serving.negotiation import wanted_form
from berth_cluster.serving.requests import (
    ListOptions,
    Target,
    flag,
    is_dry_run,
    list_options,
    no_streaming_lists,
)
from berth_cluster.serving.responses import (
    add_warnings,
    bytes_response,
    error_response,
    json_response,
    list_meta,
    streamed_response,
    success,
)
from berth_cluster.serving.watching import WatchStream
from berth_cluster.storage.field_managers import Permit, Writer, refuse_untyped
from berth_cluster.storage.metadata import parse_revision
from berth_cluster.storage.store import Store
from berth_cluster.storage.watch import Entry

MAX_WATCHES = 2000  # every write is offered to each of its resource
# Kinds, and groups of kinds, whose deletion answers with the object rather than with a Status.
_RETURNED_WHEN_DELETED = frozenset(
    {"pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "resourcequotas",
     "resource.k8s.io", "storage.k8s.io"}
)  # fmt: skip
# Kinds whose dependents stay unless the request says otherwise.
_ORPHANING = frozenset({"jobs", "replicationcontrollers"})
_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)
_DELETED_AT_ONCE = 50  # objects of a collection, before others have their turn
NOT_FOUND = 404
# Subresources of pods that a kubelet serves from containers.
_NEED_CONTAINERS = frozenset({"attach", "exec", "portforward", "proxy"})


class Handlers:
    """Carries out requests on a store."""

    __slots__ = ("_has_streaming_lists", "_store", "_streams")

    def __init__(self, store: Store, *, has_streaming_lists: bool = True) -> None:
        self._store = store
        self._has_streaming_lists = has_streaming_lists
        self._streams: set[WatchStream] = set()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._streams)

    def stop(self) -> None:
        """End all watches."""
        for stream in tuple(self._streams):
            stream.stop()

    async def handle(
        self, kind: ResourceType, target: Target, request: web.BaseRequest, permit: Permit | None = None
    ) -> web.StreamResponse:
        """Carry out one request; `permit` refuses what its client may not write."""
        if isinstance(kind, CustomType):
            kind.custom.refuse_if_unconverted(kind.kind)
        if kind is PODS and target.subresource == "log" and request.method == "GET":
            pod = self._store.entry(kind, target.namespace, target.name).obj
            return web.Response(text=hollow_log(pod, request.query.get("container", "")))
        if target.subresource and target.subresource not in kind.subresources:
            raise self._no_subresource(kind, target)
        if not target.name:
            return await self._on_collection(kind, target, request, permit)
        if kind.namespaced and not target.namespace:
            raise no_such_path()
        method = request.method
        if method == "GET":
            return self._get(kind, target, request)
        if method in ("PUT", "PATCH"):
            return await self._warned(kind, target, request, permit)
        if method == "DELETE" and not target.subresource:
            return await self._delete(kind, target, request)
        if method == "POST" and target.subresource:
            return await self._act(kind, target, request)
        raise method_not_allowed()

    async def _on_collection(
        self, kind: ResourceType, target: Target, request: web.BaseRequest, permit: Permit | None
    ) -> web.StreamResponse:
        if request.method == "POST" and (target.namespace or not kind.namespaced):
            return await self._warned(kind, target, request, permit)
        if request.method == "DELETE" and (target.namespace or not kind.namespaced):
            return await self._delete_collection(kind, target, request)
        if request.method != "GET":
            raise method_not_allowed()
        options = list_options(request.query)
        return (
            await self._watch(kind, target, options, request)
            if options.watch
            else await self._list(kind, target, options, request)
        )

    def _no_subresource(self, kind: ResourceType, target: Target) -> StoreError:
        """404, but for what people try on running pods (exec, attach, …) an answer that says why it is not there."""
        if kind is not PODS or target.subresource not in _NEED_CONTAINERS:
            return no_such_path()
        self._store.entry(kind, target.namespace, target.name)
        why = f'pod "{target.name}" has no {target.subresource}: hollow nodes run no containers'
        return StoreError(501, "NotImplemented", why)

    # --- reading -------------------------------------------------------------------------------------------------

    def _get(self, kind: ResourceType, target: Target, request: web.BaseRequest) -> web.Response:
        if target.subresource in ("binding", "eviction", "finalize"):
            raise method_not_allowed()
        form = self._form(kind, request)
        if target.subresource == "scale":
            return json_response(self._store.get(kind, target.namespace, target.name, "scale"))
        shown = self._store.shown_entry(kind, target.namespace, target.name)
        return bytes_response(form.one(shown), media_type=form.media_type)

    async def _list(
        self, kind: ResourceType, target: Target, options: ListOptions, request: web.BaseRequest
    ) -> web.StreamResponse:
        form = self._form(kind, request)
        page = await self._page(kind, target, options)
        meta = list_meta(page.revision, page.continue_token, page.remaining)
        self._store.flush()  # since long lists are sent as they are made
        return await streamed_response(request, form.many(page.entries, meta), form.media_type)

    async def _page(self, kind: ResourceType, target: Target, options: ListOptions) -> Page:
        listing = Listing(self._store, kind, target.namespace, options)
        for _ in listing.slices():
            await asyncio.sleep(0)
        assert listing.page is not None
        return listing.page

    async def _watch(
        self, kind: ResourceType, target: Target, options: ListOptions, request: web.BaseRequest
    ) -> web.StreamResponse:
        if len(self._streams) >= MAX_WATCHES:
            raise too_many_requests()
        if options.send_initial_events is not None and not self._has_streaming_lists:
            raise no_streaming_lists()
        asked = parse_revision(options.resource_version)
        refuse_future(self._store.revision, asked)
        form = self._form(kind, request)
        fields = options.field_selector
        if target.name:
            fields = ",".join(part for part in (fields, f"metadata.name={target.name}") if part)
        since = options.resource_version
        if options.send_initial_events is not None and (options.send_initial_events or not asked):
            since = "" if options.send_initial_events else str(self._store.revision)
        watch = self._store.watch(kind, target.namespace, options.label_selector, fields, since)
        stream = WatchStream(watch, options, request, self._store, form)
        self._streams.add(stream)
        try:
            return await stream.run()
        finally:
            self._streams.discard(stream)

    # --- writing -------------------------------------------------------------------------------------------------

    async def _warned(
        self, kind: ResourceType, target: Target, request: web.BaseRequest, permit: Permit | None
    ) -> web.Response:
        """The answer to a write, with warnings, which a refusal has too."""
        warnings: list[str] = []
        writer = _writer(kind, request, warnings)._replace(permit=permit)
        try:
            response = await self._write(kind, target, request, writer)
        except StoreError as error:
            if not warnings:
                raise
            response = error_response(error)
        return add_warnings(response, warnings)

    async def _write(
        self, kind: ResourceType, target: Target, request: web.BaseRequest, writer: Writer
    ) -> web.Response:
        """POST of a new object, PUT and PATCH."""
        method, content_type = request.method, request.headers.get("Content-Type", "")
        if method == "PUT" and target.subresource in ("binding", "eviction"):
            raise method_not_allowed()
        read = read_patch if method == "PATCH" else read_body
        body = await read(kind, request, writer, target.subresource)
        if method == "PATCH" and is_apply(content_type):
            return self._apply(kind, target, request, body, writer)
        place, store = (kind, target.namespace, target.name), self._store
        options: Any = {"dry_run": is_dry_run(request.query), "writer": writer}
        if method == "POST":
            return self._answer(kind, store.create(*place[:2], body, **options), request, 201)
        if method == "PATCH":
            written = store.patch(*place, body, content_type, target.subresource, **options)
        else:
            written = store.update(*place, body, target.subresource, **options)
        return self._answer(kind, written, request, 200)

    def _apply(
        self, kind: ResourceType, target: Target, request: web.BaseRequest, applied: Any, writer: Writer
    ) -> web.Response:
        """Server-side apply: create what is not there, merge into what is."""
        if not isinstance(applied, dict):
            raise bad_request("an apply patch must be an object")
        query = request.query
        if not query.get("fieldManager"):
            errors = FieldErrors()
            errors.required("fieldManager", "is required for apply patch")
            raise errors.refusal("PatchOptions", "meta.k8s.io", "")
        refuse_untyped(kind, applied)
        dry_run = is_dry_run(query)
        writer = writer._replace(is_apply=True, force=flag(query, "force"))
        if self._store.find(kind, target.namespace, target.name) is None:
            if target.subresource:
                raise not_found(kind.plural, kind.group, target.name)
            applied["metadata"] = {**(applied.get("metadata") or {}), "name": target.name}
            check_types(kind, applied, empties=writer.empties)
            made = self._store.create(kind, target.namespace, applied, dry_run=dry_run, writer=writer)
            return self._answer(kind, made, request, 201)
        merged = self._store.apply(
            kind, target.namespace, target.name, applied, writer, target.subresource, dry_run=dry_run
        )
        return self._answer(kind, merged, request, 200)

    async def _delete(self, kind: ResourceType, target: Target, request: web.BaseRequest) -> web.Response:
        options = await delete_options(request)
        dry_run = is_dry_run(request.query) or options.get("dryRun") == ["All"]
        is_open = kind.plural in _ORPHANING and not options.keys() & {"propagationPolicy", "orphanDependents"}
        warnings = [_PRESERVED] if is_open and kind.plural == "jobs" else []
        if is_open:
            options["propagationPolicy"] = "Orphan"
        try:
            gone = self._store.delete(kind, target.namespace, target.name, options, dry_run=dry_run)
        except StoreError as error:
            return add_warnings(error_response(error), warnings)
        remains = self._store.find(kind, target.namespace, target.name) is not None and not dry_run
        is_returned = bool(_RETURNED_WHEN_DELETED & {kind.plural, kind.group}) and kind.kind != "CSIStorageCapacity"
        if remains or is_returned or kind is DEFINITIONS:
            return add_warnings(json_response(gone), warnings)
        return add_warnings(success(kind, gone["metadata"]), warnings)

    async def _delete_collection(
        self, kind: ResourceType, target: Target, request: web.BaseRequest
    ) -> web.StreamResponse:
        options = list_options(request.query)
        delete, dry_run = await delete_options(request), is_dry_run(request.query)
        gone = []
        for number, entry in enumerate((await self._page(kind, target, options)).entries):
            if number % _DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                gone.append(self._store.delete(kind, *entry.place, delete, dry_run=dry_run))
            except StoreError as error:
                if error.status_code != NOT_FOUND:  # somebody else was faster
                    raise
        form, meta = ResponseForm(kind, {}, self._store.clock), list_meta(self._store.revision)
        self._store.flush()
        return await streamed_response(request, form.many([Entry(obj, 0) for obj in gone], meta))

    async def _act(self, kind: ResourceType, target: Target, request: web.BaseRequest) -> web.Response:
        """POST to a pod's binding or eviction."""
        if kind is not PODS or target.subresource not in ("binding", "eviction"):
            raise method_not_allowed()
        is_binding = target.subresource == "binding"
        body = await read_typed(request, "core.v1.Binding" if is_binding else "policy.v1.Eviction")
        act = self._store.bind if is_binding else self._store.evict
        act(target.namespace, target.name, body, dry_run=is_dry_run(request.query))
        return success(code=201)

    def _answer(self, kind: ResourceType, obj: Object, request: web.BaseRequest, status: int) -> web.Response:
        if obj.get("kind") == "Scale":
            return json_response(obj, status)
        form = self._form(kind, request)
        return bytes_response(form.one(Entry(obj, 0)), status, form.media_type)

    def _form(self, kind: ResourceType, request: web.BaseRequest) -> ResponseForm:
        name = wanted_form(request.headers.get("Accept", ""), has_protobuf=not kind.is_custom)
        return FORMS[name](kind, request.query, self._store.clock)


def _writer(kind: ResourceType, request: web.BaseRequest, warnings: list[str]) -> Writer:
    """The client, under the name that it gives itself, or that of its program."""
    program = request.headers.get("User-Agent", "").partition("/")[0]
    return Writer(request.query.get("fieldManager") or program or "unknown", kind.api_version, warnings, empties={})
