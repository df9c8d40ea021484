# SPDX-License-Identifier: Apache-2.0
"""The default configuration of an installation, and the job kinds that it enables."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.config.frameworks import FRAMEWORKS

DEFAULT_KINDS = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
"""The integrations that the configuration of Kueue's released manifests enables, in its order."""

_SETTINGS = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
clientConnection:
  qps: 300
  burst: 500
integrations:
  frameworks:
"""


class UnknownKinds(ValueError):
    """Names of job kinds that do not exist. The message names all of them."""


def configuration(frameworks: Iterable[str] = DEFAULT_KINDS) -> str:
    """Return the default configuration with these integrations."""
    return _SETTINGS + "".join(f"  - {each}\n" for each in frameworks)


CONFIG = configuration()
"""The default configuration."""


def frameworks_named(text: str) -> list[str]:
    """Return the integrations in a list such as `Job,jobset.x-k8s.io/jobset`, each once.

    A kind is named like its integration or, in any case, like itself. Raises UnknownKinds.
    """
    known = {kind.kind.lower(): name for name, kind in FRAMEWORKS.items()}
    known |= {name.lower(): name for name in FRAMEWORKS}
    words = [word for each in text.split(",") if (word := each.strip())]
    unknown = [word for word in words if word.lower() not in known]
    if unknown or not words:
        kinds = ", ".join(kind.kind for kind in FRAMEWORKS.values())
        fault = f"unknown job kind {', '.join(unknown)}" if unknown else "no job kind is named"
        raise UnknownKinds(f"{fault}; use {kinds}, or the names of their integrations")
    return list(dict.fromkeys(known[word.lower()] for word in words))
