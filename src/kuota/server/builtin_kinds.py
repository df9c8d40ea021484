# SPDX-License-Identifier: Apache-2.0
"""The kinds that are always served: Kubernetes' own, reviews, Kueue's, and job kinds."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api import crds
from kuota.api.schema import structural_schema

from .auth import RBAC
from .builtin_columns import COLUMNS
from .columns import AGE, NAME, kueue_columns
from .job_kinds import job_kinds
from .kinds import VERBS, Kind, Kinds, Scale, Version
from .schemas import with_metadata
from .shapes import reference, resolved

CRD_GROUP = "apiextensions.k8s.io"
ADMISSION_GROUP = "admissionregistration.k8s.io"


def builtin_kinds() -> Kinds:
    """A new registry with every kind that needs no CustomResourceDefinition."""
    return Kinds([*native_kinds(), *_ROLES, *_REVIEWS, *_kueue_kinds(), *job_kinds()])


def native_kinds() -> tuple[Kind, ...]:
    """The kinds of Kubernetes whose objects users write."""
    return (*_CORE, *_OTHERS)


def _native(
    plural: str,
    kind: str,
    *short_names: str,
    group: str = "",
    shape: str = "",
    status: bool = True,
    namespaced: bool = True,
    subresources: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    generations: bool = False,
    storage: str = "",
    verbs: tuple[str, ...] = VERBS,
    scale: Scale | None = None,
) -> Kind:
    served = Version(
        name="v1",
        schema=resolved(reference(shape or kind)),
        shape=shape or kind,
        columns=COLUMNS.get(kind, (NAME, AGE)),
        status=status,
        scale=scale,
    )
    return Kind(
        group=group,
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        short_names=short_names,
        versions=(served,),
        stored="v1",
        namespaced=namespaced,
        categories=categories,
        subresources=(*(("status",) if status else ()), *subresources),
        strategic=True,
        generations=generations,
        storage=storage,
        verbs=verbs,
    )


_CORE = (
    _native("configmaps", "ConfigMap", "cm", status=False),
    _native("events", "Event", "ev", status=False),
    _native("limitranges", "LimitRange", "limits", status=False),
    _native("namespaces", "Namespace", "ns", namespaced=False, subresources=("finalize",)),
    _native("nodes", "Node", "no", namespaced=False),
    _native(
        "pods",
        "Pod",
        "po",
        subresources=("log", "binding", "eviction", "exec", "attach", "portforward"),
        categories=("all",),
        generations=True,
    ),
    _native("resourcequotas", "ResourceQuota", "quota"),
    _native("secrets", "Secret", status=False),
    _native("serviceaccounts", "ServiceAccount", "sa", status=False, subresources=("token",)),
    _native("services", "Service", "svc", categories=("all",)),
)
_OTHERS = (
    *(
        _native(
            f"{kind.lower()}s",
            kind,
            short_name,
            group="apps",
            categories=("all",),
            generations=True,
            subresources=("scale",),
            scale=Scale(".spec.replicas", ".status.replicas"),
        )
        for kind, short_name in (("Deployment", "deploy"), ("StatefulSet", "sts"))
    ),
    _native("replicasets", "ReplicaSet", "rs", group="apps", status=False, categories=("all",)),
    _native("controllerrevisions", "ControllerRevision", group="apps", status=False),
    _native("jobs", "Job", group="batch", categories=("all",), generations=True),
    _native("cronjobs", "CronJob", "cj", group="batch", categories=("all",), generations=True),
    _native(
        "events",
        "Event",
        "ev",
        group="events.k8s.io",
        shape="EventsV1Event",
        status=False,
        storage="events",
    ),
    _native("leases", "Lease", group="coordination.k8s.io", status=False),
    _native(
        "priorityclasses",
        "PriorityClass",
        "pc",
        group="scheduling.k8s.io",
        status=False,
        namespaced=False,
        generations=True,
    ),
    _native("runtimeclasses", "RuntimeClass", group="node.k8s.io", status=False, namespaced=False),
    _native(
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        group=CRD_GROUP,
        namespaced=False,
        categories=("api-extensions",),
        generations=True,
    ),
    _native("rolebindings", "RoleBinding", group=RBAC, status=False),
    _native(
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        group=ADMISSION_GROUP,
        namespaced=False,
        categories=("api-extensions",),
        generations=True,
    ),
    _native(
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        group=ADMISSION_GROUP,
        status=False,
        namespaced=False,
        categories=("api-extensions",),
        generations=True,
    ),
)
_ROLES = tuple(
    _native(f"{kind.lower()}s", kind, group=RBAC, status=False, namespaced=kind == "Role")
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role")
)
"""Kinds that only the server writes."""


_REVIEWS = tuple(
    _native(
        f"{kind.lower()}s",
        kind,
        group=group,
        status=False,
        namespaced=kind.startswith("Local"),
        verbs=("create",),
    )
    for kind, group in (
        ("SelfSubjectReview", "authentication.k8s.io"),
        ("TokenReview", "authentication.k8s.io"),
        ("LocalSubjectAccessReview", "authorization.k8s.io"),
        ("SubjectAccessReview", "authorization.k8s.io"),
        ("SelfSubjectAccessReview", "authorization.k8s.io"),
        ("SelfSubjectRulesReview", "authorization.k8s.io"),
    )
)


def _kueue_kinds() -> Iterator[Kind]:
    for kind in crds.KINDS:
        yield Kind(
            group=crds.GROUP,
            plural=kind.plural,
            kind=kind.name,
            singular=kind.name.lower(),
            short_names=kind.short_names,
            versions=tuple(_kueue_version(kind, each) for each in reversed(crds.VERSIONS)),
            stored=crds.STORED,
            namespaced=kind.namespaced,
            categories=("kueue",),
            subresources=("status",) if kind.has_status else (),
        )


def _kueue_version(kind: crds.CrdKind, version: str) -> Version:
    current = f"{crds.GROUP}/{crds.STORED} {kind.name}"
    warning = f"{crds.GROUP}/{version} {kind.name} is deprecated; use {current}"
    return Version(
        name=version,
        schema=with_metadata(structural_schema(kind.name, version)),
        columns=kueue_columns(kind, version),
        status=kind.has_status,
        warnings=(warning,) if version != crds.STORED and kind.warns else (),
        selectable=kind.selectable,
    )
