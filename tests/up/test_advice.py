# SPDX-License-Identifier: Apache-2.0
"""kubectl shows a warning for every object that can never have an effect."""

from __future__ import annotations

import subprocess

from up.machine import KUBECTL, Machine

LABEL = "kueue.x-k8s.io/queue-name"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {LABEL: q}}
spec:
  template:
    metadata: {annotations: {NOTE: x}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: trainer}]
"""
CASES = {
    "matches no namespace": """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
""",
    "`kuota up` pulls no images": JOB.replace("NAME", "image-only").replace("LABEL", LABEL),
    "no Topology has the level x": JOB.replace("NAME", "placed")
    .replace("LABEL", LABEL)
    .replace("NOTE", "kueue.x-k8s.io/podset-required-topology"),
    "no node has the label rack": """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}]}
""",
    "did you mean kueue.x-k8s.io/provisioning-request?": """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: check}
spec: {controllerName: kueue.x-k8s.io/provisioning-requests}
""",
    "did you mean kueue.x-k8s.io/queue-name?": JOB.replace("NAME", "misspelt").replace(
        "LABEL", "kueue.x-k8s.io/queue_name"
    ),
}


def test_kubectl_apply_prints_what_can_never_happen(machine: Machine) -> None:
    for words, manifest in CASES.items():
        done = subprocess.run(
            [KUBECTL, "apply", "-f", "-"],
            input=manifest,
            env=machine.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        (line, *_) = [each for each in done.stderr.splitlines() if words in each]
        assert line.startswith("Warning: "), done.stderr
    queue = machine.get("clusterqueue", "all")
    assert "namespaceSelector" in queue["status"]["conditions"][0]["message"]
