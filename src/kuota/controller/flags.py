# SPDX-License-Identifier: Apache-2.0
"""The settings of the process: flags, the configuration file, and its pod.

All errors are reported at once, because each attempt to fix a Deployment takes about a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kuota.api.config.defaults import NAMESPACE, default_configuration
from kuota.api.config.load import checked, load
from kuota.api.config.shapes import Configuration, LeaderElection
from kuota.api.faults import Invalid
from kuota.api.gates import Gates, resolved
from kuota.control.parts import DEFAULT, Part, Parts, UnknownPart, parsed
from kuota.history.address import Address as Database
from kuota.history.address import InvalidAddress
from kuota.history.address import parsed as database
from kuota.kube.config import SERVICE_ACCOUNT, connection, from_kubeconfig, in_cluster
from kuota.kube.errors import ConfigError
from kuota.loopback import is_loopback
from kuota.utilization.sources import DeviceSources
from kuota.view.idle import IdlePolicy

from .devices import DeviceSettings
from .logs import LogError, LogStyle, style

if TYPE_CHECKING:
    from kuota.kube.config import Connection

_LARGEST_PORT = 65535
DASHBOARD_PORT = 8444
JITTER = 1.2
"""The maximum jitter of a retry; a retry must still fit into the renew deadline."""


class Address(msgspec.Struct, frozen=True):
    """The address of a server. An empty host means all addresses of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address(text: str) -> Address | None:
    """An address in the format of Go: `:8081`, `127.0.0.1:9090`, `[::1]:80`.

    None for "0" and "", which mean not to listen. Raises ValueError.
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _LARGEST_PORT:
        raise ValueError(f"{text!r} is not an address: use host:port, or :port for all hosts")
    if ":" in inner and inner == host:
        raise ValueError(f"{text!r} is not an address: put an IPv6 address in brackets")
    return Address(inner, int(port))


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags as written; empty if not given."""

    config: str = ""
    feature_gates: str = ""
    kubeconfig: str = ""
    parts: str = ""
    log_level: str = ""
    log_encoder: str = ""
    log_devel: bool = False
    verbosity: int = 0
    plain_metrics: bool = False
    dcgm_exporter: tuple[str, ...] = ()
    dcgm_prometheus: str = ""
    dcgm_selector: str = ""
    idle_below: float = IdlePolicy().threshold_percent
    idle_after: float = IdlePolicy().after_s
    dashboard_address: str = ""
    dashboard_actions: bool = False
    dashboard_proxy_ca: str = ""
    dashboard_proxy_names: str = ""
    history_database: str = ""
    record_authors: bool = False


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the part `dashboard`.

    `proxy_authority` (PEM) signs the client certificates of trusted authenticating proxies, whose
    common name must be one of `proxy_names` if there are any. Without it, no proxy is trusted.
    """

    address: Address = Address("", DASHBOARD_PORT)
    actions: bool = False
    proxy_authority: str = ""
    proxy_names: tuple[str, ...] = ()


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The validated and complete settings."""

    config: Configuration
    gates: Gates
    connection: Connection
    parts: Parts = DEFAULT
    log: LogStyle = LogStyle()
    plain_metrics: bool = False
    """Whether metrics are served without TLS, which requires a loopback address."""
    devices: DeviceSettings = DeviceSettings()
    dashboard: DashboardSettings = DashboardSettings()
    history: Database | None = None
    """Where the part `history` stores its records; None without this part."""
    record_authors: bool = False
    """Whether webhooks record who creates a job, and the history believes it."""
    pod_namespace: str = NAMESPACE

    @property
    def namespace(self) -> str:
        """The namespace of this process, or of the Lease: the configured one, or the pod's."""
        return self.config.namespace or self.pod_namespace

    @property
    def without_effect(self) -> Iterator[str]:
        """Fields of the configuration file that are accepted and have no effect."""
        config = self.config
        if config.pprof_bind_address not in ("", "0"):
            yield "pprofBindAddress"
        if config.controller is not None and config.controller.group_kind_concurrency:
            yield "controller.groupKindConcurrency"
        if config.controller is not None and config.controller.cache_sync_timeout:
            yield "controller.cacheSyncTimeout"
        if config.tls is not None and config.tls.curve_preferences:
            yield "tls.curvePreferences"


class InvalidSettings(Exception):
    """The process cannot start. `faults` lists all reasons."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def settings(
    flags: Flags, environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT
) -> ControllerSettings:
    """The settings that result from the flags. Raises InvalidSettings with every fault."""
    faults: list[str] = []
    config, gates = _configuration(flags, account, faults)
    parts, log, reached = DEFAULT, LogStyle(), None
    try:
        parts = parsed(flags.parts)
    except UnknownPart as error:
        faults.append(f"--parts: {error}")
    try:
        log = style(flags.log_level, flags.log_devel, flags.log_encoder, flags.verbosity)
    except LogError as error:
        faults.append(str(error))
    try:
        reached = chosen_connection(flags.kubeconfig, environ, account)
    except ConfigError as error:
        faults.append(str(error))
    dashboard = _dashboard(flags, faults)
    sources = DeviceSources(flags.dcgm_exporter, flags.dcgm_prometheus, flags.dcgm_selector)
    faults += [f"--dcgm-exporter, --dcgm-prometheus: {each}" for each in sources.faults()]
    if flags.plain_metrics:
        faults += _plain_faults(config.metrics.bind_address)
    history = _history(flags.history_database, parts, faults)
    if faults or reached is None:
        raise InvalidSettings(faults)
    return ControllerSettings(
        config=config,
        gates=gates,
        connection=reached,
        parts=parts,
        log=log,
        plain_metrics=flags.plain_metrics,
        devices=DeviceSettings(sources, IdlePolicy(flags.idle_below, flags.idle_after)),
        dashboard=dashboard,
        history=history,
        record_authors=flags.record_authors,
        pod_namespace=own_namespace(account),
    )


def _history(text: str, parts: Parts, faults: list[str]) -> Database | None:
    """Return the database of the part `history`; None without this part."""
    if Part.HISTORY not in parts:
        return None
    if len(parts) > 1:
        faults.append("--parts: history runs in a process of its own; use --parts=history")
    if not text:
        faults.append("--history-database: --parts=history needs a file or a database")
    try:
        return database(text) if text else None
    except InvalidAddress as error:
        faults.append(f"--history-database: {error}")
        return None


def chosen_connection(
    path: str, environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT
) -> Connection:
    """As in Kueue: --kubeconfig, $KUBECONFIG, the pod's service account, ~/.kube/config."""
    if path and not Path(path).expanduser().exists():
        raise ConfigError(f"--kubeconfig {path}: there is no such file")
    if path:
        return from_kubeconfig([Path(path).expanduser()])
    if not environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ, account)
    return connection(environ=environ)


def own_namespace(account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of this pod's service account; otherwise Kueue's default."""
    try:
        return (account / "namespace").read_text().strip() or NAMESPACE
    except (OSError, UnicodeDecodeError):
        return NAMESPACE


def _configuration(flags: Flags, account: Path, faults: list[str]) -> tuple[Configuration, Gates]:
    namespace = own_namespace(account)
    config, gates = default_configuration(namespace), Gates()
    at = flags.config or "--feature-gates"
    try:
        if flags.config:
            text = Path(flags.config).read_text(encoding="utf-8")
            config = load(text, namespace)
            faults += [f"{at}: {each}" for each in _faults(config)]
            config, gates = checked(text, flags.feature_gates, namespace)
        else:
            gates = resolved(flags.feature_gates, None)
    except Invalid as error:
        faults += [f"{at}: {each}" for each in error.errors]
    except (OSError, UnicodeDecodeError) as error:
        faults.append(f"--config {flags.config}: {error}")
    return config, gates


def _dashboard(flags: Flags, faults: list[str]) -> DashboardSettings:
    at, authority = Address("", DASHBOARD_PORT), ""
    try:
        at = address(flags.dashboard_address) or at
    except ValueError as error:
        faults.append(f"--dashboard-address: {error}")
    if flags.dashboard_proxy_ca:
        authority = _authority(flags.dashboard_proxy_ca, faults)
    elif flags.dashboard_proxy_names:
        faults.append("--dashboard-proxy-names needs --dashboard-proxy-ca")
    return DashboardSettings(
        address=at,
        actions=flags.dashboard_actions,
        proxy_authority=authority,
        proxy_names=tuple(filter(None, flags.dashboard_proxy_names.split(","))),
    )


def _authority(file: str, faults: list[str]) -> str:
    """Return the certificates in a PEM file."""
    import ssl

    try:
        text = Path(file).read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (OSError, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        faults.append(f"--dashboard-proxy-ca {file}: {error}")
        return ""
    return text


def _faults(config: Configuration) -> Iterator[str]:
    """Faults that are only checked at start: addresses and durations."""
    for path, text in (
        ("health.healthProbeBindAddress", config.health.health_probe_bind_address),
        ("metrics.bindAddress", config.metrics.bind_address),
    ):
        try:
            address(text)
        except ValueError as error:
            yield f"{path}: {error}"
    yield from _election_faults(config.leader_election or LeaderElection())


def _plain_faults(text: str) -> list[str]:
    """Reasons why metrics cannot be served without TLS."""
    try:
        at = address(text)
    except ValueError:
        return []
    if at is None or is_loopback(at.host):
        return []
    return [f"--plain-metrics: other machines can read {text}; use 127.0.0.1:{at.port}"]


def _election_faults(election: LeaderElection) -> Iterator[str]:
    if not election.leader_elect:
        return
    lease = election.lease_duration.seconds
    deadline = election.renew_deadline.seconds
    retry = election.retry_period.seconds
    at = "leaderElection"
    if election.resource_lock != "leases":
        yield f"{at}.resourceLock: {election.resource_lock!r} is not supported: use leases"
    if lease < 1:
        yield f"{at}.leaseDuration: must be at least a second"
    if lease <= deadline:
        yield f"{at}.leaseDuration: must be longer than renewDeadline"
    if deadline <= JITTER * retry:
        yield f"{at}.renewDeadline: must be longer than {JITTER} times retryPeriod"
    if retry <= 0:
        yield f"{at}.retryPeriod: must be more than 0"
