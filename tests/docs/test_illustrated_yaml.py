# SPDX-License-Identifier: Apache-2.0
"""Parts of files in the documentation are valid: what reads the whole file accepts them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from click.testing import CliRunner

from docs.pages import ROOT, Block, blocks, pages
from kuota.api.base import Json
from kuota.api.config.load import checked
from kuota.api.manifest_yaml import load_all
from kuota.bridge.pod_import import parsed_rules
from kuota.cli.check import command
from kuota.history.prices import parsed

BLOCKS = [
    each
    for page in pages()
    for each in blocks(page)
    if each.illustration and each.language == "yaml"
]
POD = {"containers": [{"name": "main", "image": "train", "command": ["train"]}]}
WHOLE: dict[str, Json] = {
    "ProvisioningRequestConfig": {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": "gke"},
        "spec": {"provisioningClassName": "queued-provisioning.gke.io"},
    },
    "Job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "vision"},
        "spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}},
    },
    "ClusterQueue": {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "vision"},
        "spec": {"namespaceSelector": {}},
    },
}
"""Objects that are complete without the part that a page shows."""


def _merged(base: Json, part: Json) -> Json:
    found = dict(base)
    for name, value in part.items():
        both = isinstance(found.get(name), dict) and isinstance(value, dict)
        found[name] = _merged(found[name], value) if both else value
    return found


def _check(*objects: Json) -> None:
    """Report the faults of the objects. A missing reference is only a warning."""
    text = "---\n".join(msgspec.json.encode(each).decode() + "\n" for each in objects)
    result = CliRunner().invoke(command, ["-f", "-", "--for", "cluster"], input=text)
    assert " 0 faults" in result.output, result.output


def _configuration(text: str) -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    cfg, _ = checked(head + text, "KueueDRAIntegration=true")
    assert cfg is not None


def _prometheus(text: str) -> None:
    (value,) = load_all(text)
    assert {"scrape_configs", "rule_files"} == value.keys()
    assert (ROOT / "manifests/monitoring/alerts.yaml").exists()


def _part(kind: str) -> Callable[[str], None]:
    return lambda text: _check(_merged(WHOLE[kind], load_all(text)[0]))


READERS: dict[str, Callable[[str], object]] = {
    "a part of a ProvisioningRequestConfig": _part("ProvisioningRequestConfig"),
    "a part of a Job": _part("Job"),
    "a part of a ClusterQueue": _part("ClusterQueue"),
    "needs ": lambda text: _check(*load_all(text)),
    "a part of Kuota's configuration": _configuration,
    "part of a configuration": _configuration,
    "a part of the configuration file": _configuration,
    "part of the configuration of Prometheus": _prometheus,
    "the CRD of RenderJobs": lambda text: _check(*load_all(text)),
    "a mapping file": lambda text: parsed_rules(msgspec.yaml.decode(text)),
    "prices.yaml": lambda text: parsed(msgspec.yaml.decode(text)),
}
"""What reads a file, by the first words of the illustration."""


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_illustrated_part_of_a_file_is_valid(block: Block) -> None:
    reason = block.text.splitlines()[0].removeprefix("# Illustration: ")
    readers = [each for words, each in READERS.items() if reason.startswith(words)]
    assert 1 == len(readers), f"nothing reads a block that begins with {reason!r}"
    readers[0](block.text)


def test_a_part_with_an_unknown_field_is_found() -> None:
    with pytest.raises(AssertionError, match="nodeSelectors"):
        _part("ProvisioningRequestConfig")("spec: {podSetUpdates: {nodeSelectors: []}}")
