# SPDX-License-Identifier: Apache-2.0
"""`kubectl exec`, `attach`, `cp` and `port-forward`, over WebSocket and over SPDY."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from hang import HANG_S
from up.machine import KUBECTL, Machine, running

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: none
    command: [sh, -c, "echo started; exec sleep 1000"]
    env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: words, key: hello}}}]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
    resources: {limits: {nvidia.com/gpu: 1}}
  - name: reader
    image: none
    stdin: true
    stdinOnce: true
    command: [sh, -c, "while read line; do echo got $line; done; echo end of input; sleep 1000"]
  volumes: [{name: scratch, emptyDir: {}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {hello: hi there}
"""

SHELL = """
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: none, stdin: true, tty: true, command: [sh]}
"""

PYTHON_CLIENT = """
from kubernetes import client, config, stream
config.load_kube_config()
core = client.CoreV1Api()
opened = stream.stream(
    core.connect_get_namespaced_pod_exec, "p", "default", container="main",
    command=["sh", "-c", "echo $GREETING; exit 3"], stdout=True, stderr=True, stdin=False,
    tty=False, _preload_content=False,
)
opened.run_forever(timeout=60)
said, code = opened.read_stdout(), opened.returncode
forward = stream.portforward(
    core.connect_get_namespaced_pod_portforward, "p", "default", ports="9"
)
print(said, code, forward.socket(9).recv(1), forward.error(9))
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with running("--gpus", "2") as found:
        found.apply(POD)
        found.wait("pod/p", "jsonpath={.status.phase}=Running")
        yield found


@pytest.fixture(params=["websocket", "spdy"])
def transport(request: pytest.FixtureRequest, machine: Machine) -> Iterator[None]:
    chosen = str(request.param == "websocket").lower()
    names = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    machine.environment |= dict.fromkeys(names, chosen)
    yield
    for name in names:
        del machine.environment[name]


def kubectl(
    machine: Machine, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [KUBECTL, *arguments],
        input=stdin,
        env=machine.environment,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )


def command(
    machine: Machine, *words: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    flags = ("-i",) if stdin is not None else ()
    return kubectl(machine, "exec", *flags, "p", "-c", "main", "--", *words, stdin=stdin or b"")


@pytest.mark.usefixtures("transport")
def test_a_command_runs_as_the_container_does(machine: Machine) -> None:
    shown = "id -u; id -G; pwd; echo $GREETING; echo $CUDA_VISIBLE_DEVICES; ls -d scratch"
    found = command(machine, "sh", "-c", shown).stdout.decode().splitlines()
    uid = machine.get("pod/p")["metadata"]["uid"]
    pid = _container_pid(machine)
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    assert found[0] == status["Uid"].split()[0]
    assert set(status["Groups"].split()) <= set(found[1].split())
    assert f"{machine.state}/pods/{uid}/root" == found[2]
    assert ["hi there", "GPU-pretend-0", "scratch"] == found[3:]


@pytest.mark.usefixtures("transport")
def test_exit_codes_and_both_outputs_arrive(machine: Machine) -> None:
    done = command(machine, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (7, b"out\n") == (done.returncode, done.stdout)
    assert b"err\n" in done.stderr
    killed = command(machine, "sh", "-c", "kill -9 $$")
    assert 137 == killed.returncode
    missing = command(machine, "no-such-program")
    assert (1, True) == (missing.returncode, b"'no-such-program' not found" in missing.stderr)


@pytest.mark.usefixtures("transport")
def test_input_ends_with_that_of_the_client_and_large_output_is_complete(machine: Machine) -> None:
    content = os.urandom(2_000_000)
    done = command(machine, "cat", stdin=content)
    assert (0, True) == (done.returncode, content == done.stdout)


@pytest.mark.usefixtures("transport")
def test_a_command_has_a_terminal_if_it_is_asked_for(machine: Machine) -> None:
    flags = "-c main -it p -- sh -c 'tty && stty size && echo $TERM && exit 4'"
    line = f"stty rows 33 cols 77; {KUBECTL} exec {flags}"
    done = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        env=machine.environment,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert 4 == done.returncode, done.stdout
    assert b"/dev/pts/" in done.stdout
    assert b"33 77" in done.stdout
    assert b"xterm" in done.stdout


@pytest.mark.usefixtures("transport")
def test_files_are_copied_both_ways(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(os.urandom(300_000))
    there, back = tmp_path / "there", tmp_path / "back"
    for source, target in ((str(there), "p:copied"), ("p:copied", str(back))):
        done = kubectl(machine, "cp", source, target, "-c", "main")
        assert 0 == done.returncode, done.stderr
    assert there.read_bytes() == back.read_bytes()


def test_the_python_client_runs_commands_and_forwards_ports(machine: Machine) -> None:
    pytest.importorskip("kubernetes")
    # In a process of its own, because the client leaves sockets to the garbage collector.
    done = subprocess.run(
        [sys.executable, "-c", PYTHON_CLIENT],
        env=machine.environment,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert b"hi there\n 3 b'' no process of the pod listens on port 9 " in done.stdout, done.stderr


def test_nothing_that_a_command_started_outlives_it(machine: Machine) -> None:
    for start in (
        "sleep 4711 &",
        "setsid sleep 4711 >/dev/null 2>&1 &",
        "env -i setsid sleep 4711 &",
    ):
        done = command(machine, "sh", "-c", f"{start} echo done")
        assert (0, b"done\n") == (done.returncode, done.stdout)
        assert not _running("sleep", "4711")


def test_a_command_ends_when_its_client_disconnects(machine: Machine) -> None:
    with _started(machine, "exec", "p", "-c", "main", "--", "sleep", "4712") as client:
        _until(lambda: _running("sleep", "4712"))
        client.kill()
        _until(lambda: not _running("sleep", "4712"))


def test_only_a_container_with_stdin_can_be_attached_to_with_input(machine: Machine) -> None:
    done = kubectl(machine, "attach", "-i", "p", "-c", "main")
    assert (1, True) == (done.returncode, b"set `stdin: true`" in done.stderr)


def test_attach_passes_input_to_the_process_and_shows_its_output(machine: Machine) -> None:
    with _started(machine, "attach", "-i", "p", "-c", "reader") as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"one\n")
        client.stdin.close()
        assert [b"got one\n", b"end of input\n"] == [client.stdout.readline() for _ in "ab"]
        client.kill()


def in_terminal(
    machine: Machine, *arguments: str, typed: str
) -> subprocess.CompletedProcess[bytes]:
    """Run kubectl in a terminal of 33 lines and 77 columns in which a user types."""
    line = f"stty rows 33 cols 77; exec {shlex.join([KUBECTL, *arguments])}"
    return subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        input=typed.encode(),
        env=machine.environment,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )


def test_a_container_has_a_terminal_that_clients_attach_to(machine: Machine) -> None:
    machine.apply(SHELL)
    machine.wait("pod/shell", "jsonpath={.status.phase}=Running")
    resized = 'until [ "$(stty size)" = "33 77" ]; do sleep 0.1; done; echo now it has $(stty size)'
    with _started(machine, "attach", "-i", "shell") as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"kept=42; echo k${kept}k\n")
        client.stdin.flush()
        _until(lambda: b"k42k" in machine.kubectl("logs", "shell").encode())
        client.kill()
    machine.kill()
    machine.up("--gpus", "2")
    typed = f"{resized}; echo k$((kept+1))k $TERM; exit 3\n"
    attached = in_terminal(machine, "attach", "-it", "shell", typed=typed)
    assert b"now it has 33 77" in attached.stdout, attached.stdout
    assert b"k43k xterm" in attached.stdout, attached.stdout
    machine.wait("pod/shell", "jsonpath={.status.phase}=Failed")
    (status,) = machine.get("pod/shell")["status"]["containerStatuses"]
    assert 3 == status["state"]["terminated"]["exitCode"]
    assert "k42k" in machine.kubectl("logs", "shell")


def test_kubectl_run_opens_a_terminal(machine: Machine) -> None:
    command = ("--", "sh", "-c", "read line; echo got $line; exit 4")
    options = ("-it", "--rm", "--restart=Never", "--image=none", "--command")
    done = in_terminal(machine, "run", "typed", *options, *command, typed="hello\n")
    assert b"got hello" in done.stdout, done.stdout
    assert 4 == done.returncode, done.stdout


@pytest.mark.usefixtures("transport")
def test_a_port_of_the_pod_is_forwarded(machine: Machine) -> None:
    port = _free_port()
    server = f"mkdir -p www; cd www; echo hello > index.html; exec python3 -m http.server {port}"
    with (
        _started(machine, "exec", "p", "-c", "main", "--", "sh", "-c", server) as served,
        _started(machine, "port-forward", "p", f":{port}") as client,
    ):
        assert client.stdout is not None
        local = int(client.stdout.readline().split()[2].rpartition(b":")[2])
        _until(lambda: _listens(port))
        for _ in range(3):
            with urlopen(f"http://127.0.0.1:{local}/", timeout=HANG_S) as response:
                assert b"hello\n" == response.read()
        client.kill()
        served.kill()
    _until(lambda: not _listens(port))


def test_a_port_of_another_process_is_not_forwarded(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        api = machine.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
        for port in (other.getsockname()[1], int(api.rpartition(":")[2])):
            with _started(machine, "port-forward", "p", f":{port}", errors=True) as client:
                assert client.stdout is not None
                assert client.stderr is not None
                local = int(client.stdout.readline().split()[2].rpartition(b":")[2])
                with socket.create_connection(("127.0.0.1", local)) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert b"" == connection.recv(1)
                assert b"no process of the pod listens on port" in client.stderr.readline()
                client.kill()
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_command_ends_with_its_pod(machine: Machine) -> None:
    machine.apply(POD.replace("name: p}", "name: brief}"))
    machine.wait("pod/brief", "jsonpath={.status.phase}=Running")
    words = (
        "exec",
        "brief",
        "-c",
        "main",
        "--",
        "sh",
        "-c",
        "trap '' TERM; sleep 4713; sleep 4713",
    )
    with _started(machine, *words, errors=True) as client:
        _until(lambda: _running("sleep", "4713"))
        machine.kubectl("delete", "pod", "brief", "--grace-period=1")
        assert not _running("sleep", "4713")
        assert 0 != client.wait(HANG_S)


def test_a_command_does_not_survive_the_control_plane(machine: Machine) -> None:
    with _started(machine, "exec", "p", "-c", "main", "--", "sleep", "4714") as client:
        _until(lambda: _running("sleep", "4714"))
        machine.kill()
        _until(lambda: not _running("sleep", "4714"))
        client.wait(HANG_S)
    machine.up("--gpus", "2")
    found = command(machine, "sh", "-c", "echo $GREETING $CUDA_VISIBLE_DEVICES")
    assert b"hi there GPU-pretend-0\n" == found.stdout


def _container_pid(machine: Machine) -> int:
    uid = machine.get("pod/p")["metadata"]["uid"]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"KUOTA_RUN={uid}/main/0".encode() in environment:
                return int(name)
    raise AssertionError("the container has no process")


def _running(*words: str) -> bool:
    wanted = "\0".join(words).encode() + b"\0"
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(f"/proc/{name}/cmdline").read_bytes() == wanted:
                    return True
            except OSError:
                continue
    return False


@contextmanager
def _started(
    machine: Machine, *arguments: str, errors: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [KUBECTL, *arguments],
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
    ) as client:
        try:
            yield client
        finally:
            client.send_signal(signal.SIGKILL)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
