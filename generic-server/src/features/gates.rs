//! The feature gates that v1.36 knows: since which version of Kubernetes each feature is how far and whether it is on, and
//! what setting it does here.

/// How far a feature is. `AllAlpha` and `AllBeta` speak of all that are so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off, and may go again.
    Alpha,
    /// On or off, and may change.
    Beta,
    /// Here to stay.
    Stable,
    /// Goes one day.
    Deprecated,
}

impl Stage {
    /// As help texts and metrics call it; nothing for what is here to stay.
    pub const fn label(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Stable => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }
}

/// What a feature is when nothing is said, and whether anything may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Off.
    Off,
    /// On.
    On,
    /// Off, for everyone.
    LockedOff,
    /// On, for everyone.
    LockedOn,
}

/// A part of a feature's life: the minor version of Kubernetes 1 that it begins with, and what the gate is from there on.
pub type Phase = (u32, Stage, Preset);

/// What setting a gate does, in a version in which it may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This server works both ways.
    Followed,
    /// This server works in one way, whatever the default is. Asking for the other one stops the start.
    Fixed(bool),
    /// It is about other components, or about the insides of upstream's server: no client of this one sees it.
    Unseen,
}

/// One gate.
#[derive(Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Its life, oldest phase first.
    pub phases: &'static [Phase],
    /// What setting it does.
    pub effect: Effect,
}

/// What a gate is in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// How far the feature is.
    pub stage: Stage,
    /// Whether it is on when nothing is said.
    pub default: bool,
    /// Whether nobody may set it to anything but its default.
    pub locked: bool,
}

impl Gate {
    /// What the gate is in a minor version; nothing where that does not have it yet.
    pub fn at(&self, minor: u32) -> Option<Spec> {
        let (_, stage, preset) = *self.phases.iter().rev().find(|(since, ..)| *since <= minor)?;
        let (default, locked) = match preset {
            Off => (false, false),
            On => (true, false),
            LockedOff => (false, true),
            LockedOn => (true, true),
        };
        Some(Spec { stage, default, locked })
    }
}

/// The gate of this name.
pub fn find(name: &str) -> Option<&'static Gate> {
    GATES.iter().find(|gate| gate.name == name)
}

const fn row(name: &'static str, phases: &'static [Phase], effect: Effect) -> Gate {
    Gate { name, phases, effect }
}

use Effect::*;
use Preset::*;
use Stage::*;

/// Sorted by name.
#[rustfmt::skip]
pub static GATES: &[Gate] = &[
    row("AggregatedDiscoveryRemoveBetaType", &[(0, Stable, Off), (33, Deprecated, On), (35, Deprecated, LockedOn)], Fixed(true)),
    row("AllAlpha", &[(0, Alpha, Off)], Followed),
    row("AllBeta", &[(0, Beta, Off)], Followed),
    row("AllowDNSOnlyNodeCSR", &[(0, Stable, On), (31, Deprecated, Off)], Unseen),
    row("AllowInsecureKubeletCertificateSigningRequests", &[(0, Stable, On), (31, Deprecated, Off)], Followed),
    row("AllowOverwriteTerminationGracePeriodSeconds", &[(0, Stable, On), (32, Deprecated, Off), (35, Deprecated, LockedOff)], Fixed(false)),
    row("AllowParsingUserUIDFromCertAuth", &[(33, Beta, On)], Followed),
    row("AllowServiceExternalIPs", &[(0, Stable, On)], Unseen),
    row("AllowUnsafeMalformedObjectDeletion", &[(32, Alpha, Off)], Followed),
    row("AnonymousAuthConfigurableEndpoints", &[(31, Alpha, Off), (32, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("AnyVolumeDataSource", &[(18, Alpha, Off), (24, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("APIResponseCompression", &[(8, Alpha, Off), (16, Beta, On)], Followed),
    row("APIServerIdentity", &[(20, Alpha, Off), (26, Beta, On)], Followed),
    row("APIServerTracing", &[(22, Alpha, Off), (27, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("APIServingWithRoutine", &[(30, Alpha, Off)], Unseen),
    row("AtomicFIFO", &[(36, Beta, On)], Unseen),
    row("AuthorizeNodeWithSelectors", &[(31, Alpha, Off), (32, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("AuthorizePodWebsocketUpgradeCreatePermission", &[(35, Beta, On)], Followed),
    row("AuthorizeWithSelectors", &[(31, Alpha, Off), (32, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("BtreeWatchCache", &[(32, Beta, On), (33, Stable, LockedOn)], Unseen),
    row("CBORServingAndStorage", &[(32, Alpha, Off)], Followed),
    row("ChangeContainerStatusOnKubeletRestart", &[(0, Stable, On), (35, Deprecated, Off)], Unseen),
    row("ClearingNominatedNodeNameAfterBinding", &[(34, Alpha, Off), (35, Beta, On)], Followed),
    row("ClientsAllowCARotation", &[(36, Beta, On)], Unseen),
    row("ClientsAllowCBOR", &[(32, Alpha, Off)], Unseen),
    row("ClientsAllowTLSCacheGC", &[(36, Beta, On)], Unseen),
    row("ClientsPreferCBOR", &[(32, Alpha, Off)], Unseen),
    row("CloudControllerManagerWatchBasedRoutesReconciliation", &[(35, Alpha, Off)], Unseen),
    row("CloudControllerManagerWebhook", &[(27, Alpha, Off)], Unseen),
    row("ClusterTrustBundle", &[(27, Alpha, Off), (33, Beta, Off)], Followed),
    row("ClusterTrustBundleProjection", &[(29, Alpha, Off), (33, Beta, Off)], Followed),
    row("ComponentFlagz", &[(32, Alpha, Off), (36, Beta, On)], Followed),
    row("ComponentStatusz", &[(32, Alpha, Off), (36, Beta, On)], Followed),
    row("ConcurrentWatchObjectDecode", &[(31, Beta, Off)], Unseen),
    row("ConsistentListFromCache", &[(28, Alpha, Off), (31, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("ConstrainedImpersonation", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("ContainerCheckpoint", &[(25, Alpha, Off), (30, Beta, On)], Unseen),
    row("ContainerRestartRules", &[(34, Alpha, Off), (35, Beta, On)], Followed),
    row("ContainerStopSignals", &[(33, Alpha, Off)], Followed),
    row("ContextualLogging", &[(24, Alpha, Off), (30, Beta, On)], Unseen),
    row("ControllerManagerReleaseLeaderElectionLockOnExit", &[(36, Alpha, Off)], Unseen),
    row("CoordinatedLeaderElection", &[(31, Alpha, Off), (33, Beta, Off)], Followed),
    row("CPUManagerPolicyAlphaOptions", &[(23, Alpha, Off)], Unseen),
    row("CPUManagerPolicyBetaOptions", &[(23, Beta, On)], Unseen),
    row("CPUManagerPolicyOptions", &[(22, Alpha, Off), (23, Beta, On), (33, Stable, LockedOn)], Unseen),
    row("CRDObservedGenerationTracking", &[(35, Beta, Off), (36, Beta, On)], Unseen),
    row("CRDValidationRatcheting", &[(28, Alpha, Off), (30, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("CRIListStreaming", &[(36, Alpha, Off)], Unseen),
    row("CrossNamespaceVolumeDataSource", &[(26, Alpha, Off)], Followed),
    row("CSIServiceAccountTokenSecrets", &[(35, Beta, On), (36, Stable, LockedOn)], Followed),
    row("CSIVolumeHealth", &[(21, Alpha, Off)], Unseen),
    row("CustomCPUCFSQuotaPeriod", &[(12, Alpha, Off), (36, Stable, On)], Unseen),
    row("CustomResourceFieldSelectors", &[(30, Alpha, Off), (31, Beta, On), (32, Stable, LockedOn)], Fixed(true)),
    row("DeclarativeValidation", &[(33, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("DeclarativeValidationBeta", &[(36, Beta, On)], Unseen),
    row("DeclarativeValidationTakeover", &[(33, Beta, Off), (36, Deprecated, Off)], Unseen),
    row("DeploymentReplicaSetTerminatingReplicas", &[(33, Alpha, Off), (35, Beta, On)], Followed),
    row("DetectCacheInconsistency", &[(34, Beta, On)], Unseen),
    row("DisableAllocatorDualWrite", &[(31, Alpha, Off), (33, Beta, Off), (34, Stable, On), (35, Stable, LockedOn)], Fixed(true)),
    row("DisableCPUQuotaWithExclusiveCPUs", &[(33, Beta, On), (36, Deprecated, On)], Unseen),
    row("DisableNodeKubeProxyVersion", &[(29, Alpha, Off), (31, Deprecated, Off), (33, Deprecated, On), (36, Deprecated, LockedOn)], Fixed(true)),
    row("DRAAdminAccess", &[(32, Alpha, Off), (34, Beta, On), (36, Stable, LockedOn)], Followed),
    row("DRAConsumableCapacity", &[(34, Alpha, Off), (36, Beta, On)], Followed),
    row("DRADeviceBindingConditions", &[(34, Alpha, Off), (36, Beta, On)], Followed),
    row("DRADeviceTaintRules", &[(35, Alpha, Off), (36, Beta, Off)], Followed),
    row("DRADeviceTaints", &[(33, Alpha, Off), (36, Beta, On)], Followed),
    row("DRAExtendedResource", &[(34, Alpha, Off), (36, Beta, On)], Followed),
    row("DRAListTypeAttributes", &[(36, Alpha, Off)], Followed),
    row("DRANodeAllocatableResources", &[(36, Alpha, Off)], Followed),
    row("DRAPartitionableDevices", &[(33, Alpha, Off), (36, Beta, On)], Followed),
    row("DRAPrioritizedList", &[(33, Alpha, Off), (34, Beta, On), (36, Stable, On)], Followed),
    row("DRAResourceClaimDeviceStatus", &[(32, Alpha, Off), (33, Beta, On)], Followed),
    row("DRAResourceClaimGranularStatusAuthorization", &[(36, Beta, On)], Followed),
    row("DRAResourcePoolStatus", &[(36, Alpha, Off)], Followed),
    row("DRASchedulerFilterTimeout", &[(34, Beta, On)], Unseen),
    row("DRAWorkloadResourceClaims", &[(36, Alpha, Off)], Followed),
    row("DynamicResourceAllocation", &[(26, Alpha, Off), (32, Beta, Off), (34, Stable, On), (35, Stable, LockedOn)], Fixed(true)),
    row("EnvFiles", &[(34, Alpha, Off), (35, Beta, On)], Followed),
    row("EventedPLEG", &[(26, Alpha, Off)], Unseen),
    row("ExecProbeTimeout", &[(20, Stable, On), (35, Stable, LockedOn)], Unseen),
    row("ExtendWebSocketsToKubelet", &[(36, Beta, On)], Followed),
    row("ExternalServiceAccountTokenSigner", &[(32, Alpha, Off), (34, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("GangScheduling", &[(35, Alpha, Off)], Unseen),
    row("GenericWorkload", &[(35, Alpha, Off)], Followed),
    row("GitRepoVolumeDriver", &[(0, Stable, On), (33, Deprecated, Off), (36, Deprecated, LockedOff)], Fixed(false)),
    row("GracefulNodeShutdown", &[(20, Alpha, Off), (21, Beta, On)], Unseen),
    row("GracefulNodeShutdownBasedOnPodPriority", &[(23, Alpha, Off), (24, Beta, On)], Unseen),
    row("HostnameOverride", &[(34, Alpha, Off), (35, Beta, On)], Followed),
    row("HPAConfigurableTolerance", &[(33, Alpha, Off), (35, Beta, On)], Followed),
    row("HPAScaleToZero", &[(16, Alpha, Off)], Followed),
    row("ImageMaximumGCAge", &[(29, Alpha, Off), (30, Beta, On), (35, Stable, LockedOn)], Unseen),
    row("ImageVolume", &[(31, Alpha, Off), (33, Beta, Off), (35, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("ImageVolumeWithDigest", &[(35, Alpha, Off)], Followed),
    row("InformerResourceVersion", &[(30, Alpha, Off), (35, Stable, On)], Unseen),
    row("InOrderInformers", &[(33, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("InOrderInformersBatchProcess", &[(35, Beta, On)], Unseen),
    row("InPlacePodLevelResourcesVerticalScaling", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("InPlacePodVerticalScaling", &[(27, Alpha, Off), (33, Beta, On), (35, Stable, LockedOn)], Fixed(true)),
    row("InPlacePodVerticalScalingExclusiveCPUs", &[(32, Alpha, Off)], Unseen),
    row("InPlacePodVerticalScalingExclusiveMemory", &[(34, Alpha, Off)], Unseen),
    row("InPlacePodVerticalScalingInitContainers", &[(36, Beta, On)], Followed),
    row("JobBackoffLimitPerIndex", &[(28, Alpha, Off), (29, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("JobManagedBy", &[(30, Alpha, Off), (32, Beta, On), (35, Stable, LockedOn)], Fixed(true)),
    row("JobPodReplacementPolicy", &[(28, Alpha, Off), (29, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("JobSuccessPolicy", &[(30, Alpha, Off), (31, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("KMSv1", &[(0, Stable, On), (28, Deprecated, On), (29, Deprecated, Off)], Followed),
    row("KubeletCgroupDriverFromCRI", &[(28, Alpha, Off), (31, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("KubeletCrashLoopBackOffMax", &[(32, Alpha, Off), (35, Beta, On)], Unseen),
    row("KubeletEnsureSecretPulledImages", &[(33, Alpha, Off), (35, Beta, On)], Unseen),
    row("KubeletFineGrainedAuthz", &[(32, Alpha, Off), (33, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("KubeletInUserNamespace", &[(22, Alpha, Off)], Unseen),
    row("KubeletPodResourcesDynamicResources", &[(27, Alpha, Off), (34, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("KubeletPodResourcesGet", &[(27, Alpha, Off), (34, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("KubeletPodResourcesListUseActivePods", &[(0, Stable, Off), (34, Deprecated, On)], Unseen),
    row("KubeletPSI", &[(33, Alpha, Off), (34, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("KubeletRegistrationGetOnExistsOnly", &[(0, Stable, On), (32, Deprecated, Off)], Unseen),
    row("KubeletSeparateDiskGC", &[(29, Alpha, Off), (31, Beta, On)], Unseen),
    row("KubeletServiceAccountTokenForCredentialProviders", &[(33, Alpha, Off), (34, Beta, On)], Followed),
    row("KubeletTracing", &[(25, Alpha, Off), (27, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("ListFromCacheSnapshot", &[(33, Alpha, Off), (34, Beta, On)], Unseen),
    row("LocalStorageCapacityIsolationFSQuotaMonitoring", &[(15, Alpha, Off), (31, Beta, Off)], Unseen),
    row("LogarithmicScaleDown", &[(21, Alpha, Off), (22, Beta, On), (31, Stable, LockedOn)], Unseen),
    row("LoggingAlphaOptions", &[(24, Alpha, Off)], Unseen),
    row("LoggingBetaOptions", &[(24, Beta, On)], Unseen),
    row("ManifestBasedAdmissionControlConfig", &[(36, Alpha, Off)], Followed),
    row("MatchLabelKeysInPodAffinity", &[(29, Alpha, Off), (31, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("MatchLabelKeysInPodTopologySpread", &[(25, Alpha, Off), (27, Beta, On)], Followed),
    row("MatchLabelKeysInPodTopologySpreadSelectorMerge", &[(34, Beta, On)], Followed),
    row("MaxUnavailableStatefulSet", &[(24, Alpha, Off), (35, Beta, Off)], Followed),
    row("MemoryQoS", &[(22, Alpha, Off)], Unseen),
    row("MultiCIDRServiceAllocator", &[(27, Alpha, Off), (31, Beta, Off), (33, Stable, On), (34, Stable, LockedOn)], Fixed(true)),
    row("MutableCSINodeAllocatableCount", &[(33, Alpha, Off), (34, Beta, Off), (35, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("MutablePodResourcesForSuspendedJobs", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("MutablePVNodeAffinity", &[(35, Alpha, Off)], Followed),
    row("MutableSchedulingDirectivesForSuspendedJobs", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("MutatingAdmissionPolicy", &[(32, Alpha, Off), (34, Beta, Off), (36, Stable, On)], Followed),
    row("NativeHistograms", &[(36, Alpha, Off)], Followed),
    row("NFTablesProxyMode", &[(29, Alpha, Off), (31, Beta, On), (33, Stable, LockedOn)], Unseen),
    row("NodeDeclaredFeatures", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("NodeInclusionPolicyInPodTopologySpread", &[(25, Alpha, Off), (26, Beta, On), (33, Stable, LockedOn)], Unseen),
    row("NodeLogQuery", &[(27, Alpha, On), (30, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("NodeSwap", &[(22, Alpha, Off), (28, Beta, Off), (30, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("NominatedNodeNameForExpectation", &[(34, Alpha, Off), (35, Beta, On)], Unseen),
    row("OpenAPIEnums", &[(23, Alpha, Off), (24, Beta, On)], Followed),
    row("OpportunisticBatching", &[(35, Beta, On)], Unseen),
    row("OrderedNamespaceDeletion", &[(30, Beta, Off), (33, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("PersistentVolumeClaimUnusedSinceTime", &[(36, Alpha, Off)], Unseen),
    row("PLEGOnDemandRelist", &[(36, Beta, On)], Unseen),
    row("PodAndContainerStatsFromCRI", &[(23, Alpha, Off)], Unseen),
    row("PodCertificateRequest", &[(34, Alpha, Off), (35, Beta, Off)], Followed),
    row("PodDeletionCost", &[(21, Alpha, Off), (22, Beta, On)], Followed),
    row("PodLevelResourceManagers", &[(36, Alpha, Off)], Unseen),
    row("PodLevelResources", &[(32, Alpha, Off), (34, Beta, On)], Followed),
    row("PodLifecycleSleepAction", &[(29, Alpha, Off), (30, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("PodLifecycleSleepActionAllowZero", &[(32, Alpha, Off), (33, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("PodLogsQuerySplitStreams", &[(32, Alpha, Off)], Followed),
    row("PodObservedGenerationTracking", &[(33, Alpha, Off), (34, Beta, On), (35, Stable, LockedOn)], Fixed(true)),
    row("PodReadyToStartContainersCondition", &[(28, Alpha, Off), (29, Beta, On)], Unseen),
    row("PodsAPI", &[(36, Alpha, Off)], Unseen),
    row("PodSchedulingReadiness", &[(26, Alpha, Off), (27, Beta, On), (30, Stable, LockedOn)], Fixed(true)),
    row("PodTopologyLabelsAdmission", &[(33, Alpha, Off), (35, Beta, On)], Followed),
    row("PortForwardWebsockets", &[(30, Alpha, Off), (31, Beta, On)], Followed),
    row("PreferSameTrafficDistribution", &[(33, Alpha, Off), (34, Beta, On), (35, Stable, LockedOn)], Fixed(true)),
    row("PreventStaticPodAPIReferences", &[(34, Beta, On)], Unseen),
    row("ProcMountType", &[(12, Alpha, Off), (31, Beta, Off), (33, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("QOSReserved", &[(11, Alpha, Off)], Unseen),
    row("RecoverVolumeExpansionFailure", &[(23, Alpha, Off), (32, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("RecursiveReadOnlyMounts", &[(30, Alpha, Off), (31, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("ReduceDefaultCrashLoopBackOffDecay", &[(33, Alpha, Off)], Unseen),
    row("RelaxedDNSSearchValidation", &[(32, Alpha, Off), (33, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("RelaxedEnvironmentVariableValidation", &[(30, Alpha, Off), (32, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("RelaxedServiceNameValidation", &[(34, Alpha, Off), (36, Beta, On)], Followed),
    row("ReloadKubeletClientCAFile", &[(36, Beta, On)], Unseen),
    row("ReloadKubeletServerCertificateFile", &[(31, Beta, On)], Unseen),
    row("RemoteRequestHeaderUID", &[(32, Alpha, Off), (33, Beta, On)], Followed),
    row("ResilientWatchCacheInitialization", &[(31, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("ResourceHealthStatus", &[(31, Alpha, Off), (36, Beta, On)], Followed),
    row("ResourceHealthStatusMessage", &[(36, Beta, On)], Followed),
    row("RestartAllContainersOnContainerExits", &[(35, Alpha, Off), (36, Beta, On)], Followed),
    row("RetryGenerateName", &[(30, Alpha, Off), (31, Beta, On), (32, Stable, LockedOn)], Fixed(true)),
    row("RotateKubeletServerCertificate", &[(7, Alpha, Off), (12, Beta, On)], Unseen),
    row("RuntimeClassInImageCriApi", &[(29, Alpha, Off)], Unseen),
    row("SchedulerAsyncAPICalls", &[(34, Beta, Off)], Unseen),
    row("SchedulerAsyncPreemption", &[(32, Alpha, Off), (33, Beta, On)], Unseen),
    row("SchedulerPopFromBackoffQ", &[(33, Beta, On)], Unseen),
    row("SchedulerQueueingHints", &[(28, Beta, Off), (32, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("SELinuxChangePolicy", &[(32, Alpha, Off), (33, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("SELinuxMount", &[(30, Alpha, Off), (33, Beta, Off)], Followed),
    row("SELinuxMountReadWriteOncePod", &[(25, Alpha, Off), (27, Beta, Off), (28, Beta, On), (36, Stable, LockedOn)], Unseen),
    row("SeparateCacheWatchRPC", &[(28, Beta, On), (33, Deprecated, Off), (36, Deprecated, LockedOff)], Unseen),
    row("SeparateTaintEvictionController", &[(29, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("ServiceAccountNodeAudienceRestriction", &[(32, Beta, Off), (33, Beta, On)], Followed),
    row("ServiceAccountTokenJTI", &[(29, Alpha, Off), (30, Beta, On), (32, Stable, LockedOn)], Fixed(true)),
    row("ServiceAccountTokenNodeBinding", &[(29, Alpha, Off), (31, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("ServiceAccountTokenNodeBindingValidation", &[(29, Alpha, Off), (30, Beta, On), (32, Stable, LockedOn)], Fixed(true)),
    row("ServiceAccountTokenPodNodeInfo", &[(29, Alpha, Off), (30, Beta, On), (32, Stable, LockedOn)], Fixed(true)),
    row("ServiceCIDRStatusFieldWiping", &[(0, Stable, Off), (36, Deprecated, On)], Followed),
    row("ShardedListAndWatch", &[(36, Alpha, Off)], Followed),
    row("SidecarContainers", &[(28, Alpha, Off), (29, Beta, On), (33, Stable, LockedOn)], Fixed(true)),
    row("SizeBasedListCostEstimate", &[(34, Beta, On)], Unseen),
    row("StaleControllerConsistencyDaemonSet", &[(36, Beta, On)], Unseen),
    row("StaleControllerConsistencyJob", &[(36, Beta, On)], Unseen),
    row("StaleControllerConsistencyReplicaSet", &[(36, Beta, On)], Unseen),
    row("StaleControllerConsistencyStatefulSet", &[(36, Beta, On)], Unseen),
    row("StatefulSetSemanticRevisionComparison", &[(0, Beta, On)], Unseen),
    row("StorageCapacityScoring", &[(33, Alpha, Off)], Unseen),
    row("StorageNamespaceIndex", &[(30, Beta, On), (33, Deprecated, On)], Unseen),
    row("StorageVersionAPI", &[(20, Alpha, Off)], Followed),
    row("StorageVersionHash", &[(14, Alpha, Off), (15, Beta, On)], Followed),
    row("StorageVersionMigrator", &[(30, Alpha, Off), (35, Beta, Off)], Followed),
    row("StreamingCollectionEncodingToJSON", &[(33, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("StreamingCollectionEncodingToProtobuf", &[(33, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("StrictIPCIDRValidation", &[(33, Alpha, Off), (36, Beta, On)], Followed),
    row("StructuredAuthenticationConfiguration", &[(29, Alpha, Off), (30, Beta, On), (34, Stable, LockedOn)], Fixed(true)),
    row("StructuredAuthenticationConfigurationEgressSelector", &[(34, Beta, On)], Followed),
    row("StructuredAuthenticationConfigurationJWKSMetrics", &[(35, Beta, On)], Unseen),
    row("SupplementalGroupsPolicy", &[(31, Alpha, Off), (33, Beta, On), (35, Stable, LockedOn)], Fixed(true)),
    row("SystemdWatchdog", &[(32, Beta, On), (35, Stable, LockedOn)], Unseen),
    row("TaintTolerationComparisonOperators", &[(35, Alpha, Off)], Followed),
    row("TokenRequestServiceAccountUIDValidation", &[(34, Beta, On)], Followed),
    row("TopologyAwareWorkloadScheduling", &[(36, Alpha, Off)], Followed),
    row("TopologyManagerPolicyAlphaOptions", &[(26, Alpha, Off)], Unseen),
    row("TopologyManagerPolicyBetaOptions", &[(26, Beta, Off), (28, Beta, On)], Unseen),
    row("TopologyManagerPolicyOptions", &[(26, Alpha, Off), (28, Beta, On), (32, Stable, LockedOn)], Unseen),
    row("TranslateStreamCloseWebsocketRequests", &[(29, Alpha, Off), (30, Beta, On)], Followed),
    row("UnauthenticatedHTTP2DOSMitigation", &[(25, Beta, Off), (29, Beta, On)], Followed),
    row("UnknownVersionInteroperabilityProxy", &[(28, Alpha, Off), (36, Beta, On)], Followed),
    row("UnlockWhileProcessingFIFO", &[(36, Beta, On)], Unseen),
    row("UserNamespacesHostNetworkSupport", &[(35, Alpha, Off)], Followed),
    row("UserNamespacesSupport", &[(25, Alpha, Off), (30, Beta, Off), (33, Beta, On), (36, Stable, LockedOn)], Fixed(true)),
    row("VolumeAttributesClass", &[(29, Alpha, Off), (31, Beta, Off), (34, Stable, On), (36, Stable, LockedOn)], Followed),
    row("VolumeLimitScaling", &[(35, Alpha, Off)], Followed),
    row("WatchCacheInitializationPostStartHook", &[(31, Beta, Off), (36, Beta, On)], Unseen),
    row("WatchList", &[(27, Alpha, Off), (32, Beta, On), (33, Beta, Off), (34, Beta, On)], Followed),
    row("WatchListClient", &[(30, Beta, Off), (35, Beta, On)], Unseen),
    row("WindowsCPUAndMemoryAffinity", &[(32, Alpha, Off)], Unseen),
    row("WindowsGracefulNodeShutdown", &[(32, Alpha, Off), (34, Beta, On)], Unseen),
    row("WindowsHostNetwork", &[(26, Alpha, Off), (33, Deprecated, Off)], Unseen),
    row("WinDSR", &[(14, Alpha, Off), (33, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("WinOverlay", &[(14, Alpha, Off), (20, Beta, On), (34, Stable, LockedOn)], Unseen),
    row("WorkloadAwarePreemption", &[(36, Alpha, Off)], Followed),
    row("WorkloadWithJob", &[(36, Alpha, Off)], Followed),
];
