# SPDX-License-Identifier: Apache-2.0
"""Defines Kueue's feature gates: which are enabled, and whether the combination is valid.

Names, stages, defaults and dependencies are those of Kueue 0.20. A gate cannot be enabled while a
gate that it depends on is disabled. Disabling a gate may therefore require disabling its
dependents.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum, auto

import msgspec

from .faults import FieldError, Invalid, invalid

PATH = "featureGates"


class Stage(StrEnum):
    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


class Gate(StrEnum):
    """All feature gates. The value is the name that users write."""

    # A native hash instead of Enum's Python-level one makes `Gates.on` fast.
    __hash__ = str.__hash__

    @staticmethod
    def _generate_next_value_(name: str, *_: object) -> str:
        return name

    AdmissionFairSharing = auto()
    AdmissionGatedBy = auto()
    AssignQueueLabelsForPods = auto()
    CleanupProvisioningRequestsOnEviction = auto()
    ConcurrentAdmission = auto()
    CustomMetricLabels = auto()
    DeferRayServiceFinalizationForRedisCleanup = auto()
    DisableWaitForPodsReady = auto()
    ElasticJobsViaWorkloadSlices = auto()
    ElasticJobsViaWorkloadSlicesWithTAS = auto()
    FailureRecoveryPolicy = auto()
    FairSharingPreemptWithinNominal = auto()
    FairSharingPrioritizeNonBorrowing = auto()
    FastQuotaReleaseInPodIntegration = auto()
    FinishOrphanedWorkloads = auto()
    FlavorFungibility = auto()
    FlavorFungibilityPreserveScanProgress = auto()
    KueueDRAIntegration = auto()
    KueueDRAIntegrationConsumableCapacity = auto()
    KueueDRAIntegrationExtendedResource = auto()
    KueueDRAIntegrationPartitionableDevices = auto()
    KueueDRARejectWorkloadsWhenDRADisabled = auto()
    LWSImmutableGroupSize = auto()
    LocalQueueMetrics = auto()
    ManagedJobsNamespaceSelectorAlwaysRespected = auto()
    MetricForWorkloadCreationLatency = auto()
    MetricsForCohorts = auto()
    MultiKueue = auto()
    MultiKueueAdaptersForCustomJobs = auto()
    MultiKueueClusterProfile = auto()
    MultiKueueIncrementalDispatcherConfig = auto()
    MultiKueueIncrementalDispatcherRespectConfigOrder = auto()
    MultiKueueKubeConfigPathValidation = auto()
    MultiKueueManagerQuotaAutomation = auto()
    MultiKueueOrchestratedPreemption = auto()
    MultiKueueRemoteSpecSync = auto()
    PartialAdmission = auto()
    PodIntegrationValidateGroupOwner = auto()
    PrioritizePreemptorWorkloads = auto()
    PriorityBoost = auto()
    PrioritySortingWithinCohort = auto()
    QuotaCheckStrategy = auto()
    ReclaimablePods = auto()
    RecomputeAssignmentUponPreemptionTargetsOverlap = auto()
    RejectUpdatesToCQWithInvalidOnFlavors = auto()
    RemoveFinalizersWithStrictPatch = auto()
    SchedulerLibraryIntegration = auto()
    SchedulingEquivalenceHashing = auto()
    ShortWorkloadNames = auto()
    SkipAncestorCheckForDeletedWorkloads = auto()
    SkipReassignmentForPodOwnedWorkloads = auto()
    SparkApplicationIntegration = auto()
    TASAssignmentsEncodingByHostnamePrefix = auto()
    TASBalancedPlacement = auto()
    TASCacheNodeMatchResults = auto()
    TASCacheTopologyTree = auto()
    TASCachingRemainingResources = auto()
    TASFailedNodeReplacement = auto()
    TASFailedNodeReplacementFailFast = auto()
    TASHandleOverlappingFlavors = auto()
    TASMultiLayerTopology = auto()
    TASProfileMixed = auto()
    TASRecomputeAssignmentWithinSchedulingCycle = auto()
    TASReplaceNodeDueToNotReadyOverFixedTime = auto()
    TASReplaceNodeOnNodeTaints = auto()
    TASReplaceNodeOnPodTermination = auto()
    TASRespectNodeAffinityPreferred = auto()
    TASValidateWorkloadSliceSize = auto()
    TLSOptions = auto()
    TopologyAwareScheduling = auto()
    UnadmittedWorkloadsExplicitStatus = auto()
    UnadmittedWorkloadsObservability = auto()
    ValidateRayAndSparkJobUpdates = auto()
    VectorizedResourceRequests = auto()
    VisibilityOnDemand = auto()
    WorkloadIdentifierAnnotations = auto()
    WorkloadPriorityClassDefaulting = auto()
    WorkloadRequestUseMergePatch = auto()
    WorkloadValidateResourcesAreNonNegative = auto()
    WorkloadValidationForPodSetMetadata = auto()


_ALPHA = frozenset(
    {
        Gate.ConcurrentAdmission,
        Gate.CustomMetricLabels,
        Gate.DisableWaitForPodsReady,
        Gate.ElasticJobsViaWorkloadSlicesWithTAS,
        Gate.FailureRecoveryPolicy,
        Gate.FastQuotaReleaseInPodIntegration,
        Gate.KueueDRAIntegrationConsumableCapacity,
        Gate.MultiKueueClusterProfile,
        Gate.MultiKueueManagerQuotaAutomation,
        Gate.MultiKueueOrchestratedPreemption,
        Gate.PrioritizePreemptorWorkloads,
        Gate.PriorityBoost,
        Gate.RejectUpdatesToCQWithInvalidOnFlavors,
        Gate.SchedulerLibraryIntegration,
        Gate.ShortWorkloadNames,
        Gate.SparkApplicationIntegration,
        Gate.TASBalancedPlacement,
        Gate.TASRespectNodeAffinityPreferred,
        Gate.WorkloadRequestUseMergePatch,
    }
)
_GA = frozenset({Gate.ManagedJobsNamespaceSelectorAlwaysRespected, Gate.TLSOptions})
_DEPRECATED = frozenset({Gate.TASReplaceNodeDueToNotReadyOverFixedTime})
_BETA_OFF = frozenset({Gate.UnadmittedWorkloadsExplicitStatus})
_NEEDS: dict[Gate, tuple[Gate, ...]] = {
    Gate.ElasticJobsViaWorkloadSlicesWithTAS: (
        Gate.ElasticJobsViaWorkloadSlices,
        Gate.TopologyAwareScheduling,
    ),
    Gate.FlavorFungibilityPreserveScanProgress: (Gate.FlavorFungibility,),
    Gate.KueueDRAIntegrationConsumableCapacity: (Gate.KueueDRAIntegration,),
    Gate.KueueDRAIntegrationExtendedResource: (Gate.KueueDRAIntegration,),
    Gate.KueueDRAIntegrationPartitionableDevices: (Gate.KueueDRAIntegration,),
    Gate.TASBalancedPlacement: (Gate.TopologyAwareScheduling,),
    Gate.TASFailedNodeReplacement: (Gate.TopologyAwareScheduling,),
    Gate.TASFailedNodeReplacementFailFast: (
        Gate.TopologyAwareScheduling,
        Gate.TASFailedNodeReplacement,
    ),
    Gate.TASHandleOverlappingFlavors: (Gate.TopologyAwareScheduling,),
    Gate.TASMultiLayerTopology: (Gate.TopologyAwareScheduling,),
    Gate.TASProfileMixed: (Gate.TopologyAwareScheduling,),
    Gate.TASRecomputeAssignmentWithinSchedulingCycle: (Gate.TopologyAwareScheduling,),
    Gate.TASReplaceNodeDueToNotReadyOverFixedTime: (
        Gate.TopologyAwareScheduling,
        Gate.TASFailedNodeReplacement,
    ),
    Gate.TASReplaceNodeOnNodeTaints: (Gate.TopologyAwareScheduling,),
    Gate.TASReplaceNodeOnPodTermination: (
        Gate.TopologyAwareScheduling,
        Gate.TASFailedNodeReplacement,
    ),
    Gate.TASRespectNodeAffinityPreferred: (Gate.TopologyAwareScheduling,),
    Gate.UnadmittedWorkloadsExplicitStatus: (Gate.UnadmittedWorkloadsObservability,),
}
REMOVED = frozenset(
    {
        "AdmissionCheckValidationRules",
        "ConfigurableResourceTransformations",
        "DRAExtendedResources",
        "ExposeFlavorsInLocalQueue",
        "FlavorFungibilityImplicitPreferenceDefault",
        "HierarchicalCohorts",
        "KeepQuotaForProvReqRetry",
        "LendingLimit",
        "LocalQueueDefaulting",
        "ManagedJobsNamespaceSelector",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueBatchJobWithManagedBy",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
        "MultiplePreemptions",
        "ObjectRetentionPolicies",
        "PropagateBatchJobLabelsToWorkload",
        "ProvisioningACC",
        "QueueVisibility",
        "SanitizePodSets",
        "SchedulerLongRequeueInterval",
        "SchedulerTimestampPreemptionBuffer",
        "SkipFinalizersForPodsSuspendedByParent",
        "TASProfileLeastFreeCapacity",
        "WorkloadResourceRequestsSummary",
    }
)
"""Gates of older Kueue releases that were removed."""


class GateSpec(msgspec.Struct, frozen=True, gc=False):
    """The definition of one gate. `needs` are the gates it depends on."""

    default: bool
    stage: Stage
    locked: bool = False
    needs: tuple[Gate, ...] = ()


def _stage(gate: Gate) -> Stage:
    if gate in _ALPHA:
        return Stage.ALPHA
    if gate in _GA:
        return Stage.GA
    return Stage.DEPRECATED if gate in _DEPRECATED else Stage.BETA


GATES: dict[Gate, GateSpec] = {
    gate: GateSpec(
        default=gate not in _ALPHA | _DEPRECATED | _BETA_OFF,
        stage=_stage(gate),
        locked=gate in _GA,
        needs=_NEEDS.get(gate, ()),
    )
    for gate in Gate
}
_STAGE_KEYS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_DEFAULT = frozenset(gate for gate, spec in GATES.items() if spec.default)


class Gates(msgspec.Struct, frozen=True, gc=False):
    """The enabled gates. `Gates()` has Kueue's defaults."""

    enabled: frozenset[Gate] = _DEFAULT

    def on(self, gate: Gate) -> bool:
        return gate in self.enabled

    @classmethod
    def of(cls, overrides: Mapping[str, bool], *, check: bool = True) -> Gates:
        """Return Kueue's defaults with `overrides`. Raises Invalid with every fault.

        `AllAlpha` and `AllBeta` set a whole stage, except for gates that are named. Without
        `check`, locked gates may be set and dependencies violated, but unknown names still raise
        Invalid.
        """
        errors = _unknown_errors(overrides)
        if check and not errors:
            errors = _locked_errors(overrides) or dependency_errors(_with(overrides))
        if errors:
            raise Invalid(errors)
        return _with(overrides)


DEFAULT_GATES = Gates()


def _with(overrides: Mapping[str, bool]) -> Gates:
    state = {gate: spec.default for gate, spec in GATES.items()}
    for key, stage in _STAGE_KEYS.items():
        if key in overrides:
            state |= {gate: overrides[key] for gate in Gate if GATES[gate].stage is stage}
    state |= {Gate(name): on for name, on in overrides.items() if name not in _STAGE_KEYS}
    return Gates(frozenset(gate for gate, on in state.items() if on))


def _unknown_errors(overrides: Mapping[str, bool]) -> list[FieldError]:
    known = Gate.__members__.keys() | _STAGE_KEYS.keys()
    return [_unknown(name) for name in overrides if name not in known]


def _unknown(name: str) -> FieldError:
    if name in REMOVED:
        return _error(f"feature gate {name} no longer exists", fix=f"remove {name}")
    close = difflib.get_close_matches(name, Gate.__members__, n=1)
    return _error(
        f"unknown feature gate {name}",
        fix=f"did you mean {close[0]}?" if close else "check the spelling",
    )


def _locked_errors(overrides: Mapping[str, bool]) -> list[FieldError]:
    return [
        _error(f"feature gate {name} is locked to {_word(not on)}", fix=f"remove {name}")
        for name, on in overrides.items()
        if name not in _STAGE_KEYS and GATES[Gate(name)].locked and on != GATES[Gate(name)].default
    ]


def dependency_errors(gates: Gates) -> list[FieldError]:
    """Return at most one fault, which names every gate with a missing dependency."""
    broken = {need: dependents for need in Gate if (dependents := _stranded(need, gates))}
    if not broken:
        return []
    message = "; ".join(
        f"{need} is off, but {', '.join(dependents)} cannot be on without it"
        for need, dependents in broken.items()
    )
    off = [gate for gate in Gate if any(gate in dependents for dependents in broken.values())]
    return [_error(message, fix=f"set {_flag(off, False)}, or else {_flag(broken, True)}")]


def _stranded(need: Gate, gates: Gates) -> list[Gate]:
    if gates.on(need):
        return []
    return [gate for gate, spec in GATES.items() if gates.on(gate) and need in spec.needs]


def resolved(flag: str, file: Mapping[str, bool] | None) -> Gates:
    """Return the gates of the flag `--feature-gates` or of the file, never of both.

    Raises Invalid with a single fault that contains all problems, as Kueue reports them.
    """
    if flag and file is not None:
        raise Invalid(
            [_error("set both by --feature-gates and in the file", fix="keep one of the two")]
        )
    try:
        return Gates.of(parse_flag(flag) if flag else file or {})
    except Invalid as rejected:
        if len(rejected.errors) == 1:
            raise
        said = (f"{each.message} ({each.fix})" for each in rejected.errors)
        raise Invalid([_error("; ".join(said), fix="")]) from rejected


_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_flag(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`. Raises Invalid with every malformed entry.

    `Gates.of` checks whether the gates exist. If a gate occurs twice, the last entry applies.
    """
    chosen: dict[str, bool] = {}
    errors: list[FieldError] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        if value in _TRUE | _FALSE:
            chosen[name] = value in _TRUE
        else:
            errors.append(
                _error(f"{entry!r} sets no boolean", fix=f"write {name}=true or {name}=false")
            )
    if errors:
        raise Invalid(errors)
    return chosen


def _flag(gates: Iterable[Gate], on: bool) -> str:
    return ",".join(f"{gate}={_word(on)}" for gate in gates)


def _word(on: bool) -> str:
    return "true" if on else "false"


def _error(message: str, fix: str) -> FieldError:
    return invalid(PATH, None, message, fix)
