# SPDX-License-Identifier: Apache-2.0
"""Computes the requests of one pod, and the total of a set of pods.

Requests are exact nano integers until `pod_amounts` converts them to the integers of the engine.
They are rounded up once per pod and then multiplied by the number of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .base import ResourceList, Struct
from .core import Container, PodSpec
from .faults import FieldError, invalid
from .quantity import NANO, amount, mul, parse, units
from .workload import Workload

RETAIN = "Retain"
REPLACE = "Replace"

Nanos = dict[str, int]
Amounts = dict[str, int]


class Transformation(Struct):
    """One transformation: `input` is also counted as, or replaced by, `outputs`."""

    input: str = ""
    strategy: str = ""
    multiply_by: str = ""
    outputs: ResourceList | None = None


_NO_RULES: Mapping[str, Transformation] = {}


def by_input(rules: Iterable[Transformation]) -> dict[str, Transformation]:
    """Return the transformations by input resource."""
    return {rule.input: rule for rule in rules}


def transformed(
    requests: Mapping[str, int],
    rules: Mapping[str, Transformation],
    excluded: tuple[str, ...] = (),
) -> dict[str, int]:
    """Return the requests of one pod after exclusion and transformation, in nano-units.

    Resources are first excluded by prefix. Outputs of transformations are not subject to exclusion.
    Outputs with negative factors may cancel each other, but never reduce direct requests.
    """
    asked = {
        name: nano
        for name, nano in requests.items()
        if not (excluded and name.startswith(excluded))
    }
    if not any(name in rules for name in asked):
        return asked
    kept: dict[str, int] = {}
    generated: dict[str, int] = {}
    for name, nano in asked.items():
        rule = rules.get(name)
        if rule is None or rule.strategy != REPLACE:
            kept[name] = nano
        if rule is not None:
            _generate(generated, nano * asked.get(rule.multiply_by, NANO), rule.outputs)
    for name, fine in generated.items():
        kept[name] = kept.get(name, 0) + -(-max(0, fine) // NANO**2)
    return kept


def _generate(generated: dict[str, int], base: int, outputs: ResourceList | None) -> None:
    """Add base (in 10^-18) x factor to each output (in 10^-27)."""
    for name, factor in (outputs or {}).items():
        generated[name] = generated.get(name, 0) + base * parse(factor)


def nanos(resources: ResourceList | None) -> Nanos:
    """Return the quantities of a resource list in nano-units."""
    return {name: parse(quantity) for name, quantity in (resources or {}).items()}


def pod_requests(spec: PodSpec) -> Nanos:
    """Return the resources that Kubernetes reserves on a node for the pod, including zeros.

    Init containers run one after another, so their peak counts. Sidecars keep running. Pod-level
    requests for cpu, memory and hugepages replace those of the containers.
    """
    total: Nanos = {}
    for container in spec.containers or ():
        _add(total, container.resources.requests)
    if spec.init_containers:
        _add_init(total, spec.init_containers)
    if spec.resources and spec.resources.requests:
        for name, quantity in spec.resources.requests.items():
            if is_pod_level(name):
                total[name] = parse(quantity)
    _add(total, spec.overhead)
    return total


def _add(total: Nanos, resources: ResourceList | None) -> None:
    if resources:
        for name, quantity in resources.items():
            total[name] = total.get(name, 0) + parse(quantity)


def _add_init(total: Nanos, containers: Iterable[Container]) -> None:
    """Add the sidecars to `total`, and raise it to the peak of the init phase."""
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in containers:
        if container.restart_policy == "Always":
            _add(sidecars, container.resources.requests)
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, container.resources.requests)
        for name, value in moment.items():
            peak[name] = max(value, peak.get(name, value))
    for name, value in sidecars.items():
        total[name] = total.get(name, 0) + value
    for name, value in peak.items():
        total[name] = max(value, total.get(name, value))


def is_pod_level(resource: str) -> bool:
    """Whether a pod as a whole can request the resource."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def pod_amounts(
    spec: PodSpec,
    rules: Mapping[str, Transformation] = _NO_RULES,
    excluded: tuple[str, ...] = (),
) -> Amounts:
    """Return the amounts of one pod: excluded, transformed, and rounded up."""
    requests = pod_requests(spec)
    if rules or excluded:
        requests = transformed(requests, rules, excluded)
    return {name: max(0, amount(nano, name)) for name, nano in requests.items()}


def multiplied(amounts: Amounts, count: int) -> Amounts:
    """Return the total of `count` pods. The total of a negative count is empty."""
    pods = max(0, count)
    return {name: mul(value, pods) for name, value in amounts.items()}


def rescaled(totals: Amounts, current: int, wanted: int) -> Amounts:
    """Scale totals of `current` pods to `wanted` pods. Totals of 0 pods are unchanged."""
    if current == wanted or current == 0:
        return totals
    return {name: mul(value // current, wanted) for name, value in totals.items()}


def request_faults(workload: Workload) -> list[FieldError]:
    """Return a fault for every place where a request exceeds its limit."""
    return [
        invalid(
            path,
            over,
            f"requests of {', '.join(over)} exceed the limits",
            "lower the requests or raise the limits",
        )
        for path, requests, limits in _places(workload)
        if (over := exceeding(requests, limits))
    ]


def exceeding(requests: ResourceList | None, limits: ResourceList | None) -> list[str]:
    """Return the resources whose request exceeds their limit, sorted."""
    if not requests or not limits:
        return []
    return sorted(
        name
        for name, quantity in requests.items()
        if name in limits and units(quantity, name) > units(limits[name], name)
    )


def _places(
    workload: Workload,
) -> Iterator[tuple[str, ResourceList | None, ResourceList | None]]:
    """Yield each block of requests and limits of a workload, with its path."""
    for index, pod_set in enumerate(workload.spec.pod_sets or ()):
        path, spec = pod_set_path(index), pod_set.template.spec
        for at, container in containers(spec, path):
            yield at, container.resources.requests, container.resources.limits
        if spec.resources is not None:
            yield f"{path}.resources", spec.resources.requests, spec.resources.limits


def pod_set_path(index: int) -> str:
    """Return the path of a pod set's pod spec."""
    return f"spec.podSets[{index}].template.spec"


def containers(spec: PodSpec, path: str) -> Iterator[tuple[str, Container]]:
    """Yield init containers, then containers, each with its path."""
    for field, some in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(some or ()):
            yield f"{path}.{field}[{index}]", container
