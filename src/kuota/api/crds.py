# SPDX-License-Identifier: Apache-2.0
"""Generates the CustomResourceDefinitions of the eleven kinds, equal to Kueue's."""

from __future__ import annotations

import msgspec

from .base import Json
from .schema import structural_schema

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
STORED = "v1beta2"


class PrinterColumn(msgspec.Struct, frozen=True):
    """One column of `kubectl get`. `wide` columns show only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


class CrdKind(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a CRD beyond its schema. `converted` kinds need the conversion webhook."""

    name: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool = False
    has_status: bool = False
    converted: bool = False
    warns: bool = True
    columns: tuple[PrinterColumn, ...] = ()
    selectable: tuple[str, ...] = ()

    def columns_in(self, version: str) -> tuple[PrinterColumn, ...]:
        """Return the columns of this version, with renamed fields."""
        if version == STORED:
            return self.columns
        return tuple(
            msgspec.structs.replace(column, path=_OLD_PATHS.get(column.path, column.path))
            for column in self.columns
        )


_OLD_PATHS = {".spec.cohortName": ".spec.cohort"}


def _condition(name: str, type_: str) -> PrinterColumn:
    return PrinterColumn(name, f".status.conditions[?(@.type=='{type_}')].status")


_AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")
_PENDING = PrinterColumn("Pending Workloads", ".status.pendingWorkloads", "integer")
_ADMITTED = PrinterColumn("Admitted Workloads", ".status.admittedWorkloads", "integer")

KINDS = (
    CrdKind(
        name="Workload",
        plural="workloads",
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        has_status=True,
        converted=True,
        columns=(
            PrinterColumn("Queue", ".spec.queueName"),
            PrinterColumn("Reserved in", ".status.admission.clusterQueue"),
            _condition("Admitted", "Admitted"),
            _condition("Finished", "Finished"),
            _AGE,
        ),
        selectable=(".status.admission.clusterQueue",),
    ),
    CrdKind(
        name="ClusterQueue",
        plural="clusterqueues",
        short_names=("cq",),
        has_status=True,
        converted=True,
        columns=(
            PrinterColumn("Cohort", ".spec.cohortName"),
            PrinterColumn("Strategy", ".spec.queueingStrategy", wide=True),
            _PENDING,
            msgspec.structs.replace(_ADMITTED, wide=True),
        ),
    ),
    CrdKind(name="Cohort", plural="cohorts", short_names=("co",), has_status=True, converted=True),
    CrdKind(
        name="LocalQueue",
        plural="localqueues",
        short_names=("queue", "queues", "lq"),
        namespaced=True,
        has_status=True,
        converted=True,
        columns=(PrinterColumn("ClusterQueue", ".spec.clusterQueue"), _PENDING, _ADMITTED),
    ),
    CrdKind(
        name="ResourceFlavor", plural="resourceflavors", short_names=("flavor", "flavors", "rf")
    ),
    CrdKind(name="Topology", plural="topologies", short_names=("topo",)),
    CrdKind(name="AdmissionCheck", plural="admissionchecks", short_names=("ac",), has_status=True),
    CrdKind(
        name="WorkloadPriorityClass",
        plural="workloadpriorityclasses",
        short_names=("wpc",),
        columns=(PrinterColumn("Value", ".value", "integer"),),
    ),
    CrdKind(
        name="ProvisioningRequestConfig",
        plural="provisioningrequestconfigs",
        short_names=("prc",),
    ),
    # Kueue omits the deprecation warning for this kind.
    CrdKind(
        name="MultiKueueConfig", plural="multikueueconfigs", short_names=("mkconf",), warns=False
    ),
    CrdKind(
        name="MultiKueueCluster",
        plural="multikueueclusters",
        short_names=("mkc",),
        has_status=True,
        converted=True,
        columns=(_condition("Connected", "Active"), _AGE),
    ),
)


def crds(version: str | None = None) -> list[Json]:
    """Return one CRD per kind, with both versions, or with only `version`, which is then stored."""
    if version is not None and version not in VERSIONS:
        raise ValueError(f"no version {version!r}: Kueue's versions are v1beta1 and v1beta2")
    return [crd(kind, VERSIONS if version is None else (version,)) for kind in KINDS]


def crd(kind: CrdKind, versions: tuple[str, ...] = VERSIONS) -> Json:
    stored = STORED if STORED in versions else versions[0]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": _conversion(kind.converted and len(versions) > 1),
            "versions": [_version(kind, each, each == stored) for each in versions],
        },
    }


def _names(kind: CrdKind) -> Json:
    return {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "shortNames": list(kind.short_names),
    }


def _conversion(by_webhook: bool) -> Json:
    if not by_webhook:
        return {"strategy": "None"}
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def _version(kind: CrdKind, version: str, stored: bool) -> Json:
    entry: Json = {
        "name": version,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": structural_schema(kind.name, version)},
    }
    if kind.has_status:
        entry["subresources"] = {"status": {}}
    if version == "v1beta1" and kind.warns:
        entry["deprecated"] = True
        entry["deprecationWarning"] = (
            f"{GROUP}/v1beta1 {kind.name} is deprecated; use {GROUP}/v1beta2 {kind.name}"
        )
    columns = [_column(column) for column in kind.columns_in(version)]
    if columns:
        entry["additionalPrinterColumns"] = columns
    if version == STORED and kind.selectable:
        entry["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    return entry


def _column(column: PrinterColumn) -> Json:
    entry: Json = {"name": column.name, "jsonPath": column.path, "type": column.type}
    return entry | {"priority": 1} if column.wide else entry
