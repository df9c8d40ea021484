# SPDX-License-Identifier: Apache-2.0
"""The state of an admission check, from what the autoscaler answers to its request."""

from __future__ import annotations

from msgspec.structs import replace

from kuota.api.backoff import Backoff
from kuota.api.base import Json
from kuota.api.kueue import ProvisioningRequestConfigSpec, RetryStrategy
from kuota.api.workload import AdmissionCheckState
from kuota.bridge.draft import StoredWorkload

from ..states import PENDING, READY, REJECTED, RETRY
from .names import attempt_of
from .request import answer, is_true, message, pod_set_updates

FAILED = "Failed"
CAPACITY_REVOKED = "CapacityRevoked"
BOOKING_EXPIRED = "BookingExpired"
PROVISIONED = "Provisioned"
ACCEPTED = "Accepted"

NOT_NEEDED = "the provisioning request is not needed"
INACTIVE = "the check is not active"

_LIMIT, _BASE_S, _MAX_S = 3, 60, 1800
"""The defaults of the retry strategy."""


def evaluated(
    state: AdmissionCheckState,
    stored: StoredWorkload,
    request: Json,
    config: ProvisioningRequestConfigSpec,
) -> AdmissionCheckState:
    """Return the state of a check with this request."""
    if is_true(request, FAILED):
        return _after_failure(state, stored, request, config, FAILED)
    if is_true(request, CAPACITY_REVOKED):
        if stored.obj.spec.active is False:
            return state
        return replace(state, state=REJECTED, message=message(request, CAPACITY_REVOKED))
    if is_true(request, BOOKING_EXPIRED):
        if stored.true("Admitted"):
            return state
        return _after_failure(state, stored, request, config, BOOKING_EXPIRED)
    if is_true(request, PROVISIONED):
        return _provisioned(state, stored, request, config)
    if is_true(request, ACCEPTED):
        if answer(request, PROVISIONED) is None:
            return state
        return replace(state, state=PENDING, message=message(request, PROVISIONED))
    name = request["metadata"]["name"]
    waiting = f"waiting for an autoscaler to accept ProvisioningRequest {name}"
    return replace(state, state=PENDING, message=waiting)


def _provisioned(
    state: AdmissionCheckState,
    stored: StoredWorkload,
    request: Json,
    config: ProvisioningRequestConfigSpec,
) -> AdmissionCheckState:
    """Return the state Ready. The updates of a check that stays Ready must not change."""
    if state.state == READY:
        return state
    updates = pod_set_updates(stored.obj, request, config)
    said = message(request, PROVISIONED)
    return replace(state, state=READY, message=said, pod_set_updates=updates)


def _after_failure(
    state: AdmissionCheckState,
    stored: StoredWorkload,
    request: Json,
    config: ProvisioningRequestConfigSpec,
    type_: str,
) -> AdmissionCheckState:
    """Return the state after a failed attempt: Retry until the limit, then Rejected.

    A failure of an attempt that was retried already only leaves its message.
    """
    attempt = attempt_of(request, stored.key.name, state.name) or 1
    said, retries = message(request, type_), state.retry_count or 0
    if attempt > _limit(config):
        return replace(state, state=REJECTED, message=said)
    cause = "failure" if type_ == FAILED else "booking expired"
    noted = replace(state, message=f"Retrying after {cause}: {said}")
    if attempt <= retries:
        return noted
    return replace(noted, state=RETRY, requeue_after_seconds=_delay_s(config, retries))


def _strategy(config: ProvisioningRequestConfigSpec) -> RetryStrategy:
    return config.retry_strategy or RetryStrategy()


def _limit(config: ProvisioningRequestConfigSpec) -> int:
    limit = _strategy(config).backoff_limit_count
    return _LIMIT if limit is None else limit


def _delay_s(config: ProvisioningRequestConfigSpec, retries: int) -> int:
    found = _strategy(config)
    base = _BASE_S if found.backoff_base_seconds is None else found.backoff_base_seconds
    most = _MAX_S if found.backoff_max_seconds is None else found.backoff_max_seconds
    return max(0, Backoff(base=base, cap=most).wait(retries + 1))
