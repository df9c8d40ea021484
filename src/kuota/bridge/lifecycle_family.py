# SPDX-License-Identifier: Apache-2.0
"""One pass over a parent and its variants: who is made, who goes on, and what the winner won.

Variants queue and hold quota; the parent is what its job looks at. It takes the admission of the
variant that won, and goes first when that one has to go, since the pods are its own. A step that
answers true ends the pass.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Condition
from kuota.api.rules.report import child
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import released_status, reserve
from .draft import Draft, Pass
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

Step = Callable[[Family], bool]


def family_pass(view: FamilyView, now: float) -> Pass:
    """What one pass over the family leads to."""
    family = Family(view, now)
    for step in _STEPS:
        if step(family):
            break
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
    end = family.parent.conditions().get("Finished")
    if end is None or end.status != "True":
        return False
    for each in family.variants:
        conditions = each.conditions()
        if not conditions.true("Finished"):
            conditions.put("Finished", True, end.reason, end.message)
            each.put(conditions)
    return True


def without_policy(family: Family) -> bool:
    """In any other queue a Workload queues itself. Without a queue nothing is known yet."""
    if family.policy is not None:
        return not is_parent(family.parent.obj.metadata)
    if family.view.queue is not None:
        for each in list(family.variants):
            family.drop(each, "its queue does not admit concurrently")
    return True


def one_for_each_flavor(family: Family) -> bool:
    tried = {flavor_of(each.seen) for each in family.variants}
    for flavor in family.flavors:
        if flavor not in tried:
            family.make(flavor)
    for each in list(family.variants):
        flavor = flavor_of(each.seen)
        if flavor not in family.flavors:
            family.drop(each, f"flavor {flavor} is not in the ClusterQueue any more")
    return False


def in_line(family: Family) -> bool:
    """Variants ask for what their parent asks for."""
    for each in list(family.variants):
        patch = behind(family.parent.seen, each.seen)
        if outgrown(each.seen, patch):
            family.drop(each, "its parent asks for something else by now")
        else:
            each.patch(patch)
    return False


def late_pods_followed(family: Family) -> bool:
    """A parent whose pods were late takes with it the variant that let it start."""
    told = _told(family.parent, "Evicted")
    if told is None or told.reason != BY_PARENT:
        return False
    for each in family.variants:
        since = _told(each, "QuotaReserved")
        if each.seen.true("Admitted") and not each.seen.true("Evicted") and _before(since, told):
            conditions = each.conditions()
            status = evicted_status(each.obj, conditions, BY_PARENT, told.message, family.now)
            delay = child(family.parent.seen.json, "status").get("requeueState")
            each.write(status | ({"requeueState": delay} if delay else {}))
    return False


def evictions_settled(family: Family) -> bool:
    """Free the quota of evicted variants, but of the one that the parent runs on only after it."""
    parent, own = family.parent, family.own
    runs = parent.seen.reserved
    if runs and not parent.seen.true("Evicted") and (own is None or own.seen.true("Evicted")):
        _evict(parent, own)
    for each in family.variants:
        if each.seen.reserved and each.seen.true("Evicted") and not (runs and each is own):
            each.write(released_status(each.obj, family.now, family.view.rules.gates))
            conditions = each.conditions()
            conditions.drop("PodsReady")
            each.put(conditions)
    return False


def _evict(parent: Draft, own: Draft | None) -> None:
    """Its variants are counted among the evicted; the parent only follows."""
    reason, message = EvictionReason.NO_VARIANT, "None of its variants is admitted on its flavor"
    told = _told(own, "Evicted") if own is not None else None
    if own is not None and told is not None:
        reason = EvictionReason.VARIANT_EVICTED
        message = f"Its variant {own.obj.metadata.name} was evicted: {told.message}"
    conditions = parent.conditions()
    conditions.put("Evicted", True, reason.value, message)
    parent.put(conditions)
    parent.add(*eviction_event(parent.obj, reason, message))


def active_as_useful(family: Family) -> bool:
    """Only variants that could still win are active."""
    for each in family.variants:
        wanted, why = _useful(family, each)
        if wanted is _active(each):
            continue
        each.patch({"spec": {"active": wanted}})
        each.tell("ActivatedVariant" if wanted else "DeactivatedVariant", why)
    return False


def _useful(family: Family, draft: Draft) -> tuple[bool, str]:
    """Whether a variant should be active, and why."""
    winner, policy = family.winner, family.policy
    if not _active(family.parent):
        return False, "Its parent is not active"
    if winner is None or policy is None:
        return True, "No variant is admitted"
    if draft is winner:
        return _active(draft), ""
    name = winner.obj.metadata.name
    if policy.retains:
        return False, f"Variant {name} was admitted first"
    if family.rank(draft) > family.rank(winner):
        return False, f"Variant {name} is admitted on a preferred flavor"
    last = policy.last_acceptable_flavor
    if last and family.rank(draft) > family.place(last):
        return False, f"Variant {name} is admitted, and nobody moves to less than {last}"
    return True, f"Its flavor is preferred to that of variant {name}, which is admitted"


def brought_back(family: Family) -> bool:
    """One that made room for a better one queues again when that one got no use of it."""
    if family.winner is not None or any(_expects_room(each) for each in family.variants):
        return False
    for each in family.variants:
        conditions = each.conditions()
        found = conditions.get("Requeued")
        aside = found is not None and found.status == "False" and not each.seen.reserved
        if aside and found is not None and found.reason == EvictionReason.FLAVOR_MIGRATION:
            conditions.put("Requeued", True, "Reactivated", "No variant is admitted")
            each.put(conditions)
    return False


def _expects_room(draft: Draft) -> bool:
    said = draft.conditions().get("QuotaReserved")
    return said is not None and said.reason == WaitReason.WAITING_FOR_PREEMPTED


def admission_taken(family: Family) -> bool:
    """The parent is admitted as its variant is."""
    parent, winner = family.parent, family.winner
    if winner is None or winner.seen.true("Evicted") or parent.seen.reserved or _set_aside(parent):
        return False
    admission = child(winner.seen.json, "status").get("admission")
    if admission is None or not _active(parent):
        return False
    note = f"Variant {winner.obj.metadata.name} is admitted"
    conditions = parent.conditions()
    reserve(conditions, admission["clusterQueue"])
    conditions.put("Admitted", True, "Admitted", note)
    parent.write({"admission": admission, "conditions": conditions.json()})
    parent.tell("Admitted", note)
    return False


def _set_aside(parent: Draft) -> bool:
    """Whether something else than its variants keeps the parent from running."""
    found = parent.conditions().get("Requeued")
    return found is not None and found.status == "False" and found.reason not in BY_VARIANTS


def pods_followed(family: Family) -> bool:
    """The variant that the parent runs on knows of its pods what decisions depend on."""
    parent, own = family.parent, family.own
    if own is None or not parent.seen.reserved:
        return False
    ready, conditions = parent.conditions().get("PodsReady"), own.conditions()
    if ready is not None:
        conditions.put("PodsReady", ready.status == "True", ready.reason, ready.message)
        own.put(conditions)
    if parent.obj.status.reclaimable_pods != own.obj.status.reclaimable_pods:
        status = child(parent.seen.json, "status")
        own.write({"reclaimablePods": status.get("reclaimablePods")})
    return False


def _active(draft: Draft) -> bool:
    return draft.obj.spec.active is not False


def _told(draft: Draft, type_: str) -> Condition | None:
    """The condition, if it is true."""
    found = draft.conditions().get(type_)
    return found if found is not None and found.status == "True" else None


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
