# SPDX-License-Identifier: Apache-2.0
"""Objects that use many fields, each with the path of its collection."""

from __future__ import annotations

from typing import Any

import yaml

from server.served import CRDS, JOBS, KUEUE, PODS

_JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: full
  labels: {a: b}
  annotations: {c: d}
  finalizers: [x.io/held]
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  backoffLimitPerIndex: 1
  maxFailedIndexes: 1
  suspend: true
  ttlSecondsAfterFinished: 5
  podFailurePolicy:
    rules:
    - {action: FailJob, onExitCodes: {operator: In, values: [42]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  successPolicy: {rules: [{succeededIndexes: "0"}]}
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec:
      restartPolicy: Never
      nodeSelector: {gpu: h100}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [v]}]}]
      initContainers: [{name: before, image: x, command: [a]}]
      containers:
      - name: main
        image: busybox
        command: [sh, -c]
        args: [exit]
        env:
        - {name: A, value: b}
        - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi, x.io/gpu: 1}}
        volumeMounts: [{name: v, mountPath: /v}]
        livenessProbe: {httpGet: {port: 80}}
      volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}, {name: c, configMap: {name: c}}]
"""

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: full, labels: {a: b}}
spec:
  schedulingGates: [{name: x.io/gate}]
  terminationGracePeriodSeconds: 5
  securityContext: {runAsUser: 1000}
  containers:
  - name: main
    image: x
    resources: {limits: {cpu: 1, memory: 1Gi}}
    readinessProbe: {exec: {command: [x]}}
  volumes: [{name: h, hostPath: {path: /tmp}}, {name: s, secret: {secretName: s}}]
"""

_CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: full}
spec:
  schedule: "*/5 * * * *"
  timeZone: Etc/UTC
  concurrencyPolicy: Forbid
  jobTemplate:
    metadata: {labels: {a: b}}
    spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: a, image: b}]}}}
"""

_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: full}
spec:
  cohortName: lab
  namespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
  queueingStrategy: StrictFIFO
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}
  fairSharing: {weight: "2"}
  admissionChecksStrategy: {admissionChecks: [{name: check, onFlavors: [f]}]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources: [{name: cpu, nominalQuota: 5, borrowingLimit: 1, lendingLimit: 1}]
"""

_OLD_QUEUE = (
    _QUEUE.replace("v1beta2", "v1beta1")
    .replace("cohortName", "cohort")
    .replace("name: full", "name: older")
)

_WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: full}
spec:
  queueName: q
  priority: 5
  priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}
  podSets:
  - name: main
    count: 3
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
status:
  conditions:
  - type: QuotaReserved
    status: "True"
    reason: R
    message: m
    lastTransitionTime: "2026-01-01T00:00:00Z"
  admission:
    clusterQueue: cq
    podSetAssignments: [{name: main, count: 3, flavors: {cpu: f}, resourceUsage: {cpu: 3}}]
"""

_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {kind: Thing, plural: things, shortNames: [th], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns: [{name: N, type: integer, jsonPath: .spec.replicas, priority: 1}]
    selectableFields: [{jsonPath: .spec.mode}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [mode]
            properties:
              mode: {type: string, enum: [a, b], default: a}
              replicas: {type: integer, minimum: 0, maximum: 9}
              any: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              name: {type: string, pattern: "^[a-z]+$", maxLength: 5}
              items:
                type: array
                maxItems: 3
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [key]
                items: {type: object, required: [key], properties: {key: {type: string}}}
              values: {type: object, additionalProperties: {type: string}}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {replicas: {type: integer}}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

_THING = """
apiVersion: x.io/v1
kind: Thing
metadata: {name: full}
spec:
  replicas: 3
  any: 5
  name: abc
  items: [{key: a}, {key: b}]
  values: {a: b}
  open: {deep: {er: 1}}
"""

FULL: tuple[tuple[str, Any], ...] = tuple(
    (path, yaml.safe_load(text))
    for path, text in (
        (JOBS, _JOB),
        (PODS, _POD),
        ("/apis/batch/v1/namespaces/default/cronjobs", _CRON_JOB),
        (f"{KUEUE}/clusterqueues", _QUEUE),
        ("/apis/kueue.x-k8s.io/v1beta1/clusterqueues", _OLD_QUEUE),
        (f"{KUEUE}/namespaces/default/workloads", _WORKLOAD),
        (CRDS, _DEFINITION),
        ("/apis/x.io/v1/namespaces/default/things", _THING),
    )
)

DEFINITION: Any = yaml.safe_load(_DEFINITION)
THING: Any = yaml.safe_load(_THING)
