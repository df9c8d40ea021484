# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane for tests: etcd, API server and controllers as processes.

There is no kubelet and, by default, no scheduler: `cluster.kubelet` replaces both. `scripts/kube`
provides the binaries. Everything is stored in one directory and uses free ports of the loopback
address; no secret is real.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from cluster.kube_certificates import Certificates
from hang import HANG_S
from kuota.kube.client import Client
from kuota.kube.config import Connection, KubeconfigUser, Pem, Secret
from kuota.kube.http_client import http_client

"""How long a part may take to answer; four seconds are usual."""
ADMIN_TOKEN = "admin-token"
_SCRIPT = Path(__file__).parents[2] / "scripts" / "kube"
_POLL_S = 0.05
_CONTROLLERS = (
    "job-controller",
    "cronjob-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
    "clusterrole-aggregation-controller",
)


def programs() -> dict[str, Path]:
    """Where each program lies; raises CalledProcessError where `scripts/kube` has none."""
    done = subprocess.run([_SCRIPT], stdout=subprocess.PIPE, check=True, text=True)
    return {name: Path(path) for name, path in map(str.split, done.stdout.splitlines())}


class KubeServer:
    """`start` returns when the API answers. Parts are named as their programs are, and may be
    stopped, killed and started again one by one: what is stored stays.
    """

    def __init__(self, folder: Path, found: dict[str, Path], etcd: str = "") -> None:
        self.folder = folder
        self._shared = bool(etcd)
        self.certificates = Certificates(folder / "certs")
        self.kubeconfig = folder / "kubeconfig"
        self.controllers = list(_CONTROLLERS)
        """The controllers of Kubernetes that `kube-controller-manager` runs."""
        self._programs = found
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd = etcd or f"http://127.0.0.1:{free_port()}"
        self._etcd_peer = f"http://127.0.0.1:{free_port()}"
        self.port = free_port()
        (folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        self._write_kubeconfig()

    def beside(self, folder: Path) -> KubeServer:
        """Return another cluster, which is stored in the same etcd under another prefix."""
        folder.mkdir()
        return KubeServer(folder, self._programs, self._etcd)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def connection(self, acting_as: str = "") -> Connection:
        """How to reach it, as an admin, or as somebody whom the admin impersonates."""
        impersonate = (("Impersonate-User", acting_as),) if acting_as else ()
        return Connection(
            server=self.url,
            authority=Pem(file=str(self.certificates.authority)),
            user=KubeconfigUser(token=Secret(ADMIN_TOKEN), impersonate=impersonate),
        )

    @asynccontextmanager
    async def client(self, acting_as: str = "") -> AsyncIterator[Client]:
        client = http_client(self.connection(acting_as=acting_as))
        try:
            yield client
        finally:
            await client.close()

    def start(self) -> None:
        """Start storage and API; controllers come with `run`, once their kinds are known."""
        if not self._shared:
            self.run("etcd")
        self.run("kube-apiserver")

    def run(self, name: str) -> None:
        """Start one part, and wait for it to answer if it is one that others wait for."""
        assert name not in self._running, f"{name} runs already"
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            command = [str(self._programs[name]), *self._flags(name)]
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        if name == "kube-apiserver":
            self._await_ready()

    def stop(self, name: str) -> None:
        """Ask one part to end, and wait until it has."""
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, name: str) -> None:
        """End one part as a power cut would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def close(self) -> None:
        """End everything. Nothing is worth a graceful goodbye."""
        for name in reversed(list(self._running)):
            self.kill(name)

    def pid(self, name: str) -> int:
        """The process of a part that runs."""
        return self._running[name].pid

    def cpu_s(self, name: str) -> float:
        """The processor time that a part has used, as the kernel counts it."""
        stat = Path(f"/proc/{self._running[name].pid}/stat").read_text()
        ticks = stat.rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / 100

    def _await_ready(self) -> None:
        deadline = time.monotonic() + HANG_S
        while not self._ready():
            code = self._running["kube-apiserver"].poll()
            if code is not None or time.monotonic() > deadline:
                log = (self.folder / "kube-apiserver.log").read_text(errors="replace")
                raise RuntimeError(f"kube-apiserver did not get ready ({code}):\n{log[-3000:]}")
            time.sleep(_POLL_S)

    def _ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        line = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=context)
        try:
            line.request("GET", "/readyz", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
            return line.getresponse().status == 200
        except OSError:
            return False
        finally:
            line.close()

    def _flags(self, name: str) -> list[str]:
        match name:
            case "etcd":
                return self._etcd_flags()
            case "kube-apiserver":
                return self._server_flags()
            case "kube-controller-manager":
                return self._controller_flags()
            case _:
                return [
                    f"--kubeconfig={self.kubeconfig}",
                    "--leader-elect=false",
                    "--secure-port=0",
                ]

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={self._etcd_peer}",
            f"--initial-advertise-peer-urls={self._etcd_peer}",
            f"--initial-cluster=default={self._etcd_peer}",
            "--unsafe-no-fsync",
        ]

    def _server_flags(self) -> list[str]:
        made = self.certificates
        return [
            f"--etcd-servers={self._etcd}",
            f"--etcd-prefix=/{self.folder.name if self._shared else 'registry'}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            # Else a graceful end waits a minute for watches.
            "--shutdown-watch-termination-grace-period=1s",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={made.file('server.crt')}",
            f"--tls-private-key-file={made.file('server.key')}",
            f"--client-ca-file={made.authority}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
            # Pods need no account here, and nodes no controller that takes their taint off.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={made.file('accounts.key')}",
            f"--service-account-signing-key-file={made.file('accounts.key')}",
            # The aggregation layer: extension API servers know the front proxy by these.
            f"--requestheader-client-ca-file={made.file('front-ca.crt')}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={made.file('front.crt')}",
            f"--proxy-client-key-file={made.file('front.key')}",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self.controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self.certificates.file('accounts.key')}",
            f"--root-ca-file={self.certificates.authority}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _write_kubeconfig(self) -> None:
        server = {"server": self.url, "certificate-authority": str(self.certificates.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        self.kubeconfig.write_bytes(msgspec.yaml.encode(content))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
