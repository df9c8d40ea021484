# SPDX-License-Identifier: Apache-2.0
"""Serves the logs that the runner keeps on disk: of pods, and of deleted pods of Jobs that exist.

Kubernetes has no API for the logs of deleted pods, so those have a group of their own, in which
pods can be listed and their logs read as in the core group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from kuota.api.base import Json, Key
from kuota.api.selector import parse_selector, selects
from kuota.api.status import StatusError, bad_request, not_allowed
from kuota.runner.log_archive import LogArchive
from kuota.runner.logs import LogQuery, container_log
from kuota.runner.pod_home import PodHome
from kuota.server.auth import AccessAttributes
from kuota.server.pods import LogOptions, log_options
from kuota.server.requests import Request, Response

GROUP = "logs.kuota.dev"
_TEXT = "text/plain"


def pod_log(home: PodHome, options: LogOptions) -> AsyncIterator[bytes]:
    """The log of one container of the pod. Raises LookupError if it has none."""
    query = LogQuery(
        follow=options.follow,
        timestamps=options.timestamps,
        tail=options.tail_lines,
        since=_since(options),
        limit_bytes=options.limit_bytes,
    )
    return container_log(home, options.container, query, previous=options.previous)


def _since(options: LogOptions) -> float | None:
    if options.since_time is not None:
        return options.since_time.timestamp()
    if options.since_s is not None:
        return datetime.now(UTC).timestamp() - options.since_s
    return None


class ArchivedLogs:
    """A `kuota.server.api.Extension` for the logs of deleted pods."""

    prefix = f"/apis/{GROUP}"

    def __init__(self, archive: LogArchive) -> None:
        self._archive = archive

    def access(self, request: Request) -> AccessAttributes:
        """Archived logs may be read by those who may read logs of pods in the namespace."""
        key = _parsed(request.path)
        if key is None:
            return AccessAttributes(verb="get", path=request.path)
        place = {"resource": "pods", "namespace": key.namespace}
        if not key.name:
            return AccessAttributes(verb="list", **place)
        return AccessAttributes(verb="get", subresource="log", name=key.name, **place)

    def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("archived logs can only be read")
        key = _parsed(request.path)
        if key is None:
            raise StatusError(404, "NotFound", "the path was not found")
        pods = self._archive.pods(key.namespace)
        if not key.name:
            return _listed(pods, request.query.get("labelSelector", ""))
        pod = next((each for each in pods if each["metadata"]["name"] == key.name), None)
        if pod is None:
            raise StatusError(404, "NotFound", f'pods.{GROUP} "{key.name}" not found')
        options = msgspec.structs.replace(log_options(pod, request), follow=False)
        try:
            return Response(200, pod_log(self._archive.home(pod), options), _TEXT)
        except LookupError as error:
            raise StatusError(404, "NotFound", f"no log of pod {key.name}: {error}") from None


def _listed(pods: list[Json], labels: str) -> Response:
    try:
        wanted = parse_selector(labels)
    except ValueError as error:
        raise bad_request(str(error)) from None
    items = [each for each in pods if selects(wanted, each["metadata"].get("labels"))]
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodList", "metadata": {}, "items": items}
    return Response(200, msgspec.json.encode(body))


def _parsed(path: str) -> Key | None:
    """The archived pod whose log the path names, without a name for all; None for other paths."""
    match path.strip("/").split("/"):
        case ["apis", _, "v1alpha1", "namespaces", namespace, "pods"]:
            return Key(namespace, "")
        case ["apis", _, "v1alpha1", "namespaces", namespace, "pods", name, "log"]:
            return Key(namespace, name)
    return None
