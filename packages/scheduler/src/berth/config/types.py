"""The internal configuration: what every document version is converted to and what the engine reads.

`berth.config.load` produces a `SchedulerConfiguration`; the registry, the engine and the live process read
it. Defaults are filled in and values are validated by the time one is handed out, with two exceptions:
plugin args stay as the JSON they came in (see `plugin_args`), and plugins stay as the merged sets of the
document, since expanding `multiPoint` takes the registry (see `defaults.resolve_plugins`). Durations are
seconds.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from berth.api.redaction import Concealed
from berth.config.feature_gates import FeatureGates

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

GenerationName = Literal["v1.36", "v1.20"]
"""The kube-scheduler release whose rules apply; the document's apiVersion decides it."""


class ExtensionPoint(StrEnum):
    """The extension points of the scheduling framework by their names in documents, in running order."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"


MULTI_POINT: Final = "multiPoint"
"""Not a point of its own: a plugin enabled here is enabled at every point it implements."""


class PluginRef(msgspec.Struct, frozen=True):
    """A plugin named in a plugin set; `weight` counts for scoring only, and 0 means unset."""

    name: str
    weight: int = 0


class PluginSet(msgspec.Struct, frozen=True):
    """What is enabled and disabled at one extension point; a disabled `*` stands for every default."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(msgspec.Struct, frozen=True):
    """A plugin set for `multiPoint` and one for each extension point that has any."""

    multi_point: PluginSet = PluginSet()
    points: Mapping[ExtensionPoint, PluginSet] = {}

    def at(self, point: ExtensionPoint) -> PluginSet:
        """The set of one extension point, empty where the document says nothing."""
        return self.points.get(point, PluginSet())


class Shadow(msgspec.Struct, frozen=True):
    """A profile that decides beside another and binds nothing: whose pods it looks at, and which share of them."""

    of: str
    """The scheduler name of the profile that it is the shadow of."""
    percentage: float = 100.0


class KubeSchedulerProfile(msgspec.Struct, frozen=True):
    """How the pods of one scheduler name are scheduled.

    `plugins` are the defaults merged with the document's; `plugin_config` holds the args of each plugin that
    the document configures, as plain JSON values.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: Mapping[str, Any] = {}
    shadow: Shadow | None = None
    """Set where the profile only watches another (an extension of Berth's)."""


class ExtenderTLS(Concealed, frozen=True):
    """How to talk TLS to an extender; the data fields hold PEM bytes and win over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ManagedResource(msgspec.Struct, frozen=True):
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderConfig(Concealed, frozen=True):
    """An HTTP process that takes part in scheduling; an empty verb means that it does not do that part."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls: ExtenderTLS | None = None
    http_timeout_s: float = 5.0
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class LeaderElection(msgspec.Struct, frozen=True):
    """Which Lease the scheduler must hold before it schedules, and at what pace it is renewed."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(msgspec.Struct, frozen=True):
    """How to reach the API server, and how often a second (`qps`, with bursts of `burst` requests)."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class SchedulerConfiguration(msgspec.Struct, frozen=True):
    """Everything that a document says about the scheduler.

    `percentage_of_nodes_to_score` is None where the document leaves it out, and then every node is scored; an
    explicit 0 asks for upstream's adaptive formula, 1 to 100 for that share.
    """

    profiles: tuple[KubeSchedulerProfile, ...]
    extenders: tuple[ExtenderConfig, ...] = ()
    parallelism: int = 16
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_s: int = 1
    pod_max_backoff_s: int = 10
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    delay_cache_until_active: bool = False
    feature_gates: FeatureGates = FeatureGates()
    checks_all_filters: bool = False
    """Whether every filter is asked about a node that one has rejected already: `alwaysCheckAllPredicates`."""
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    """Where v1.20 serves in plain HTTP, as `host:port`; empty for its defaults."""
    policy_config_map: tuple[str, str] | None = None
    """Namespace and name of the ConfigMap with a Policy, still to be read and laid over the profiles."""
    generation: GenerationName = "v1.36"
    source: str = ""
    """What messages call the document: the file it was read from."""
