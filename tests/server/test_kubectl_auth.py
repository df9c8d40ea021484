# SPDX-License-Identifier: Apache-2.0
"""`kubectl auth`, `kubectl create token` and RBAC manifests with a real kubectl."""

from __future__ import annotations

import pytest

from server.served import Served

TEAM = """
apiVersion: v1
kind: Namespace
metadata: {name: a-ns, labels: {kuota.dev/team: team-a}}
"""


@pytest.fixture(scope="module", autouse=True)
def team(cluster: Served) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=TEAM)


def test_whoami_and_can_i(cluster: Served) -> None:
    assert "ann" in cluster.kubectl("auth", "whoami", "--context", "ann")
    listed = cluster.kubectl("auth", "can-i", "--list", "-n", "a-ns", "--context", "ann")
    rows = {line.split()[0]: line for line in listed.splitlines()}
    assert "create" in rows["pods/exec"]
    assert "create" in rows["serviceaccounts/token"]
    assert "create" not in rows["localqueues.kueue.x-k8s.io"]
    can = ("auth", "can-i", "create", "pods/exec", "-n", "a-ns")
    assert "yes" in cluster.kubectl(*can, "--context", "ann")
    assert "no" in cluster.kubectl(*can, "--context", "bob", code=1)
    assert "yes" in cluster.kubectl(*can, "--as", "ann", "--as-group", "team-a")


def test_a_created_token_is_used_and_reviewed(cluster: Served) -> None:
    cluster.kubectl("create", "serviceaccount", "ci", "-n", "a-ns", "--context", "ann")
    create = ("create", "token", "ci", "-n", "a-ns", "--duration", "20m")
    token = cluster.kubectl(*create, "--context", "ann").strip()
    assert token.startswith("kuota-sa.a-ns.")
    # Without a user of the kubeconfig, whose token would take precedence.
    used = ("--token", token, "--kubeconfig", str(_without_users(cluster)))
    assert "system:serviceaccount:a-ns:ci" in cluster.kubectl("auth", "whoami", *used)
    cluster.kubectl("create", "configmap", "made", "-n", "a-ns", *used)
    assert "orbidden" in cluster.kubectl("get", "pods", "-n", "default", *used, code=1)
    refused = cluster.kubectl("create", "token", "ci", "-n", "a-ns", "--context", "bob", code=1)
    assert "orbidden" in refused
    review = (
        f"{{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {{token: {token}}}}}"
    )
    found = cluster.kubectl("create", "-f", "-", "-o", "yaml", stdin=review)
    assert "authenticated: true" in found


def test_a_binding_is_created_and_the_roles_are_shown(cluster: Served) -> None:
    bind = ("create", "rolebinding", "guests", "-n", "a-ns", "--user", "bob")
    assert "Unsupported value" in cluster.kubectl(*bind, "--clusterrole", "admin", code=1)
    assert "orbidden" in cluster.kubectl(*bind, "--clusterrole", "view", "--context", "ann", code=1)
    cluster.kubectl(*bind, "--clusterrole", "view")
    cluster.kubectl("get", "pods", "-n", "a-ns", "--context", "bob")
    assert "pods/exec" in cluster.kubectl("describe", "clusterrole", "edit", "--context", "ann")
    shown = cluster.kubectl(
        "describe", "rolebinding", "kuota:team", "-n", "a-ns", "--context", "ann"
    )
    assert "team-a" in shown
    refused = cluster.kubectl(
        *("create", "clusterrole", "mine", "--verb=get", "--resource=pods"), code=1
    )
    assert "the roles are fixed" in refused


def _without_users(cluster: Served) -> object:
    path = cluster.directory / "without-users"
    path.write_text(cluster.kubeconfig.read_text().replace("token:", "nothing:"))
    return path
