# SPDX-License-Identifier: Apache-2.0
"""One pass over a parent and its variants: create variants, and pass on the admission.

Variants are queued and have quota; the job follows the parent. The parent takes over the admission
of the admitted variant. It is evicted before that variant, because the pods belong to the parent. A
step that returns true ends the pass.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Condition, true_condition
from kuota.api.rules.report import child
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import released_status, reserve
from .draft import Draft, PassResult
from .eviction import evicted_status, eviction_event
from .lifecycle_view import VariantsPassInput
from .variant_pass import VariantPass, open_preemption_gate
from .variants import (
    BY_PARENT,
    BY_VARIANTS,
    flavor_of,
    is_parent,
    parent_of,
    rejects_update,
    update_from_parent,
)

Step = Callable[[VariantPass], bool | None]


def reconcile_variants(view: VariantsPassInput, now: float) -> PassResult:
    """Return the result of one pass over a parent and its variants."""
    variant_pass = VariantPass(view, now)
    any(step(variant_pass) for step in _STEPS)
    return variant_pass.done()


def delete_orphaned_variants(variant_pass: VariantPass) -> bool:
    """Delete variants whose parent no longer exists."""
    parent = variant_pass.view.parent
    uid = parent.obj.metadata.uid if parent is not None else ""
    for each in list(variant_pass.variants):
        owner = parent_of(each.obj.metadata)
        if owner is None or owner.uid != uid:
            variant_pass.drop(each, "its parent is gone")
    return parent is None or parent.deleting


def finish_variants(variant_pass: VariantPass) -> bool:
    """Finish the variants of a finished parent."""
    end = _condition(variant_pass.parent, "Finished")
    if end is None:
        return False
    for each in variant_pass.variants:
        if not each.current.true("Finished"):
            each.set_condition("Finished", True, end.reason, end.message)
    return True


def delete_variants_without_policy(variant_pass: VariantPass) -> bool:
    """Delete variants if the queue does not admit concurrently. An unknown queue ends the pass."""
    if variant_pass.policy is not None:
        return not is_parent(variant_pass.parent.obj.metadata)
    if variant_pass.view.queue is not None:
        for each in list(variant_pass.variants):
            variant_pass.drop(each, "its queue does not admit concurrently")
    return True


def sync_variants_with_flavors(variant_pass: VariantPass) -> None:
    tried = {flavor_of(each.current) for each in variant_pass.variants}
    for flavor in variant_pass.flavors:
        if flavor not in tried:
            variant_pass.make(flavor)
    for each in list(variant_pass.variants):
        flavor = flavor_of(each.current)
        if flavor not in variant_pass.flavors:
            variant_pass.drop(each, f"the ClusterQueue no longer has flavor {flavor}")


def sync_variant_specs(variant_pass: VariantPass) -> None:
    """Update variants to the spec of their parent."""
    for each in list(variant_pass.variants):
        patch = update_from_parent(variant_pass.parent.current, each.current)
        if rejects_update(each.current, patch):
            variant_pass.drop(each, "the spec of its parent has changed")
        else:
            each.patch(patch)


def evict_variant_with_late_pods(variant_pass: VariantPass) -> None:
    """Evict the admitted variant of a parent whose pods were not ready in time."""
    evicted = _condition(variant_pass.parent, "Evicted")
    if evicted is None or evicted.reason != BY_PARENT:
        return
    for each in variant_pass.variants:
        since = _condition(each, "QuotaReserved")
        if (
            each.current.true("Admitted")
            and not each.current.true("Evicted")
            and _before(since, evicted)
        ):
            conditions = each.conditions()
            status = evicted_status(
                each.obj, conditions, BY_PARENT, evicted.message, variant_pass.now
            )
            delay = child(variant_pass.parent.current.json, "status").get("requeueState")
            each.write(status | ({"requeueState": delay} if delay else {}))


def release_evicted_variants(variant_pass: VariantPass) -> None:
    """Release the quota of evicted variants, for the parent's own variant only after the parent."""
    parent, own = variant_pass.parent, variant_pass.own
    runs = parent.current.reserved
    if runs and not parent.current.true("Evicted") and (own is None or own.current.true("Evicted")):
        _evict(parent, own)
    for each in variant_pass.variants:
        if each.current.reserved and each.current.true("Evicted") and not (runs and each is own):
            each.write(released_status(each.obj, variant_pass.now, variant_pass.view.config.gates))
            conditions = each.conditions()
            conditions.drop("PodsReady")
            each.put(conditions)


def _evict(parent: Draft, own: Draft | None) -> None:
    """Evict the parent. Only its variants count in the eviction statistics."""
    reason, message = EvictionReason.NO_VARIANT, "None of its variants is admitted on its flavor"
    evicted = _condition(own, "Evicted") if own is not None else None
    if own is not None and evicted is not None:
        reason = EvictionReason.VARIANT_EVICTED
        message = f"Its variant {own.obj.metadata.name} was evicted: {evicted.message}"
    parent.set_condition("Evicted", True, reason.value, message)
    parent.add(*eviction_event(parent.obj, reason, message))


def sync_variant_activity(variant_pass: VariantPass) -> None:
    """Deactivate variants that can no longer be admitted, and activate the others."""
    for each in variant_pass.variants:
        wanted, why = _should_be_active(variant_pass, each)
        if wanted is not each.active:
            each.patch({"spec": {"active": wanted}})
            each.record_event("ActivatedVariant" if wanted else "DeactivatedVariant", why)


def _should_be_active(variant_pass: VariantPass, draft: Draft) -> tuple[bool, str]:
    """Return whether a variant should be active, and why."""
    winner, policy = variant_pass.winner, variant_pass.policy
    if not variant_pass.parent.active:
        return False, "Its parent is not active"
    if winner is None or policy is None:
        return True, "No variant is admitted"
    if draft is winner:
        return draft.active, ""
    name = winner.obj.metadata.name
    if policy.retains:
        return False, f"Variant {name} was admitted first"
    if variant_pass.rank(draft) > variant_pass.rank(winner):
        return False, f"Variant {name} is admitted on a preferred flavor"
    last = policy.last_acceptable_flavor
    if last and variant_pass.rank(draft) > variant_pass.place(last):
        return (
            False,
            f"Variant {name} is admitted, and {last} is the last acceptable flavor",
        )
    return True, f"Its flavor is preferred to that of variant {name}, which is admitted"


def requeue_migrated_variant(variant_pass: VariantPass) -> None:
    """Requeue a variant that was migrated away if no preferred variant was admitted."""
    if variant_pass.winner is not None or any(
        _waits_for_victims(each) for each in variant_pass.variants
    ):
        return
    for each in variant_pass.variants:
        reason = _not_requeued_reason(each)
        if reason == EvictionReason.FLAVOR_MIGRATION and not each.current.reserved:
            each.set_condition("Requeued", True, "Reactivated", "No variant is admitted")


def _waits_for_victims(draft: Draft) -> bool:
    reserved = draft.conditions().get("QuotaReserved")
    return reserved is not None and reserved.reason == WaitReason.WAITING_FOR_PREEMPTED


def sync_parent_admission(variant_pass: VariantPass) -> None:
    """Admit the parent with the admission of its admitted variant."""
    parent, winner = variant_pass.parent, variant_pass.winner
    if winner is None or winner.current.true("Evicted") or parent.current.reserved:
        return
    admission = child(winner.current.json, "status").get("admission")
    # The parent may be kept from running by something other than its variants.
    blocked = _not_requeued_reason(parent) not in (None, *BY_VARIANTS)
    if admission is None or not parent.active or blocked:
        return
    note = f"Variant {winner.obj.metadata.name} is admitted"
    conditions = parent.conditions()
    reserve(conditions, admission["clusterQueue"])
    conditions.put("Admitted", True, "Admitted", note)
    parent.write({"admission": admission, "conditions": conditions.json()})
    parent.record_event("Admitted", note)


def _not_requeued_reason(draft: Draft) -> str | None:
    """Return why it is not requeued after an eviction; None if it is."""
    found = draft.conditions().get("Requeued")
    return found.reason if found is not None and found.status == "False" else None


def sync_pods_to_variant(variant_pass: VariantPass) -> None:
    """Copy PodsReady and reclaimable pods from the parent to its admitted variant."""
    parent, own = variant_pass.parent, variant_pass.own
    if own is None or not parent.current.reserved:
        return
    ready = parent.conditions().get("PodsReady")
    if ready is not None:
        own.set_condition("PodsReady", ready.status == "True", ready.reason, ready.message)
    if parent.obj.status.reclaimable_pods != own.obj.status.reclaimable_pods:
        status = child(parent.current.json, "status")
        own.write({"reclaimablePods": status.get("reclaimablePods")})


def _condition(draft: Draft, type_: str) -> Condition | None:
    """Return the condition if it is true."""
    return true_condition(draft.obj.status.conditions, type_)


def _before(one: Condition | None, other: Condition) -> bool:
    """Whether the first became true no later than the second."""
    if one is None or one.last_transition_time is None or other.last_transition_time is None:
        return False
    return one.last_transition_time <= other.last_transition_time


_STEPS: tuple[Step, ...] = (
    delete_orphaned_variants,
    finish_variants,
    delete_variants_without_policy,
    sync_variants_with_flavors,
    sync_variant_specs,
    evict_variant_with_late_pods,
    release_evicted_variants,
    sync_variant_activity,
    requeue_migrated_variant,
    sync_parent_admission,
    sync_pods_to_variant,
    open_preemption_gate,
)
