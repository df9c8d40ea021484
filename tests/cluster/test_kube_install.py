# SPDX-License-Identifier: Apache-2.0
"""An installation on a real API server: install, run with its own roles, uninstall."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cluster.audited import Audited, conversing, create, until
from cluster.granted_requests import nodes_are_requested
from cluster.kube_server import ADMIN_TOKEN, KubeServer, free_port, programs
from control.objects import condition, flavor, job, local_queue, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.cli.main import main
from kuota.install.network import api_services
from kuota.install.objects import DEPLOYMENTS, objects, resource_of
from kuota.install.settings import CONTROLLER, NAMESPACE, Settings
from kuota.kube.client import Client
from kuota.kube.errors import Forbidden, NotFound
from kuota.kube.requests import PatchType
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Resource,
    key_of,
)

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{CONTROLLER}"
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
MANAGER = Path(__file__).parents[2] / "image" / "manager"
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """A server of our own: what is installed here, and taken out, is for the whole of it."""
    made = Audited(tmp_path_factory.mktemp("install"), programs())
    try:
        made.start()
        made.run("kube-controller-manager")
        yield made
    finally:
        made.close()


@pytest.fixture
def installed(server: Audited) -> Iterator[Audited]:
    """The server with everything on it, and with nothing left afterwards."""
    done = kuota(server, "install", "--no-wait")
    assert 0 == done.exit_code, done.output
    yield server
    done = kuota(server, "uninstall", "--yes", "--timeout", "40")
    assert 0 == done.exit_code, done.output


def kuota(server: KubeServer, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--kubeconfig", str(server.kubeconfig)])


async def there(client: Client) -> list[str]:
    """Which objects of an installation the server has."""
    found = []
    for each in objects(Settings(service_monitor=False)):
        try:
            await client.get(resource_of(each), key_of(each))
        except NotFound:
            continue
        found.append(f"{each['kind']}/{key_of(each)}")
    return found


def test_everything_is_applied_and_a_second_time_changes_nothing(installed: Audited) -> None:
    count = len(objects(Settings()))
    again = kuota(installed, "install", "--no-wait")
    assert f"{count} objects: {count} unchanged" == again.stdout.strip()

    async def look(client: Client) -> None:
        assert count == len(await there(client))

    conversing(installed, look)


def test_uninstalling_leaves_nothing_not_even_what_a_finalizer_holds(server: Audited) -> None:
    kuota(server, "install", "--no-wait", "-n", "kuota-system")

    async def use(client: Client) -> None:
        await without_webhooks(client)
        for each in (flavor(), queue("cq")):
            each["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
            await create(client, each)

    conversing(server, use)
    refused = kuota(server, "uninstall", "-n", "kuota-system")
    assert 1 == refused.exit_code
    assert "1 ClusterQueue, 1 ResourceFlavor" in refused.output
    dry = kuota(server, "uninstall", "-n", "kuota-system", "--dry-run")
    assert 0 == dry.exit_code, dry.output
    done = kuota(server, "uninstall", "-n", "kuota-system", "--yes")
    assert 0 == done.exit_code, done.output

    async def look(client: Client) -> None:
        assert [] == await there(client)
        assert [] == (await client.list(CRDS)).items

    conversing(server, look)


def test_definitions_are_kept_if_so_wished(installed: Audited) -> None:
    async def use(client: Client) -> None:
        await without_webhooks(client)
        await create(client, queue("kept"))

    conversing(installed, use)
    done = kuota(installed, "uninstall", "--keep-crds")
    assert 0 == done.exit_code, done.output

    async def look(client: Client) -> None:
        assert "kept" == (await client.get(CLUSTER_QUEUES, Key("", "kept")))["metadata"]["name"]
        with pytest.raises(NotFound):
            await client.get(DEPLOYMENTS, Key(NAMESPACE, CONTROLLER))

    conversing(installed, look)


def test_what_somebody_else_manages_is_left_alone_unless_reported(server: Audited) -> None:
    async def others(client: Client) -> None:
        deployment = next(e for e in objects(Settings()) if e["kind"] == "Deployment")
        theirs = json.loads(json.dumps(deployment))
        theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "kueue:v0.19"
        await client.patch(
            NAMESPACES, Key("", NAMESPACE), namespace(NAMESPACE), kind=PatchType.APPLY
        )
        await client.create(DEPLOYMENTS, theirs, manager="kubectl")

    conversing(server, others)
    refused = kuota(server, "install", "--no-wait")
    assert 1 == refused.exit_code
    assert "image" in refused.output
    assert "--force-conflicts" in refused.output
    assert "The webhooks were not changed" in refused.output
    taken = kuota(server, "install", "--no-wait", "--force-conflicts")
    assert 0 == taken.exit_code, taken.output

    async def look(client: Client) -> None:
        found = await client.get(DEPLOYMENTS, Key(NAMESPACE, CONTROLLER))
        containers = found["spec"]["template"]["spec"]["containers"]
        assert [Settings().image] == [each["image"] for each in containers]

    conversing(server, look)
    done = kuota(server, "uninstall", "--yes", "--timeout", "40")
    assert 0 == done.exit_code, done.output


def test_webhooks_wait_for_the_controller(server: Audited) -> None:
    async def look(client: Client) -> None:
        assert not [each for each in await there(client) if each.partition("/")[0] in HOOKS]

    late = kuota(server, "install", "--timeout", "0.2")
    assert 1 == late.exit_code
    assert "no pod was created" in late.output
    conversing(server, look)

    async def come_up(client: Client) -> None:
        """As the Deployment's controller would tell, once the pods are ready."""
        found = await client.get(DEPLOYMENTS, Key(NAMESPACE, CONTROLLER))
        counts = dict.fromkeys(
            ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2
        )
        status = counts | {"observedGeneration": found["metadata"]["generation"]}
        await client.patch(DEPLOYMENTS, key_of(found), {"status": status}, subresource="status")

    conversing(server, come_up)
    done = kuota(server, "install", "--timeout", "10")
    assert 0 == done.exit_code, done.output
    assert "mutatingwebhookconfiguration" in done.output
    done = kuota(server, "uninstall", "--yes", "--timeout", "40")
    assert 0 == done.exit_code, done.output


async def without_webhooks(client: Client) -> None:
    """The API server has nobody to ask here: there is no network of Services."""
    for each in objects(Settings()):
        if each["kind"] in HOOKS:
            await client.delete(resource_of(each), key_of(each))


def test_a_team_member_cannot_change_a_quota(installed: Audited) -> None:
    async def try_it(client: Client) -> None:
        await without_webhooks(client)
        await create(client, namespace("team"), flavor(), queue("cq"), local_queue("main", "cq"))
        for role in ("kueue-batch-user-role", "edit", "admin"):
            user = f"member-with-{role}"
            await bind(client, role, user)
            await aggregated(client, role)
            async with installed.client(acting_as=user) as member:
                await _try_quota(member)
                hers = await member.create(JOBS, job(f"of-{user}"))
                seen = await member.list(LOCAL_QUEUES, "team")
                await member.delete(JOBS, key_of(hers), propagation="Background")
            assert ["main"] == [each["metadata"]["name"] for each in seen.items]

    conversing(installed, try_it)


async def _try_quota(ann: Client) -> None:
    """Every way to more than the team's share."""
    more = queue("cq", 1000)
    attempts = (
        ann.patch(CLUSTER_QUEUES, Key("", "cq"), {"spec": more["spec"]}),
        ann.patch(CLUSTER_QUEUES, Key("", "cq"), more, kind=PatchType.APPLY, force=True),
        ann.create(CLUSTER_QUEUES, queue("mine", 1000)),
        ann.create(LOCAL_QUEUES, local_queue("other", "mine")),
        ann.patch(LOCAL_QUEUES, Key("team", "main"), {"spec": {"stopPolicy": "None"}}),
        ann.delete(CLUSTER_QUEUES, Key("", "cq")),
        ann.patch(WORKLOADS, Key("team", "x"), {"spec": {"priority": 9}}),
        ann.patch(WORKLOADS, Key("team", "x"), {"status": {}}, subresource="status"),
    )
    for each in attempts:
        with pytest.raises(Forbidden):
            await each


async def bind(client: Client, role: str, user: str) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {"name": user, "namespace": "team"},
        "roleRef": reference,
        "subjects": [subject],
    }
    await client.create(ROLE_BINDINGS, binding)


async def aggregated(client: Client, role: str) -> None:
    """Wait until the small roles are part of the large one."""

    def complete(found: Json) -> bool:
        granted = [each for rule in found.get("rules") or () for each in rule.get("resources", ())]
        return "localqueues" in granted and "jobs" in granted

    await until(client, ROLES, Key("", role), complete)


def test_the_controller_needs_the_roles_that_it_ships_and_no_more(
    installed: Audited, tmp_path: Path
) -> None:
    async def live(client: Client) -> None:
        kubeconfig = tmp_path / "kubeconfig"
        token = await token_of(client)
        kubeconfig.write_text(installed.kubeconfig.read_text().replace(ADMIN_TOKEN, token))
        log = (tmp_path / "log").open("wb")
        with log, started(tmp_path, kubeconfig, log.fileno()) as process:
            try:
                await trusted(client)
                await without_webhooks(client)
                await a_job_runs(client)
                await nodes_are_requested(client)
            finally:
                process.terminate()
                assert 0 == process.wait(HANG_S), (tmp_path / "log").read_text()
        assert token not in (tmp_path / "log").read_text()

    conversing(installed, live)
    asked = installed.asked_by(ACCOUNT)
    assert {"jobs", "workloads", "leases", "secrets"} <= {_resource(each) for each in asked}
    refused = [each for each in asked if each["responseStatus"]["code"] == 403]
    assert [] == [f"{each['verb']} {_resource(each)}" for each in refused]


def _resource(request: Json) -> str:
    return str((request.get("objectRef") or {}).get("resource") or request["requestURI"])


async def token_of(client: Client) -> str:
    """A token of the controller's account, as a pod of it is given."""
    wish = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": CONTROLLER, "namespace": NAMESPACE},
        "spec": {"expirationSeconds": 3600},
    }
    made = await client.create(SERVICE_ACCOUNTS, wish, subresource="token")
    return str(made["status"]["token"])


def started(folder: Path, kubeconfig: Path, log: int) -> subprocess.Popen[bytes]:
    """The program that the image starts, with a small configuration."""
    wanted = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "webhook": {"host": "127.0.0.1", "port": free_port()},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": free_port()},
    }
    return launched(folder, kubeconfig, log, wanted)


def launched(folder: Path, kubeconfig: Path, log: int, wanted: Json) -> subprocess.Popen[bytes]:
    """The program that the image starts, with the arguments of Kueue's own Deployment."""
    config = folder / "config.yaml"
    config.write_text(json.dumps(wanted))
    arguments = [f"--config={config}", "--zap-log-level=2", f"--kubeconfig={kubeconfig}"]
    return subprocess.Popen(
        [sys.executable, "-I", str(MANAGER), *arguments],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
    )


async def trusted(client: Client) -> None:
    """Wait until the API server was told whom to trust, wherever it has to."""
    for each in objects(Settings()):
        if each["kind"] in HOOKS:
            resource, key = resource_of(each), key_of(each)
            await until(client, resource, key, _every_webhook_trusts)
    for each in api_services(Settings()):
        await until(client, resource_of(each), key_of(each), _api_trusts)
    for name in ("workloads", "clusterqueues", "localqueues", "cohorts", "multikueueclusters"):
        await until(client, CRDS, Key("", f"{name}.kueue.x-k8s.io"), _conversion_trusts)


def _every_webhook_trusts(configuration: Json) -> bool:
    return all(each["clientConfig"].get("caBundle") for each in configuration["webhooks"])


def _api_trusts(api_service: Json) -> bool:
    return bool(api_service["spec"].get("caBundle"))


def _conversion_trusts(crd: Json) -> bool:
    return bool(crd["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle"))


async def a_job_runs(client: Client) -> None:
    """One is admitted, one waits and takes its place."""
    await create(client, namespace("team"), flavor(), queue("cq", 1), local_queue("main", "cq"))
    await create(client, job("first"))
    await until(client, JOBS, Key("team", "first"), lambda each: not each["spec"]["suspend"])
    await create(client, job("second"))
    await until(client, CLUSTER_QUEUES, Key("", "cq"), _shows_both)
    await client.delete(JOBS, Key("team", "first"), propagation="Background")
    await until(client, JOBS, Key("team", "second"), lambda each: not each["spec"]["suspend"])
    workloads = (await client.list(WORKLOADS, "team")).items
    assert any(condition(each, "Admitted").get("status") == "True" for each in workloads)
    await client.delete(JOBS, Key("team", "second"), propagation="Background")


def _shows_both(cluster_queue: Json) -> bool:
    status = cluster_queue.get("status") or {}
    return (status.get("admittedWorkloads"), status.get("pendingWorkloads")) == (1, 1)
