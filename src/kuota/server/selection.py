# SPDX-License-Identifier: Apache-2.0
"""Which objects of a collection a request wants: its label and field selectors, and its path."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json, Key
from kuota.api.selector import selects

from .requests import Request, Target
from .selectors import FieldRequirement, Selection, SelectorError, selection
from .status import bad_request

_ALWAYS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "events": (
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (
        "regarding.apiVersion",
        "regarding.fieldPath",
        "regarding.kind",
        "regarding.name",
        "regarding.namespace",
        "regarding.resourceVersion",
        "regarding.uid",
        "reason",
        "reportingController",
        "type",
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.hostNetwork",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
    ),
    "secrets": ("type",),
}
# Where the stored object keeps a field under another name.
_STORED = {
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}


class _Labels(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Labels


_DECODER = msgspec.json.Decoder(_Labelled)


class Wanted(msgspec.Struct, frozen=True):
    """What is wanted of a collection. `key` is set when that is one object at most."""

    selection: Selection
    key: Key | None = None

    @property
    def narrow(self) -> bool:
        """Whether anything in the collection might not be wanted."""
        return not self.selection.everything

    def wants(self, obj: Json) -> bool:
        """Whether a stored object is among what is wanted."""
        return self.selection.matches(obj)

    def wants_body(self, body: bytes) -> bool:
        """The same of an object in its bytes, of which no more is read than needed."""
        if not self.narrow:
            return True
        if self.selection.fields:
            return self.wants(msgspec.json.decode(body))
        return selects(self.selection.labels, _DECODER.decode(body).metadata.labels)


def wanted(target: Target, request: Request) -> Wanted:
    """What the request wants. Raises Refused for selectors that cannot be read."""
    labels, fields = (request.query.get(name, "") for name in ("labelSelector", "fieldSelector"))
    known = (*_ALWAYS, *_FIELDS.get(target.kind.resource, ()))
    known += tuple(path.lstrip(".") for path in target.version.selectable)
    try:
        found = selection(labels, fields, known)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    facts = [_stored(each) for each in found.fields]
    if target.name:
        facts.append(FieldRequirement("metadata.name", target.name))
    found = Selection(found.labels, tuple(facts))
    return Wanted(found, _key(found, target))


def _stored(fact: FieldRequirement) -> FieldRequirement:
    head, dot, rest = fact.path.partition(".")
    path = _STORED.get(head, head) + dot + rest
    return FieldRequirement(path, fact.value, fact.equal)


def _key(found: Selection, target: Target) -> Key | None:
    if found.name is None or (target.kind.namespaced and not target.namespace):
        return None
    return Key(target.namespace, found.name)
