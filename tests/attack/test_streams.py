# SPDX-License-Identifier: Apache-2.0
"""Exec, attach and port-forward open the pods of one's own team, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from attack.members import Member, job, join
from docs.account import Account
from hang import HANG_S
from up.machine import KUBECTL, Machine, open_folder

SERVER = (
    "import http.server as s; "
    "s.HTTPServer(('127.0.0.1', {}), s.BaseHTTPRequestHandler).serve_forever()"
)


@pytest.mark.slow
def test_a_member_reaches_no_process_of_another_team(machine: Machine, tmp_path: Path) -> None:
    ann = join(machine, "ann", "vision", tmp_path)
    bob = join(machine, "bob", "speech", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ann.create(job("notebook", ["python3", "-c", SERVER.format(port)]))
    bob.create(job("own", ["sleep", "1000"]))
    machine.started("notebook", namespace="vision")
    machine.started("own", namespace="speech")
    for attempt in (
        ("exec", "-n", "vision", "job/notebook", "--", "id"),
        ("attach", "-n", "vision", "job/notebook"),
        ("port-forward", "-n", "vision", "job/notebook", f":{port}"),
        ("exec", "--as=ann", "--as-group=vision", "job/own", "--", "id"),
    ):
        refused = bob.kubectl(*attempt)
        assert refused.returncode != 0, refused.stdout
        assert "orbidden" in refused.stderr, refused.stderr
    name = machine.kubectl("get", "pods", "-n", "vision", "-o", "name").strip()
    for subresource in ("exec", "attach"):
        path = f"/api/v1/namespaces/vision/{name.replace('pod/', 'pods/')}/{subresource}"
        refused = bob.kubectl("get", "--raw", f"{path}?command=id&stdout=true")
        assert "orbidden" in refused.stderr, refused.stderr
    assert b"" == _forwarded(bob, port)
    assert b"HTTP" in _forwarded(ann, port, "job/notebook")


def test_a_command_never_becomes_root(machine: Machine, tmp_path: Path) -> None:
    ann = join(machine, "ann", "vision", tmp_path)
    ann.create(job("own", ["sleep", "1000"]))
    machine.started("own", namespace="vision")
    shown = ann.kubectl("exec", "job/own", "--", "sh", "-c", "id -u; id -ru; id -G")
    pod = ann.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.uid}").stdout
    owner = os.stat(machine.state / "pods" / pod / "root").st_uid
    assert [str(owner)] * 2 == shown.stdout.split()[:2]
    assert owner != 0 or os.geteuid() != 0
    if os.geteuid() == 0:
        assert "0" not in shown.stdout.split()


def test_a_pod_that_has_ended_or_waits_cannot_be_entered(machine: Machine, tmp_path: Path) -> None:
    ann = join(machine, "ann", "vision", tmp_path)
    ann.create(job("brief", ["true"]))
    machine.wait("job/brief -n vision", "condition=complete")
    pod = ann.kubectl("get", "pods", "-o", "name").stdout.strip()
    refused = ann.kubectl("exec", pod, "--", "id")
    assert refused.returncode != 0
    assert "completed pod" in refused.stderr or "Succeeded" in refused.stderr
    raw = f"/api/v1/namespaces/vision/{pod.replace('pod/', 'pods/')}/exec?command=id&stdout=true"
    refused = ann.kubectl("get", "--raw", raw)
    assert refused.returncode != 0


def _forwarded(member: Member, port: int, target: str = "job/own") -> bytes:
    """What a server at the port answers through a port-forward of the member."""
    with subprocess.Popen(
        [KUBECTL, "port-forward", target, f":{port}"],
        env={**os.environ, "KUBECONFIG": str(member.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as client:
        assert client.stdout is not None
        local = int(client.stdout.readline().split()[2].rpartition(b":")[2])
        with socket.create_connection(("127.0.0.1", local), HANG_S) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            found = connection.recv(100)
        client.kill()
    return found


CONFINED = """
kuota up --allow-unqueued --detach
eval "$(kuota status -o env)"
kubectl create namespace vision
kubectl label namespace vision kuota.dev/team=vision
kuota token create ann --team vision -n vision --out ann.kubeconfig
echo private > $HOME/private
ann="kubectl --kubeconfig ann.kubeconfig -n vision"
$ann run p --image=x --restart=Never --command -- sleep 600
kubectl -n vision wait pod/p --for=jsonpath='{.status.phase}'=Running --timeout=60s
for flags in "" "-i"; do
  attack="cat $KUOTA_STATE/kubeconfig $HOME/private; echo mine > own && cat own"
  $ann exec $flags p -- sh -c "$attack" | sed "s/^/attacked: /"
done
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user")
def test_a_command_is_confined_like_its_pod_on_a_server_that_is_not_root() -> None:
    with open_folder() as folder:
        account = Account(folder, "nobody")
        try:
            done = account.run(f"export KUOTA_STATE=$HOME/state\n{CONFINED}")
        finally:
            account.run("KUOTA_STATE=$HOME/state kuota down --kill")
    assert 0 == done.returncode, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("attacked: ")]
    assert ["attacked: mine"] * 2 == lines, done.stdout
