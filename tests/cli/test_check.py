# SPDX-License-Identifier: Apache-2.0
"""The output and exit status of `kuota check`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kuota.cli import manifests
from kuota.cli.check import command

FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: gpus
"""
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: team
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: gpus
      resources:
      - name: cpu
        nominalQuota: 4
"""
LOCAL = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: main
  namespace: ns
spec:
  clusterQueue: team
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: ns
  labels:
    kueue.x-k8s.io/queue-name: main
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: trainer
"""
COHORT = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: %s}
spec: {parentName: %s}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
CUSTOM = """\
apiVersion: example.com/v1
kind: Robot
metadata: {name: r, anything: goes}
"""


def check(*documents: str, args: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(command, ["-f", "-", *args], input="---\n".join(documents))


def lines(result: Result) -> list[str]:
    return result.output.splitlines()


def test_sound_manifests_pass_in_silence() -> None:
    result = check(FLAVOR, QUEUE, LOCAL, JOB, CONFIG_MAP)
    assert ["5 objects, 0 faults, 0 warnings"] == lines(result)
    assert 0 == result.exit_code


def test_a_fault_shows_file_line_object_path_and_a_way_out() -> None:
    result = check(
        FLAVOR, QUEUE.replace("nominalQuota: 4", "nominalQuota: 4\n        lendingLimit: 5")
    )
    path = "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit"
    assert f"<stdin>:19: ClusterQueue/team {path}: " in result.output
    assert "Fix: set spec.cohortName, or remove lendingLimit." in result.output
    assert "2 objects, 2 faults, 0 warnings" == lines(result)[-1]
    assert 1 == result.exit_code


SLIPS = [
    (QUEUE.replace("namespaceSelector", "nameSpaceSelector"), 6, "did you mean namespaceSelector?"),
    (QUEUE.replace("namespaceSelector: {}", "cohortName: a\n  cohortName: b"), 7, "is set twice"),
    (QUEUE.replace("namespaceSelector: {}", "stopPolicy: off"), 6, "None, Hold, HoldAndDrain"),
    (QUEUE.replace("namespaceSelector: {}", "cohortName: y"), 6, "YAML reads y, yes and on"),
    (QUEUE.replace("nominalQuota: 4", "nominalQuota: 4GB"), 13, "did you mean 4G or 4Gi?"),
    (QUEUE.replace("kind: ClusterQueue", "kind: Clusterqueue"), 2, "did you mean ClusterQueue?"),
    (QUEUE.replace("v1beta2", "v1"), 1, "use kueue.x-k8s.io/v1beta2"),
    (QUEUE.replace("  name: team\n", "  namr: team\n"), 4, "did you mean name?"),
    (QUEUE.replace("kind: ClusterQueue\n", ""), 1, "kind: is missing"),
    (QUEUE.replace("spec:", "spec"), 6, "not YAML"),
    (JOB.replace("queue-name: main", "queue-name: 5"), 7, 'put it in quotes: "5"'),
    (JOB.replace("image: trainer", "imgae: trainer"), 15, "did you mean image?"),
    (JOB.replace("suspend: true", "parallelism: '2'"), 9, "write it without quotes"),
    (JOB.replace("restartPolicy: Never", "restartPolicy: Always"), 12, '"OnFailure", "Never"'),
    (JOB.replace("kind: Job", "kind: job"), 2, "did you mean Job?"),
    (JOB.replace("batch/v1", "v1"), 1, "use batch/v1"),
    (CONFIG_MAP + "dta: {a: b}\n", 4, "did you mean data?"),
    (CONFIG_MAP + "data: {a: 5}\n", 4, 'put it in quotes: "5"'),
    (CONFIG_MAP + "data: {}\ndata: {a: b}\n", 5, "is set twice"),
    ("just words\n", 1, "is not an object with fields"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), SLIPS)
def test_common_slips_are_found_on_their_line(text: str, line: int, words: str) -> None:
    result = check(text)
    assert any(words in each for each in lines(result) if each.startswith(f"<stdin>:{line}: "))
    assert 1 == result.exit_code


LOOSE_ENDS = [
    ((QUEUE, FLAVOR.replace("gpus", "gpu")), "no ResourceFlavor gpus", "did you mean gpu?"),
    ((LOCAL, QUEUE.replace("team", "teams")), "no ClusterQueue team", "did you mean teams?"),
    ((JOB, LOCAL.replace("ns", "other")), "no LocalQueue main", "in namespace other"),
    ((FLAVOR + "spec: {topologyName: racks, nodeLabels: {a: b}}\n",
      "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: rack}\n"
      "spec: {levels: [{nodeLabel: rack}]}\n"), "no Topology racks", "did you mean rack?"),
]  # fmt: skip


@pytest.mark.parametrize(("documents", "words", "fix"), LOOSE_ENDS)
def test_a_name_that_leads_nowhere_is_a_warning(
    documents: tuple[str, ...], words: str, fix: str
) -> None:
    result = check(*documents)
    [line] = [each for each in lines(result) if "warning: " in each]
    assert words in line
    assert fix in line
    assert 0 == result.exit_code


def test_a_name_is_not_missed_when_nothing_of_that_kind_is_given() -> None:
    assert ["3 objects, 0 faults, 0 warnings"] == lines(check(LOCAL, JOB, FLAVOR))


def test_cohorts_in_a_circle_are_a_warning_with_its_consequence() -> None:
    circle = [COHORT % pair for pair in (("a", "b"), ("b", "a"), ("c", "a"))]
    result = check(*circle)
    assert "cohorts form a cycle (a > b > a): Kueue admits nothing" in lines(result)[0]
    assert "3 objects, 0 faults, 2 warnings" == lines(result)[-1]
    assert 0 == result.exit_code


def test_the_same_object_twice_is_a_fault_that_names_the_first() -> None:
    result = check(FLAVOR, FLAVOR)
    assert "ResourceFlavor gpus is given twice, first at <stdin>:1" in result.output
    assert 1 == result.exit_code


def test_the_older_version_is_checked_in_its_own_words() -> None:
    old = QUEUE.replace("v1beta2", "v1beta1").replace("namespaceSelector: {}", "cohort: c")
    assert 0 == check(FLAVOR, old).exit_code
    limit = old.replace("  cohort: c\n", "").replace(": 4", ": 4\n        borrowingLimit: 1")
    assert "set spec.cohort, or remove borrowingLimit" in check(FLAVOR, limit).output


def test_the_items_of_a_list_are_checked_one_by_one() -> None:
    items = [yaml.safe_load(LOCAL), yaml.safe_load(FLAVOR)]
    items[0]["spec"]["clusterQueue"] = 5
    result = check(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    assert "LocalQueue/main spec.clusterQueue: must be a string" in result.output
    assert "2 objects, 1 fault, 0 warnings" == lines(result)[-1]


def test_json_with_escapes_that_yaml_lacks_is_read() -> None:
    obj = yaml.safe_load(FLAVOR)
    obj["metadata"]["annotations"] = {"a": "\N{GRINNING FACE}"}
    assert 0 == check(json.dumps(obj)).exit_code
    twice = json.dumps(obj).replace('"metadata": {', '"metadata": {"name": "a", ')
    assert "ResourceFlavor/gpus metadata.name: is set twice." in check(twice).output


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_findings_can_be_had_as_data(output: str) -> None:
    result = check(QUEUE.replace("4", "-4"), CUSTOM, args=("-o", output))
    document = json.loads(result.output) if output == "json" else yaml.safe_load(result.output)
    assert (1, 1, 1, 0) == tuple(
        document[key] for key in ("objects", "skipped", "faults", "warnings")
    )
    [finding] = document["findings"]
    assert ("<stdin>", 13, "ClusterQueue", "team", "error", "FieldValueInvalid") == tuple(
        finding[key] for key in ("file", "line", "kind", "name", "severity", "type")
    )


def test_folders_are_read_with_all_below_but_not_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "queue.yml").write_text(QUEUE)
    (tmp_path / "flavor.yaml").write_text(FLAVOR)
    (tmp_path / "package.json").write_text('{"name": "not for Kubernetes"}')
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").write_text("{")
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert ["2 objects, 0 faults, 0 warnings, 1 other object skipped"] == lines(result)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["absent", "binary"])
def test_a_file_that_cannot_be_read_gives_status_2_and_hides_no_other(
    tmp_path: Path, content: bytes | None
) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    if content is not None:
        bad.write_bytes(content)
    good.write_text(QUEUE.replace("4", "-4"))
    result = CliRunner().invoke(command, ["-f", str(bad), "-f", str(good)])
    assert 2 == result.exit_code
    assert f"{bad}: " in lines(result)[0]
    assert f"{good}:13: " in lines(result)[1]


def test_a_folder_with_too_much_in_it_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "MOST_ENTRIES", 3)
    for name in ("a.yaml", "b.yaml", "c.txt", ".hidden/d.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(FLAVOR)
    assert 2 == len(manifests.load([str(tmp_path)]))
    (tmp_path / "d.txt").write_text("")
    (refused,) = manifests.load([str(tmp_path)])
    assert refused.unreadable
    assert "name the directory that contains only manifests" in refused.faults[0].message


def test_an_empty_folder_and_no_argument_are_wrong_use(tmp_path: Path) -> None:
    assert 2 == CliRunner().invoke(command, ["-f", str(tmp_path)]).exit_code
    assert 2 == CliRunner().invoke(command, []).exit_code


def test_feature_gates_are_heeded_and_checked() -> None:
    assert 2 == check(QUEUE, args=("--feature-gates", "Nonsense=true")).exit_code
    policy = "concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}"
    policy += "\n  queueingStrategy: StrictFIFO"
    text = QUEUE.replace("namespaceSelector: {}", policy)
    assert 0 == check(text).exit_code
    assert 1 == check(text, args=("--feature-gates", "ConcurrentAdmission=true")).exit_code


def test_text_nested_without_end_is_a_fault_not_a_crash() -> None:
    assert 1 == check("[" * 5000).exit_code
    assert 1 == check("a: &a [*a]\n").exit_code


def test_the_configuration_of_kueue_is_checked_too() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfoo: 1\n"
    assert "<stdin>:3: Configuration foo: unknown field" in check(text).output


def test_the_configuration_in_a_config_map_is_checked_too() -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata:\n"
    head += "  controller_manager_config.yaml: |\n    apiVersion: config."
    text = head + "kueue.x-k8s.io/v1beta2\n    kind: Configuration\n    foo: 1\n"
    path = "data[controller_manager_config.yaml].foo"
    assert f"<stdin>:5: ConfigMap/a {path}: unknown field" in check(text).output
    other = head + "jobset.x-k8s.io/v1alpha1\n    kind: Configuration\n    foo: 1\n"
    assert "0 faults" in check(other).output


def test_importing_the_command_loads_nothing_heavy() -> None:
    code = "import sys, kuota.cli.check; print(sorted({'msgspec', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      backOffLimit: 2
      template:
        spec: {restartPolicy: Never, container: [{name: main, image: x}]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, lables: {a: b}}
spec: {containers: [{name: main, image: x, resources: {request: {cpu: 1}}}]}
"""


def test_kinds_of_kubernetes_are_held_to_their_fields_and_others_are_left_alone() -> None:
    result = check(CRON_JOB, POD, CUSTOM)
    paths = [each.split(" ")[2] for each in lines(result)[:-1]]
    assert [
        "spec.jobTemplate.spec.backOffLimit:",
        "spec.jobTemplate.spec.template.spec.container:",
        "spec.jobTemplate.spec.template.spec.containers:",
        "metadata.lables:",
        "spec.containers[0].resources.request:",
    ] == paths
    assert "2 objects, 5 faults, 0 warnings, 1 other object skipped" == lines(result)[-1]


def test_only_the_syntax_of_unknown_kinds_is_checked() -> None:
    result = check(CUSTOM + "spec: {a: 1, a: 2}\n")
    assert "1 object, 1 fault, 0 warnings" == lines(result)[-1]
    assert 'Robot/r spec.a: key "a" is set twice.' in result.output


def test_what_a_controller_wrote_is_not_held_against_the_user() -> None:
    stored = JOB.replace("  name: train\n", "  name: train\n  uid: u-1\n  resourceVersion: '5'\n")
    assert 0 == check(stored + "status: {active: 1, newerThanWeKnow: true}\n").exit_code


@pytest.mark.parametrize(
    ("document", "line", "words"),
    [
        (QUEUE.replace("  namespaceSelector: {}\n", ""), 5, "matches no namespace"),
        (JOB.replace("queue-name", "queue_name"), 7, "did you mean kueue.x-k8s.io/queue-name?"),
    ],
)
def test_what_can_never_have_an_effect_is_a_warning(document: str, line: int, words: str) -> None:
    result = check(document, args=("--for", "cluster"))
    assert 0 == result.exit_code
    (said, *_) = lines(result)
    assert said.startswith(f"<stdin>:{line}: ")
    assert "warning: " in said
    assert words in said


def test_a_job_with_only_an_image_is_reported_for_kuota_up() -> None:
    result = check(JOB, args=("--for", "up"))
    assert "spec.template.spec.containers[0].command: warning: is not set" in result.output
    assert "1 object, 0 faults, 1 warning" == lines(result)[-1]
    assert "0 warnings" in check(JOB, args=("--for", "cluster")).output


def test_required_levels_are_held_against_the_nodes_among_the_manifests() -> None:
    level = "    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}\n"
    asking = JOB.replace("    spec:\n      restart", f"{level}    spec:\n      restart")
    node = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: {%s: a}\n"
    arguments = ("--for", "cluster")
    assert "no node has the label rack" in check(asking, node % "block", args=arguments).output
    assert "no node has" not in check(asking, node % "rack", args=arguments).output


def test_job_kinds_of_operators_are_validated() -> None:
    job_set = """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: b, labels: {kueue.x-k8s.io/queue-name: "Not Valid"}}
        spec: {replicatedJobs: []}
    """
    result = check(job_set)
    assert 1 == result.exit_code
    assert "JobSet/b metadata.labels[kueue.x-k8s.io/queue-name]" in result.output


def test_job_kinds_of_operators_are_checked_as_kuota_up_checks_them() -> None:
    pod = "{restartPolicy: Never, container: [], containers: [{name: m, image: x, command: [a]}]}"
    job_set = f"""
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {{name: ring}}
        spec:
          replicatedJobs:
          - name: w
            replica: 2
            template: {{spec: {{parallelism: two, template: {{spec: {pod}}}}}}}
    """
    said = check(job_set).output
    assert "replicatedJobs[0].template.spec.parallelism: must be a whole number" in said
    assert 'unknown field "container"' in said
    assert "replicatedJobs[0].replica: warning: " in said
    assert "did you mean replicas?" in said
