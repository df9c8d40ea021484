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
from .family import Family, gate_opened
from .lifecycle_view import FamilyView
from .variants import (
    BY_PARENT,
    BY_VARIANTS,
    behind,
    flavor_of,
    is_parent,
    outgrown,
    parent_of,
)

Step = Callable[[Family], bool | None]


def reconcile_family(view: FamilyView, now: float) -> PassResult:
    """Return the result of one pass over the family."""
    family = Family(view, now)
    any(step(family) for step in _STEPS)
    return family.done()


def strays_deleted(family: Family) -> bool:
    """Delete variants whose parent no longer exists."""
    parent = family.view.parent
    uid = parent.obj.metadata.uid if parent is not None else ""
    for each in list(family.variants):
        owner = parent_of(each.obj.metadata)
        if owner is None or owner.uid != uid:
            family.drop(each, "its parent is gone")
    return parent is None or parent.deleting


def finished(family: Family) -> bool:
    """Finish the variants of a finished parent."""
    end = _condition(family.parent, "Finished")
    if end is None:
        return False
    for each in family.variants:
        if not each.current.true("Finished"):
            each.set_condition("Finished", True, end.reason, end.message)
    return True


def without_policy(family: Family) -> bool:
    """Delete variants if the queue does not admit concurrently. An unknown queue ends the pass."""
    if family.policy is not None:
        return not is_parent(family.parent.obj.metadata)
    if family.view.queue is not None:
        for each in list(family.variants):
            family.drop(each, "its queue does not admit concurrently")
    return True


def one_for_each_flavor(family: Family) -> None:
    tried = {flavor_of(each.current) for each in family.variants}
    for flavor in family.flavors:
        if flavor not in tried:
            family.make(flavor)
    for each in list(family.variants):
        flavor = flavor_of(each.current)
        if flavor not in family.flavors:
            family.drop(each, f"the ClusterQueue no longer has flavor {flavor}")


def in_line(family: Family) -> None:
    """Update variants to the spec of their parent."""
    for each in list(family.variants):
        patch = behind(family.parent.current, each.current)
        if outgrown(each.current, patch):
            family.drop(each, "the spec of its parent has changed")
        else:
            each.patch(patch)


def late_pods_followed(family: Family) -> None:
    """Evict the admitted variant of a parent whose pods were not ready in time."""
    evicted = _condition(family.parent, "Evicted")
    if evicted is None or evicted.reason != BY_PARENT:
        return
    for each in family.variants:
        since = _condition(each, "QuotaReserved")
        if (
            each.current.true("Admitted")
            and not each.current.true("Evicted")
            and _before(since, evicted)
        ):
            conditions = each.conditions()
            status = evicted_status(each.obj, conditions, BY_PARENT, evicted.message, family.now)
            delay = child(family.parent.current.json, "status").get("requeueState")
            each.write(status | ({"requeueState": delay} if delay else {}))


def evictions_settled(family: Family) -> None:
    """Release the quota of evicted variants, for the parent's own variant only after the parent."""
    parent, own = family.parent, family.own
    runs = parent.current.reserved
    if runs and not parent.current.true("Evicted") and (own is None or own.current.true("Evicted")):
        _evict(parent, own)
    for each in family.variants:
        if each.current.reserved and each.current.true("Evicted") and not (runs and each is own):
            each.write(released_status(each.obj, family.now, family.view.config.gates))
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


def active_as_useful(family: Family) -> None:
    """Deactivate variants that can no longer be admitted, and activate the others."""
    for each in family.variants:
        wanted, why = _useful(family, each)
        if wanted is not each.active:
            each.patch({"spec": {"active": wanted}})
            each.record_event("ActivatedVariant" if wanted else "DeactivatedVariant", why)


def _useful(family: Family, draft: Draft) -> tuple[bool, str]:
    """Return whether a variant should be active, and why."""
    winner, policy = family.winner, family.policy
    if not family.parent.active:
        return False, "Its parent is not active"
    if winner is None or policy is None:
        return True, "No variant is admitted"
    if draft is winner:
        return draft.active, ""
    name = winner.obj.metadata.name
    if policy.retains:
        return False, f"Variant {name} was admitted first"
    if family.rank(draft) > family.rank(winner):
        return False, f"Variant {name} is admitted on a preferred flavor"
    last = policy.last_acceptable_flavor
    if last and family.rank(draft) > family.place(last):
        return (
            False,
            f"Variant {name} is admitted, and {last} is the last acceptable flavor",
        )
    return True, f"Its flavor is preferred to that of variant {name}, which is admitted"


def brought_back(family: Family) -> None:
    """Requeue a variant that was migrated away if no preferred variant was admitted."""
    if family.winner is not None or any(_expects_room(each) for each in family.variants):
        return
    for each in family.variants:
        reason = _set_aside(each)
        if reason == EvictionReason.FLAVOR_MIGRATION and not each.current.reserved:
            each.set_condition("Requeued", True, "Reactivated", "No variant is admitted")


def _expects_room(draft: Draft) -> bool:
    reserved = draft.conditions().get("QuotaReserved")
    return reserved is not None and reserved.reason == WaitReason.WAITING_FOR_PREEMPTED


def admission_taken(family: Family) -> None:
    """Admit the parent with the admission of its admitted variant."""
    parent, winner = family.parent, family.winner
    if winner is None or winner.current.true("Evicted") or parent.current.reserved:
        return
    admission = child(winner.current.json, "status").get("admission")
    # The parent may be kept from running by something other than its variants.
    if admission is None or not parent.active or _set_aside(parent) not in (None, *BY_VARIANTS):
        return
    note = f"Variant {winner.obj.metadata.name} is admitted"
    conditions = parent.conditions()
    reserve(conditions, admission["clusterQueue"])
    conditions.put("Admitted", True, "Admitted", note)
    parent.write({"admission": admission, "conditions": conditions.json()})
    parent.record_event("Admitted", note)


def _set_aside(draft: Draft) -> str | None:
    """Return why it is not requeued after an eviction; None if it is."""
    found = draft.conditions().get("Requeued")
    return found.reason if found is not None and found.status == "False" else None


def pods_followed(family: Family) -> None:
    """Copy PodsReady and reclaimable pods from the parent to its admitted variant."""
    parent, own = family.parent, family.own
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
    strays_deleted,
    finished,
    without_policy,
    one_for_each_flavor,
    in_line,
    late_pods_followed,
    evictions_settled,
    active_as_useful,
    brought_back,
    admission_taken,
    pods_followed,
    gate_opened,
)
