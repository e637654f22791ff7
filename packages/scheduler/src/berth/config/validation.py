"""Checks the values of a configuration beyond their types. Called by `load`, and again once flags have been applied.

`validate` yields a sentence for each fault. The rules and the wording are those of kube-scheduler v1.36, and of
client-go's leader election, which refuses such values later. Some sentences also say what would be right.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from berth.api.addresses import sends_in_clear
from berth.api.redaction import redact_url
from berth.config.durations import format_duration_s
from berth.config.errors import duplicate, invalid, required
from berth.config.types import (
    MULTI_POINT,
    ClientConnection,
    ExtenderConfig,
    ExtensionPoint,
    KubeSchedulerProfile,
    LeaderElection,
    SchedulerConfiguration,
)

_JITTER_FACTOR: Final = 1.2

_REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def validate(config: SchedulerConfiguration) -> Iterable[str]:
    """Yield a sentence for everything that is wrong with a configuration, in the order of the document's fields."""
    yield from _client_connection(config.client_connection)
    yield from _leader_election(config.leader_election)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    yield from _profiles(config.profiles)
    if config.generation == "v1.36":
        yield from _removed(config.profiles)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    yield from _backoff(config.pod_initial_backoff_s, config.pod_max_backoff_s)
    yield from _extenders(config.extenders)


def _client_connection(client: ClientConnection) -> Iterable[str]:
    """Check the rates: a negative qps switches the limit off, a negative burst means nothing."""
    if client.burst < 0:
        yield invalid("clientConnection.burst", client.burst, "must be non-negative")


def _leader_election(election: LeaderElection) -> Iterable[str]:
    """Check that the durations decrease, so that a leader gives up before another may take over."""
    if not election.leader_elect:
        return
    path = "leaderElection"
    durations = {
        "leaseDuration": election.lease_duration_s,
        "renewDeadline": election.renew_deadline_s,
        "retryPeriod": election.retry_period_s,
    }
    for name, seconds in durations.items():
        if seconds <= 0:
            yield invalid(f"{path}.{name}", format_duration_s(seconds), "must be greater than zero")
    if election.lease_duration_s <= election.renew_deadline_s:
        shown = format_duration_s(election.lease_duration_s)
        detail = f"must be greater than `RenewDeadline` ({format_duration_s(election.renew_deadline_s)})"
        yield invalid(f"{path}.leaseDuration", shown, detail)
    if election.renew_deadline_s <= election.retry_period_s * _JITTER_FACTOR:
        shown = format_duration_s(election.renew_deadline_s)
        least = format_duration_s(election.retry_period_s * _JITTER_FACTOR)
        yield invalid(f"{path}.renewDeadline", shown, f"must be greater than retryPeriod*{_JITTER_FACTOR} ({least})")
    if election.resource_lock != "leases":
        yield invalid(f"{path}.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')
    for name, value in (("Namespace", election.resource_namespace), ("Name", election.resource_name)):
        if not value:
            yield invalid(f"{path}.resource{name}", value, f"resource{name} is required")


def _percentage(path: str, value: int | None) -> Iterable[str]:
    """A share of the nodes, where one is given."""
    if value is not None and not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0-100]")


def _backoff(initial_s: int, max_s: int) -> Iterable[str]:
    """How long a pod waits after it failed."""
    if initial_s <= 0:
        yield invalid("podInitialBackoffSeconds", initial_s, "must be greater than 0")
    if max_s < initial_s:
        yield invalid("podMaxBackoffSeconds", max_s, "must be greater than or equal to PodInitialBackoffSeconds")


def _profiles(profiles: Sequence[KubeSchedulerProfile]) -> Iterable[str]:
    """Each profile, then what they must have in common."""
    if not profiles:
        yield required("profiles")
        return
    first_with: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        if not profile.scheduler_name:
            yield required(f"{path}.schedulerName")
        yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        if profile.scheduler_name in first_with:
            first = first_with[profile.scheduler_name]
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name) + f": profiles[{first}] has it too"
        first_with.setdefault(profile.scheduler_name, index)
    yield from _shadows(profiles)
    yield from _common_queue_sort(profiles)


def _shadows(profiles: Sequence[KubeSchedulerProfile]) -> Iterable[str]:
    """Shadows, which Berth alone has: each names a profile that is none."""
    plain = {profile.scheduler_name for profile in profiles if profile.shadow is None}
    for index, profile in enumerate(profiles):
        shadow, path = profile.shadow, f"profiles[{index}].shadow"
        if shadow is None:
            continue
        if shadow.of not in plain:
            yield invalid(f"{path}.of", shadow.of, "must be the schedulerName of a profile that is no shadow")
        if not 0 < shadow.percentage <= 100:
            yield invalid(f"{path}.percentage", shadow.percentage, "must be above 0 and at most 100")


def _removed(profiles: Sequence[KubeSchedulerProfile]) -> Iterable[str]:
    """Plugins of older versions, in all profiles."""
    for index, profile in enumerate(profiles):
        yield from _removed_plugins(f"profiles[{index}]", profile)


def _removed_plugins(path: str, profile: KubeSchedulerProfile) -> Iterable[str]:
    """Plugins that older versions had."""
    detail = (
        'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1"); '
        "NodeVolumeLimits does its work"
    )
    sets = ((MULTI_POINT, profile.plugins.multi_point), *profile.plugins.points.items())
    for where, plugin_set in sets:
        for index, plugin in enumerate(plugin_set.enabled):
            if plugin.name in _REMOVED_PLUGINS:
                yield invalid(f"{path}.plugins.{where}.enabled[{index}]", plugin.name, detail)
    for index, name in enumerate(profile.plugin_config):
        if name in _REMOVED_PLUGINS:
            yield invalid(f"{path}.pluginConfig[{index}]", name, detail)


def _common_queue_sort(profiles: Sequence[KubeSchedulerProfile]) -> Iterable[str]:
    """There is one queue, so there is one order: the same queueSort plugin and args in every profile."""
    first = profiles[0].plugins.at(ExtensionPoint.QUEUE_SORT)
    names = [plugin.name for plugin in first.enabled]
    if len(names) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(names), detail)
    for index, profile in enumerate(profiles[1:], start=1):
        here = profile.plugins.at(ExtensionPoint.QUEUE_SORT)
        if here != first:
            shown = [plugin.name for plugin in here.enabled]
            yield invalid(f"profiles[{index}].plugins.queueSort", shown, "must be the same for all profiles")
        if names and _args(profile, names[0]) != _args(profiles[0], names[0]):
            detail = f"queueSort must be the same for all profiles: the args of {names[0]} differ"
            yield invalid(f"profiles[{index}].pluginConfig.args", _args(profile, names[0]), detail)


def _args(profile: KubeSchedulerProfile, name: str) -> Any:
    """A plugin's raw args, where none and an empty mapping are the same."""
    return profile.plugin_config.get(name) or {}


def _extenders(extenders: Sequence[ExtenderConfig]) -> Iterable[str]:
    """Each extender, then what holds for them together."""
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        yield from _url_prefix(path, extender)
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        if extender.http_timeout_s < 0:
            shown = format_duration_s(extender.http_timeout_s)
            yield invalid(f"{path}.httpTimeout", shown, "must not be negative; 0s means the default of 5s")
        for place, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{place}].name"
            yield from _extended_resource_name(where, resource.name)
            if resource.name in seen:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _url_prefix(path: str, extender: ExtenderConfig) -> Iterable[str]:
    """Check where the extender is. As upstream, an empty URL is accepted; each call to it will fail."""
    if not extender.url_prefix:
        return
    detail = "must be an http or https URL with a host, as in http://host:port/scheduler"
    try:
        parts = urlsplit(extender.url_prefix)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # whose text may hold a part of a password
        usable = False
    if not usable:
        yield invalid(f"{path}.urlPrefix", redact_url(extender.url_prefix), detail)
    elif parts.username is not None and sends_in_clear(extender.url_prefix):
        detail = "its user name and password would be sent in clear: use https, or leave them out"
        yield invalid(f"{path}.urlPrefix", redact_url(extender.url_prefix), detail)


def _extended_resource_name(path: str, name: str) -> Iterable[str]:
    """A resource outside Kubernetes' own: `domain/name`."""
    faults = list(_qualified_name_faults(name))
    for fault in faults:
        yield invalid(path, name, fault)
    native = "/" not in name or "kubernetes.io/" in name
    # Quotas name an extended resource with this prefix, and have to stay legal names themselves.
    quota_faults = list(_qualified_name_faults(f"requests.{name}"))
    if not faults and (native or name.startswith("requests.") or quota_faults):
        yield invalid(path, name, "is an invalid extended resource name: write it as example.com/name")


def _qualified_name_faults(name: str) -> Iterable[str]:
    """What keeps a text from being an optional DNS prefix, a slash and a name."""
    prefix, slash, part = name.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        yield "prefix part must be a lowercase DNS name of at most 253 characters, as in example.com"
    if not part:
        yield "name part must be non-empty"
    elif len(part) > 63:
        yield "name part must be no more than 63 characters"
    elif not _NAME_PART.fullmatch(part):
        yield (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
