# SPDX-License-Identifier: Apache-2.0
"""The pods of a SparkApplication, as the Spark operator creates them.

Only the fields that matter to scheduling are derived. A role is the field of the spec that
describes its pods: `driver` or `executor`.
"""

from __future__ import annotations

import re
from typing import Any

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, parse
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text

from .kind import PodSetsUnknown

DRIVER = "driver"
EXECUTOR = "executor"
_LOCAL_DIRECTORY = "spark-local-dir-"
_JAVA_MEMORY = re.compile(r"([0-9.]+)([kmgtp])b?", re.IGNORECASE)


def main_container(role: str) -> str:
    """Return the name of the container that runs Spark."""
    return f"spark-kubernetes-{role}"


def bare_template(role: str) -> Json:
    """Return the pod template of a role that declares none."""
    return {"spec": {"containers": [{"name": main_container(role)}]}}


def pod_template(app: Json, role: str) -> Json:
    """Return the pod template of a role. Raises PodSetsUnknown for an invalid quantity."""
    own = child(app, "spec", role)
    main = _present({"name": main_container(role), "resources": _resources(own, f"spec.{role}")})
    pod: Json = {
        "containers": [main, *_others(own.get("sidecars"), main)],
        "initContainers": elements(own.get("initContainers")),
        "priorityClassName": text(own.get("priorityClassName")),
        "nodeSelector": node_selector(app, role),
        "affinity": child(own, "affinity"),
        "tolerations": elements(own.get("tolerations")),
        "schedulingGates": elements(child(own, "template", "spec").get("schedulingGates")),
    }
    return {"metadata": _metadata(own), "spec": with_volumes(_present(pod), app, role)}


def node_selector(app: Json, role: str) -> dict[str, str]:
    """Return the node selector of a role: that of all roles, then its own."""
    common = string_map(child(app, "spec").get("nodeSelector"))
    return common | string_map(child(app, "spec", role).get("nodeSelector"))


def _metadata(own: Json) -> Json:
    declared = child(own, "template", "metadata")
    fields = {
        field: string_map(declared.get(field)) | string_map(own.get(field))
        for field in ("labels", "annotations")
    }
    return _present(fields)


def _others(sidecars: object, main: Json) -> list[Json]:
    """Return the sidecars that are not the main container itself."""
    found = [each for each in elements(sidecars) if isinstance(each, dict)]
    return [each for each in found if each.get("name") != main["name"]]


def with_volumes(pod: Json, app: Json, role: str) -> Json:
    """Return a pod spec with the volumes that its role mounts. Spark adds local directories."""
    declared = {
        text(mapping(each).get("name")): each
        for each in elements(child(app, "spec").get("volumes"))
    }
    mounts = [
        each
        for each in map(mapping, elements(child(app, "spec", role).get("volumeMounts")))
        if (name := text(each.get("name"))) in declared and not name.startswith(_LOCAL_DIRECTORY)
    ]
    if not mounts:
        return pod
    main, *others = pod["containers"]
    names = dict.fromkeys(text(each.get("name")) for each in mounts)
    return pod | {
        "volumes": [*elements(pod.get("volumes")), *(declared[name] for name in names)],
        "containers": [main | {"volumeMounts": mounts}, *others],
    }


def _resources(own: Json, path: str) -> Json:
    """Return the resources of the main container. Without a core request, it requests its cores."""
    cores = integer(own.get("cores"))
    requests = {
        "cpu": own.get("coreRequest") or (None if cores is None else str(cores)),
        "memory": _kubernetes_memory(own.get("memory")),
    }
    gpu = child(own, "gpu")
    limits = {
        "cpu": own.get("coreLimit"),
        "memory": _kubernetes_memory(own.get("memoryLimit")),
        text(gpu.get("name")): max(integer(gpu.get("quantity")) or 0, 0),
    }
    limits.pop("", None)
    given = {"requests": _present(requests), "limits": _present(limits)}
    for name, value in (*given["requests"].items(), *given["limits"].items()):
        _check(value, name, path)
    return _present(given)


def _kubernetes_memory(value: object) -> str:
    """Return a memory size in the notation of Kubernetes. Spark also accepts that of Java: 512m."""
    memory = text(value).strip()
    java = _JAVA_MEMORY.fullmatch(memory)
    return f"{java[1]}{java[2].upper()}i" if java else memory


def _check(value: object, resource: str, path: str) -> None:
    try:
        parse(value if isinstance(value, int) else text(value))
    except QuantityError as error:
        raise PodSetsUnknown(f"the amount of {resource} is invalid: {error}", path) from error


def _present(fields: dict[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value}
