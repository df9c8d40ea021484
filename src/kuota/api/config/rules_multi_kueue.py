# SPDX-License-Identifier: Apache-2.0
"""Validates the multiKueue section, which configures the dispatch to other clusters."""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..faults import FieldError, at_most_one, duplicate, forbidden, invalid, not_supported, required
from .defaults import INCREMENTAL
from .frameworks import GroupVersionKind, dispatched
from .shapes import AccessProvider, ClusterProfile, Configuration, ExecConfig, MultiKueue
from .syntax import negative_faults

_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_PATH = "multiKueue"


def multi_kueue_faults(cfg: Configuration) -> Iterator[FieldError]:
    multi = cfg.multi_kueue
    if multi is None:
        return
    yield from negative_faults(multi, _PATH, "gc_interval", "worker_lost_timeout")
    if multi.origin:
        yield from at_most_one(f"{_PATH}.origin", multi.origin, names.label_value(multi.origin))
    frameworks = cfg.integrations.frameworks if cfg.integrations is not None else None
    yield from _external_faults(multi, dispatched(frameworks or ()))
    if multi.cluster_profile is not None:
        yield from _profile_faults(multi.cluster_profile, f"{_PATH}.clusterProfile")
    yield from _step_faults(multi)


def _step_faults(multi: MultiKueue) -> Iterator[FieldError]:
    steps, at = multi.incremental_dispatcher_config, f"{_PATH}.incrementalDispatcherConfig"
    if steps is None:
        return
    if multi.dispatcher_name != INCREMENTAL:
        fix = f"set dispatcherName: {INCREMENTAL}, or remove the section"
        yield invalid(at, multi.dispatcher_name, "needs the incremental dispatcher", fix)
    if steps.step_size is not None and steps.step_size < 1:
        yield invalid(f"{at}.stepSize", steps.step_size, "must be 1 or more")


def _external_faults(multi: MultiKueue, built_in: set[GroupVersionKind]) -> Iterator[FieldError]:
    seen: set[GroupVersionKind] = set()
    for index, framework in enumerate(multi.external_frameworks or ()):
        at, name = f"{_PATH}.externalFrameworks[{index}].name", framework.name
        kind = GroupVersionKind.parse(name)
        if kind is None:
            yield invalid(at, name, f"{name!r} is not of the form Kind.version.group")
            continue
        if kind in seen:
            yield duplicate(at, name, f"{name} is listed twice")
        if kind in built_in:
            fix = "remove it"
            yield invalid(at, name, f"{name} is already dispatched by a built-in adapter", fix)
        seen.add(kind)


def _profile_faults(profile: ClusterProfile, path: str) -> Iterator[FieldError]:
    """Validate the providers. The deprecated list is used only if the new one is empty."""
    if profile.access_providers and profile.credentials_providers:
        fix = "move its entries to accessProviders"
        yield forbidden(
            f"{path}.credentialsProviders", "cannot be combined with accessProviders", fix
        )
    if profile.access_providers:
        yield from _provider_faults(profile.access_providers, f"{path}.accessProviders")
    else:
        yield from _provider_faults(profile.credentials_providers, f"{path}.credentialsProviders")


def _provider_faults(providers: list[AccessProvider] | None, path: str) -> Iterator[FieldError]:
    """Validate the providers. As in Kueue, the path does not contain the index of the provider."""
    for provider in providers or ():
        if not provider.name:
            yield required(f"{path}.name", "must be set")
        yield from _exec_faults(provider.exec_config, f"{path}.execConfig")


def _exec_faults(config: ExecConfig, path: str) -> Iterator[FieldError]:
    if not config.command:
        yield required(f"{path}.command", "must name the command that yields credentials")
    if not config.api_version:
        yield required(f"{path}.apiVersion", "must be set", "client.authentication.k8s.io/v1")
    for variable in config.env or ():
        if not variable.name:
            yield required(f"{path}.env.name", "must be set")
    mode, at = config.interactive_mode, f"{path}.interactiveMode"
    if not mode:
        yield required(at, "must be set", f"use one of: {', '.join(_INTERACTIVE_MODES)}")
    elif mode not in _INTERACTIVE_MODES:
        yield not_supported(at, mode, _INTERACTIVE_MODES)
