# SPDX-License-Identifier: Apache-2.0
"""The permissions that a MultiKueue manager needs in a worker cluster, and no more.

It writes Workloads and jobs, which it creates as copies. It reads queues, to show and to add up
their quota, one namespace, whose UID identifies the cluster, and logs, to show them to the owners
of the jobs. It reads no Secrets and no Nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from .base import Json, Struct
from .config.frameworks import DEPLOYMENT, FRAMEWORKS
from .kueue import GROUP

MANAGERS = "kuota:multikueue-managers"
"""The group on one machine whose members have these permissions."""
ACCOUNT = "kuota-multikueue"
"""The name of the ServiceAccount, the role and the binding in a worker cluster."""
SYSTEM_NAMESPACE = "kube-system"

_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = (*_READ, "create", "update", "patch", "delete")


class Rule(Struct):
    """Verbs on resources of one group, restricted to `names` if there are any."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def json(self) -> Json:
        found: Json = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return found | {"resourceNames": list(self.names)} if self.names else found

    def allows(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        path = f"{resource}/{subresource}" if subresource else resource
        return (
            verb in self.verbs
            and group == self.group
            and path in self.resources
            and (not self.names or name in self.names)
        )


def _rules() -> Iterator[Rule]:
    yield Rule(group=GROUP, resources=("workloads",), verbs=_WRITE)
    yield Rule(group=GROUP, resources=("workloads/status",), verbs=("get", "update", "patch"))
    yield Rule(group=GROUP, resources=("clusterqueues", "localqueues"), verbs=_READ)
    yield Rule(group="", resources=("namespaces",), verbs=("get",), names=(SYSTEM_NAMESPACE,))
    yield Rule(group="", resources=("pods/log",), verbs=("get",))
    plurals: dict[str, list[str]] = {}
    for name, each in FRAMEWORKS.items():
        if name == DEPLOYMENT:
            continue  # Its Pods are dispatched.
        plurals.setdefault(each.group, []).append(each.plural)
    for group, names in sorted(plurals.items()):
        yield Rule(group=group, resources=tuple(sorted(names)), verbs=_WRITE)


WORKER_RULES = tuple(_rules())


def granted(verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
    """Whether the role of a manager includes an access."""
    return any(each.allows(verb, group, resource, subresource, name) for each in WORKER_RULES)


def worker_objects(namespace: str) -> list[Json]:
    """Return the ServiceAccount of a manager, its role, and the binding."""
    meta = {"name": ACCOUNT}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": namespace},
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": meta,
            "rules": [each.json() for each in WORKER_RULES],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [subject],
        },
    ]
