# SPDX-License-Identifier: Apache-2.0
"""One pass over a parent and its variants: who is made, who goes on, and what the winner won.

Variants queue and hold quota; the parent is what its job looks at. It takes the admission of the
variant that won, and goes first when that one has to go, since the pods are its own. A step that
answers true ends the pass.
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
    """What one pass over the family leads to."""
    family = Family(view, now)
    any(step(family) for step in _STEPS)
    return family.done()


def strays_deleted(family: Family) -> bool:
    """Variants end with the very parent that they were made for."""
    parent = family.view.parent
    uid = parent.obj.metadata.uid if parent is not None else ""
    for each in list(family.variants):
        owner = parent_of(each.obj.metadata)
        if owner is None or owner.uid != uid:
            family.drop(each, "its parent is gone")
    return parent is None or parent.deleting


def finished(family: Family) -> bool:
    """Variants are finished with their parent."""
    end = _told(family.parent, "Finished")
    if end is None:
        return False
    for each in family.variants:
        if not each.current.true("Finished"):
            each.set_condition("Finished", True, end.reason, end.message)
    return True


def without_policy(family: Family) -> bool:
    """In any other queue a Workload queues itself. Without a queue nothing is known yet."""
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
            family.drop(each, f"flavor {flavor} is not in the ClusterQueue any more")


def in_line(family: Family) -> None:
    """Variants ask for what their parent asks for."""
    for each in list(family.variants):
        patch = behind(family.parent.current, each.current)
        if outgrown(each.current, patch):
            family.drop(each, "its parent asks for something else by now")
        else:
            each.patch(patch)


def late_pods_followed(family: Family) -> None:
    """A parent whose pods were late takes with it the variant that let it start."""
    told = _told(family.parent, "Evicted")
    if told is None or told.reason != BY_PARENT:
        return
    for each in family.variants:
        since = _told(each, "QuotaReserved")
        if (
            each.current.true("Admitted")
            and not each.current.true("Evicted")
            and _before(since, told)
        ):
            conditions = each.conditions()
            status = evicted_status(each.obj, conditions, BY_PARENT, told.message, family.now)
            delay = child(family.parent.current.json, "status").get("requeueState")
            each.write(status | ({"requeueState": delay} if delay else {}))


def evictions_settled(family: Family) -> None:
    """Free the quota of evicted variants, but of the one that the parent runs on only after it."""
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
    """Its variants are counted among the evicted; the parent only follows."""
    reason, message = EvictionReason.NO_VARIANT, "None of its variants is admitted on its flavor"
    told = _told(own, "Evicted") if own is not None else None
    if own is not None and told is not None:
        reason = EvictionReason.VARIANT_EVICTED
        message = f"Its variant {own.obj.metadata.name} was evicted: {told.message}"
    parent.set_condition("Evicted", True, reason.value, message)
    parent.add(*eviction_event(parent.obj, reason, message))


def active_as_useful(family: Family) -> None:
    """Only variants that could still win are active."""
    for each in family.variants:
        wanted, why = _useful(family, each)
        if wanted is not each.active:
            each.patch({"spec": {"active": wanted}})
            each.record_event("ActivatedVariant" if wanted else "DeactivatedVariant", why)


def _useful(family: Family, draft: Draft) -> tuple[bool, str]:
    """Whether a variant should be active, and why."""
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
        return False, f"Variant {name} is admitted, and nobody moves to less than {last}"
    return True, f"Its flavor is preferred to that of variant {name}, which is admitted"


def brought_back(family: Family) -> None:
    """One that made room for a better one queues again when that one got no use of it."""
    if family.winner is not None or any(_expects_room(each) for each in family.variants):
        return
    for each in family.variants:
        reason = _set_aside(each)
        if reason == EvictionReason.FLAVOR_MIGRATION and not each.current.reserved:
            each.set_condition("Requeued", True, "Reactivated", "No variant is admitted")


def _expects_room(draft: Draft) -> bool:
    said = draft.conditions().get("QuotaReserved")
    return said is not None and said.reason == WaitReason.WAITING_FOR_PREEMPTED


def admission_taken(family: Family) -> None:
    """The parent is admitted as its variant is."""
    parent, winner = family.parent, family.winner
    if winner is None or winner.current.true("Evicted") or parent.current.reserved:
        return
    admission = child(winner.current.json, "status").get("admission")
    # Something else than its variants may keep the parent from running.
    if admission is None or not parent.active or _set_aside(parent) not in (None, *BY_VARIANTS):
        return
    note = f"Variant {winner.obj.metadata.name} is admitted"
    conditions = parent.conditions()
    reserve(conditions, admission["clusterQueue"])
    conditions.put("Admitted", True, "Admitted", note)
    parent.write({"admission": admission, "conditions": conditions.json()})
    parent.record_event("Admitted", note)


def _set_aside(draft: Draft) -> str | None:
    """Why it does not queue after an eviction; None if it does."""
    found = draft.conditions().get("Requeued")
    return found.reason if found is not None and found.status == "False" else None


def pods_followed(family: Family) -> None:
    """The variant that the parent runs on knows of its pods what decisions depend on."""
    parent, own = family.parent, family.own
    if own is None or not parent.current.reserved:
        return
    ready = parent.conditions().get("PodsReady")
    if ready is not None:
        own.set_condition("PodsReady", ready.status == "True", ready.reason, ready.message)
    if parent.obj.status.reclaimable_pods != own.obj.status.reclaimable_pods:
        status = child(parent.current.json, "status")
        own.write({"reclaimablePods": status.get("reclaimablePods")})


def _told(draft: Draft, type_: str) -> Condition | None:
    """The condition, if it is true."""
    return true_condition(draft.obj.status.conditions, type_)


def _before(one: Condition | None, other: Condition) -> bool:
    """Whether one became true no later than the other."""
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
