# SPDX-License-Identifier: Apache-2.0
"""Rules for Deployments, StatefulSets and LeaderWorkerSets, beyond the recorded cases."""

from __future__ import annotations

import pytest

from api.rule_examples import said
from kuota.api.gates import Gates
from kuota.api.rules.serving import serving_faults

GATED_BY = "kueue.x-k8s.io/admission-gated-by"


@pytest.mark.parametrize(
    ("gates", "kind"), [("no domain", "Invalid"), ("a.io/" + "x" * 60, "TooLong")]
)
def test_admission_gates_must_be_well_formed_in_every_update(gates: str, kind: str) -> None:
    obj = {"kind": "Deployment", "metadata": {"name": "it", "annotations": {GATED_BY: gates}}}
    faults = {(f"metadata.annotations[{GATED_BY}]", kind)}
    assert faults == said(list(serving_faults(obj, None, Gates())))
    assert faults == said(list(serving_faults(obj, obj, Gates())))
