# SPDX-License-Identifier: Apache-2.0
"""Which API server to use, and as which user: kubeconfig files, or the pod's service account.

This module only reads and checks; `auth` loads certificates and runs plugins.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.faults import Invalid
from kuota.api.manifest_yaml import load_all

from .errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Secret:
    """A text that must not be logged. Its representation shows only that it is set."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(...)" if self._text else "Secret()"


class Pem(msgspec.Struct, frozen=True):
    """A certificate or key: inline, or a file that may be replaced at any time."""

    text: Secret = Secret()
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.text) or bool(self.file)

    def read(self) -> str:
        """Return the text, reading the file again; raises ConfigError."""
        return self.text.reveal() if self.text else file_text(self.file)


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """An exec plugin that prints credentials."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    wants_cluster: bool = False
    interactive: bool = False


class KubeconfigUser(msgspec.Struct, frozen=True, kw_only=True):
    """The user. Empty fields are not used; `impersonate` holds header names and values."""

    token: Secret = Secret()
    token_file: str = ""
    username: str = ""
    password: Secret = Secret()
    certificate: Pem = Pem()
    key: Pem = Pem()
    plugin: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to reach one API server. `server` is http://, https:// or unix://."""

    server: str
    authority: Pem = Pem()
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    namespace: str = "default"
    context: str = ""
    user: KubeconfigUser = KubeconfigUser()


def connection(
    path: str = "", context: str = "", environ: Mapping[str, str] | None = None
) -> Connection:
    """Return the connection that the user selects; raises ConfigError.

    The order is that of kubectl: the named file, then $KUBECONFIG, then ~/.kube/config, then the
    service account of the pod.
    """
    environ = os.environ if environ is None else environ
    paths = _paths(path, environ)
    existing = [each for each in paths if each.exists()]
    if existing:
        return from_kubeconfig(existing, context)
    if not path and not context and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ)
    raise ConfigError(
        f"no kubeconfig: looked for {', '.join(map(str, paths))}; name one with --kubeconfig"
    )


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the in-cluster connection with the pod's service account."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not inside a cluster: KUBERNETES_SERVICE_HOST is not set")
    host = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{host}:{port}",
        authority=Pem(file=str(account / "ca.crt")),
        namespace=file_text(str(account / "namespace")).strip() or "default",
        user=KubeconfigUser(token_file=str(account / "token")),
    )


def from_kubeconfig(paths: list[Path], context: str = "") -> Connection:
    """Return the named or current context of these files. The first definition of a name wins."""
    return _chosen([_Kubeconfig(each, file_text(str(each))) for each in paths], context)


def from_text(content: str, where: str) -> Connection:
    """Return the current context of a kubeconfig. `where` names its origin in messages."""
    return _chosen([_Kubeconfig(Path(where), content)], "")


def _chosen(files: list[_Kubeconfig], context: str) -> Connection:
    wanted = context or next((each.current for each in files if each.current), "")
    if not wanted:
        where = _named([each.path for each in files])
        raise ConfigError(f"{where} has no current-context; name one with --context")
    _, chosen = _entry(files, "context", wanted)
    cluster_file, cluster = _entry(files, "cluster", str(chosen.get("cluster") or ""))
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://", "unix://")):
        raise ConfigError(
            f"{cluster_file.path}: cluster of context {wanted!r} has no usable server"
        )
    named = str(chosen.get("user") or "")
    user = _user(*_entry(files, "user", named)) if named else KubeconfigUser()
    return Connection(
        server=server.rstrip("/"),
        authority=cluster_file.pem(cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
        namespace=str(chosen.get("namespace") or "default"),
        context=wanted,
        user=user,
    )


def file_text(path: str) -> str:
    """Return the content of the file; raises ConfigError."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None


class _Kubeconfig:
    """The content of one kubeconfig file. Paths in it are relative to its directory."""

    def __init__(self, path: Path, content: str) -> None:
        self.path = path
        try:
            found = load_all(content)
        except Invalid as error:
            raise ConfigError(f"{path} is not a kubeconfig: {error}") from None
        self._content: Json = found[0] if found else {}
        self.current = str(self._content.get("current-context") or "")

    def entry(self, kind: str, name: str) -> Json | None:
        for each in self._content.get(f"{kind}s") or ():
            if isinstance(each, dict) and each.get("name") == name:
                return each.get(kind) or {}
        return None

    def names(self, kind: str) -> list[str]:
        entries = self._content.get(f"{kind}s") or ()
        return [str(each.get("name")) for each in entries if isinstance(each, dict)]

    def located(self, value: Any) -> str:
        """Return the path of the file, "" for none."""
        return str(self.path.parent / os.path.expanduser(str(value))) if value else ""

    def pem(self, entry: Json, name: str) -> Pem:
        """Inline text takes precedence over a file, as in client-go."""
        coded = entry.get(f"{name}-data")
        if not coded:
            return Pem(file=self.located(entry.get(name)))
        try:
            plain = base64.b64decode("".join(str(coded).split()), validate=True)
            return Pem(text=Secret(plain.decode()))
        except (binascii.Error, ValueError):
            raise ConfigError(f"{self.path}: {name}-data is not base64 of PEM") from None


def _user(file: _Kubeconfig, user: Json) -> KubeconfigUser:
    if user.get("auth-provider"):
        raise ConfigError(
            f"{file.path}: auth-provider is not supported, nor is it by kubectl any more; "
            "use the provider's exec plugin"
        )
    return KubeconfigUser(
        token=Secret(str(user.get("token") or "")),
        token_file=file.located(user.get("tokenFile")),
        username=str(user.get("username") or ""),
        password=Secret(str(user.get("password") or "")),
        certificate=file.pem(user, "client-certificate"),
        key=file.pem(user, "client-key"),
        plugin=_plugin(file, user.get("exec")),
        impersonate=_impersonation(user),
    )


def _plugin(file: _Kubeconfig, entry: Json | None) -> ExecPlugin | None:
    if not entry:
        return None
    command = str(entry.get("command") or "")
    if not command:
        raise ConfigError(f"{file.path}: an exec plugin needs a command")
    # A bare name is looked up in PATH; a name with a slash is relative to the kubeconfig.
    return ExecPlugin(
        api_version=str(entry.get("apiVersion") or ""),
        command=file.located(command) if "/" in command else command,
        args=tuple(map(str, entry.get("args") or ())),
        env=tuple((str(e["name"]), str(e["value"])) for e in entry.get("env") or ()),
        install_hint=str(entry.get("installHint") or ""),
        wants_cluster=bool(entry.get("provideClusterInfo")),
        interactive=entry.get("interactiveMode") in ("IfAvailable", "Always"),
    )


def _impersonation(user: Json) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    headers += [("Impersonate-Group", each) for each in user.get("as-groups") or ()]
    for name, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{name}", each) for each in values]
    return tuple((name, str(value)) for name, value in headers if value)


def _entry(files: list[_Kubeconfig], kind: str, name: str) -> tuple[_Kubeconfig, Json]:
    for file in files:
        found = file.entry(kind, name)
        if found is not None:
            return file, found
    where = _named([each.path for each in files])
    known = sorted({each for file in files for each in file.names(kind)})
    others = f"; it has: {', '.join(known)}" if known else ""
    raise ConfigError(f"{where} has no {kind} named {name!r}{others}")


def _named(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))


def _paths(path: str, environ: Mapping[str, str]) -> list[Path]:
    if path:
        return [Path(path).expanduser()]
    listed = [each for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if listed:
        return [Path(each) for each in listed]
    return [Path(environ.get("HOME") or str(Path.home())) / ".kube" / "config"]
