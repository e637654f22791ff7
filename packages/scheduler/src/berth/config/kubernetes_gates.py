"""Every feature gate that kube-scheduler v1.36 knows: name, stage, default, lock, and which others it depends on.

The stock binary is built with the gates of all components, so that one `--feature-gates` can be given to all of them.
`feature_gates` reads this table; which of the gates switch something in this scheduler is said there. The facts are
those of v1.36: `kube-scheduler --help` for alpha and beta, test/compatibility_lifecycle/reference/feature_list.md for
the rest and for the dependencies.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Stage(StrEnum):
    """How far a feature has come; alpha and beta can be switched as a group."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class FeatureSpec(NamedTuple):
    """What is known of one gate: its default in its release, its stage, and whether it is fixed to that default."""

    default: bool
    stage: Stage
    locked: bool = False


ALPHA: Final = FeatureSpec(default=False, stage=Stage.ALPHA)
BETA: Final = FeatureSpec(default=True, stage=Stage.BETA)
BETA_OFF: Final = FeatureSpec(default=False, stage=Stage.BETA)
GA: Final = FeatureSpec(default=True, stage=Stage.GA)
LOCKED: Final = FeatureSpec(default=True, stage=Stage.GA, locked=True)
DEPRECATED_ON: Final = FeatureSpec(default=True, stage=Stage.DEPRECATED)
DEPRECATED_OFF: Final = FeatureSpec(default=False, stage=Stage.DEPRECATED)
LOCKED_DEPRECATED_ON: Final = FeatureSpec(default=True, stage=Stage.DEPRECATED, locked=True)
LOCKED_DEPRECATED_OFF: Final = FeatureSpec(default=False, stage=Stage.DEPRECATED, locked=True)

_NAMES: Final[tuple[tuple[FeatureSpec, str], ...]] = (
    (
        ALPHA,
        """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
        CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRAListTypeAttributes
        DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling
        GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
        PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
        VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
        """,
    ),
    (
        BETA,
        """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
        ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
        DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
        ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
        HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess
        InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures NominatedNodeNameForExpectation
        OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost PodLevelResources
        PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
        SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
        StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook
        WatchList WatchListClient WindowsGracefulNodeShutdown
        """,
    ),
    (
        BETA_OFF,
        """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
        DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
        """,
    ),
    (
        GA,
        """
        AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
        MutatingAdmissionPolicy
        """,
    ),
    (
        LOCKED,
        """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
        AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
        CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
        DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
        JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
        LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
        NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
        PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
        RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
        SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
        VolumeAttributesClass WinDSR WinOverlay
        """,
    ),
    (
        DEPRECATED_ON,
        """
        DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
        """,
    ),
    (
        DEPRECATED_OFF,
        """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
        DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
        """,
    ),
    (LOCKED_DEPRECATED_ON, "AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion"),
    (
        LOCKED_DEPRECATED_OFF,
        "AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC",
    ),
)

_DEPENDENCIES: Final = """
    AuthorizeNodeWithSelectors: AuthorizeWithSelectors
    ClusterTrustBundleProjection: ClusterTrustBundle
    DRAAdminAccess: DynamicResourceAllocation
    DRAConsumableCapacity: DynamicResourceAllocation
    DRADeviceBindingConditions: DynamicResourceAllocation DRAResourceClaimDeviceStatus
    DRADeviceTaintRules: DRADeviceTaints
    DRADeviceTaints: DynamicResourceAllocation
    DRAExtendedResource: DynamicResourceAllocation
    DRAListTypeAttributes: DynamicResourceAllocation
    DRANodeAllocatableResources: DynamicResourceAllocation
    DRAPartitionableDevices: DynamicResourceAllocation
    DRAPrioritizedList: DynamicResourceAllocation
    DRAResourceClaimGranularStatusAuthorization: DynamicResourceAllocation DRAResourceClaimDeviceStatus
    DRAResourcePoolStatus: DynamicResourceAllocation
    DRASchedulerFilterTimeout: DynamicResourceAllocation
    DRAWorkloadResourceClaims: DynamicResourceAllocation GenericWorkload
    DeclarativeValidationBeta: DeclarativeValidation
    DeclarativeValidationTakeover: DeclarativeValidation
    DisableAllocatorDualWrite: MultiCIDRServiceAllocator
    ExtendWebSocketsToKubelet: NodeDeclaredFeatures
    GangScheduling: GenericWorkload
    GracefulNodeShutdownBasedOnPodPriority: GracefulNodeShutdown
    ImageVolumeWithDigest: ImageVolume
    InPlacePodLevelResourcesVerticalScaling: InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources
    InPlacePodVerticalScalingExclusiveCPUs: InPlacePodVerticalScaling
    InPlacePodVerticalScalingExclusiveMemory: InPlacePodVerticalScaling
    InPlacePodVerticalScalingInitContainers: InPlacePodVerticalScaling NodeDeclaredFeatures
    MatchLabelKeysInPodTopologySpreadSelectorMerge: MatchLabelKeysInPodTopologySpread
    PodCertificateRequest: AuthorizeNodeWithSelectors
    PodLevelResourceManagers: PodLevelResources
    PodLifecycleSleepActionAllowZero: PodLifecycleSleepAction
    ProcMountType: UserNamespacesSupport
    ResourceHealthStatus: DynamicResourceAllocation
    ResourceHealthStatusMessage: ResourceHealthStatus
    RestartAllContainersOnContainerExits: ContainerRestartRules NodeDeclaredFeatures
    ServiceAccountTokenNodeBinding: ServiceAccountTokenNodeBindingValidation
    StaleControllerConsistencyDaemonSet: AtomicFIFO
    StaleControllerConsistencyJob: AtomicFIFO
    StaleControllerConsistencyReplicaSet: AtomicFIFO
    StaleControllerConsistencyStatefulSet: AtomicFIFO
    StorageVersionAPI: APIServerIdentity
    TopologyAwareWorkloadScheduling: GenericWorkload
    UnknownVersionInteroperabilityProxy: APIServerIdentity
    UserNamespacesHostNetworkSupport: NodeDeclaredFeatures UserNamespacesSupport
    WindowsGracefulNodeShutdown: GracefulNodeShutdown
    WorkloadAwarePreemption: GangScheduling
    WorkloadWithJob: GenericWorkload
"""


def _specs() -> Iterator[tuple[str, FeatureSpec]]:
    return ((name, spec) for spec, names in _NAMES for name in names.split())


def _needs() -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in _DEPENDENCIES.split("\n"):
        name, _, needs = line.partition(":")
        if needs:
            yield name.strip(), tuple(needs.split())


KUBERNETES_GATES: Final[Mapping[str, FeatureSpec]] = MappingProxyType(dict(sorted(_specs())))
"""What is known of each gate of v1.36, by name."""

DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(dict(_needs()))
"""The gates that must be on for a gate to be on; gates that depend on none are left out."""
