"""What the documents of all configuration versions have in common: structs, and how they are converted.

`v1`, `legacy.documents` and `legacy.policy` decode with the structs here. None means that the document leaves a field
out, which distinguishes a default from an explicit zero.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from berth.api.redaction import Concealed
from berth.config.durations import Duration
from berth.config.errors import duplicate
from berth.config.types import (
    ClientConnection,
    ExtenderConfig,
    ExtenderTLS,
    ExtensionPoint,
    LeaderElection,
    ManagedResource,
    PluginRef,
    Plugins,
    PluginSet,
)

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

_DEFAULT_EXTENDER_TIMEOUT_S: Final = 5.0


class Doc(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the document's structs."""


class PluginDoc(Doc, frozen=True):
    name: str
    weight: Int32 = 0


class PluginSetDoc(Doc, frozen=True):
    enabled: tuple[PluginDoc, ...] = ()
    disabled: tuple[PluginDoc, ...] = ()


_EMPTY: Final = PluginSetDoc()


class PluginsDoc(Doc, frozen=True):
    multi_point: PluginSetDoc = PluginSetDoc()
    pre_enqueue: PluginSetDoc = PluginSetDoc()
    queue_sort: PluginSetDoc = PluginSetDoc()
    pre_filter: PluginSetDoc = PluginSetDoc()
    filter: PluginSetDoc = PluginSetDoc()
    post_filter: PluginSetDoc = PluginSetDoc()
    pre_score: PluginSetDoc = PluginSetDoc()
    score: PluginSetDoc = PluginSetDoc()
    reserve: PluginSetDoc = PluginSetDoc()
    permit: PluginSetDoc = PluginSetDoc()
    pre_bind: PluginSetDoc = PluginSetDoc()
    bind: PluginSetDoc = PluginSetDoc()
    post_bind: PluginSetDoc = PluginSetDoc()
    placement_generate: PluginSetDoc = PluginSetDoc()
    placement_score: PluginSetDoc = PluginSetDoc()


class PluginConfigDoc(Doc, frozen=True):
    name: str
    args: Any = None


class ExtenderTLSDoc(Concealed, frozen=True, rename="camel"):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ManagedResourceDoc(Doc, frozen=True):
    name: str
    ignored_by_scheduler: bool = False


class ExtenderDoc(Concealed, frozen=True, rename="camel"):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSDoc | None = None
    http_timeout: Duration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResourceDoc, ...] = ()
    ignorable: bool = False


class LeaderElectionDoc(Doc, frozen=True):
    leader_elect: bool = True
    lease_duration: Duration = Duration(0)
    renew_deadline: Duration = Duration(0)
    retry_period: Duration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionDoc(Doc, frozen=True):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


def plugins_of(plugins: Doc | None) -> Plugins | None:
    """Return the plugin sets of a struct with a field for each point, by extension point; an empty set is left out."""
    if plugins is None:
        return None
    sets = {field.name: getattr(plugins, field.name) for field in msgspec.structs.fields(plugins)}
    named = {point: sets.get(point.name.lower()) for point in ExtensionPoint}
    points = {point: _plugin_set(found) for point, found in named.items() if found is not None and found != _EMPTY}
    return Plugins(multi_point=_plugin_set(sets.get("multi_point", _EMPTY)), points=points)


def repeated_plugin_config(configs: Iterable[PluginConfigDoc], path: str) -> Iterable[str]:
    """Report args given twice for one plugin of a profile."""
    seen: set[str] = set()
    for place, config in enumerate(configs):
        if config.name in seen:
            yield duplicate(f"{path}[{place}]", config.name)
        seen.add(config.name)


def _plugin_set(plugin_set: PluginSetDoc) -> PluginSet:
    """Convert one set; the weight of a disabled plugin has no meaning."""
    return PluginSet(
        enabled=tuple(PluginRef(plugin.name, plugin.weight) for plugin in plugin_set.enabled),
        disabled=tuple(PluginRef(plugin.name) for plugin in plugin_set.disabled),
    )


def extender_of(extender: ExtenderDoc) -> ExtenderConfig:
    """One extender; a timeout of zero means the default."""
    tls = extender.tls_config
    return ExtenderConfig(
        url_prefix=extender.url_prefix,
        filter_verb=extender.filter_verb,
        preempt_verb=extender.preempt_verb,
        prioritize_verb=extender.prioritize_verb,
        weight=extender.weight,
        bind_verb=extender.bind_verb,
        enable_https=extender.enable_https,
        tls=None if tls is None else ExtenderTLS(**msgspec.structs.asdict(tls)),
        http_timeout_s=float(extender.http_timeout) or _DEFAULT_EXTENDER_TIMEOUT_S,
        node_cache_capable=extender.node_cache_capable,
        managed_resources=tuple(
            ManagedResource(each.name, each.ignored_by_scheduler) for each in extender.managed_resources
        ),
        ignorable=extender.ignorable,
    )


def leader_election_of(doc: LeaderElectionDoc) -> LeaderElection:
    """Leader election; zero durations and empty names mean the defaults, as upstream."""
    default = LeaderElection()
    return LeaderElection(
        leader_elect=doc.leader_elect,
        lease_duration_s=float(doc.lease_duration) or default.lease_duration_s,
        renew_deadline_s=float(doc.renew_deadline) or default.renew_deadline_s,
        retry_period_s=float(doc.retry_period) or default.retry_period_s,
        resource_lock=doc.resource_lock or default.resource_lock,
        resource_name=doc.resource_name or default.resource_name,
        resource_namespace=doc.resource_namespace or default.resource_namespace,
    )


def client_connection_of(doc: ClientConnectionDoc) -> ClientConnection:
    """The client connection; zero rates mean the defaults, as upstream."""
    default = ClientConnection()
    return ClientConnection(
        kubeconfig=doc.kubeconfig,
        accept_content_types=doc.accept_content_types,
        content_type=doc.content_type or default.content_type,
        qps=doc.qps or default.qps,
        burst=doc.burst or default.burst,
    )
