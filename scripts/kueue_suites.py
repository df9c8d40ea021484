# SPDX-License-Identifier: Apache-2.0
"""`kueue_suites.py DIR SUITE [GINKGO OPTION...]` runs an integration suite of Kueue against Kuota.

DIR is a local checkout of Kueue. Its sources stay unchanged: Go's build overlay replaces a few of
them. A suite calls Kueue's set-up functions as usual, but they only record what they were asked to
set up (scripts/kueue_suites/standin.go), and `kuota controller` runs with that configuration.
Messages are not compared, because Kuota uses its own. Specs that intercept Kueue's client or call
its packages directly cannot pass. Needs Go and the programs of `make kube`.

With KUOTA_KEEP=1 in the environment, a manager with the same set-up as the previous one gets the
same process. This saves minutes in suites that start a manager per spec (webhook/core). Specs that
restart the manager then test nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
STANDIN = "sigs.k8s.io/kueue/pkg/util/standin"
SUITES = ("test/integration/singlecluster", "test/integration")
"""Where suites are looked for, in this order."""
_SUITE_FILES = ("test/integration/singlecluster", "test/integration/multikueue")
_TESTUTIL = '"k8s.io/component-base/metrics/testutil"'
_IMPORT = "import (\n"
_TESTUTIL_ALIAS = "kuotametrics"
_CRDS = "config/components/crd"
_OPERATORS = {
    "appwrapper": "appwrapper-crds",
    "cluster-autoscaler": "cluster-autoscaler",
    "jobset": "jobset-operator",
    "kuberay": "ray-operator-crds",
    "lws": "leaderworkerset-operator",
    "mpi-operator": "mpi-operator",
    "spark-operator": "spark-operator-crds",
    "trainer": "kf-trainer-crds",
    "training-operator": "training-operator-crds",
}
"""Where `make kube` puts definitions, and where Kueue's suites read them."""
_MODULES = {
    "cluster-autoscaler": ("k8s.io/autoscaler/cluster-autoscaler/apis", "config/crd"),
    "clusterprofile": ("sigs.k8s.io/cluster-inventory-api", "config/crd/bases"),
}
"""Definitions that Kueue's suites take from Go modules: the module, and the folder in it."""

# For each file: where a set-up function begins to know something, and what to record there.
RECORDS = {
    "pkg/controller/core/core.go": [
        (r"func SetupControllers\([^{]*\{\n", 's.Parts["core"] = true; s.Configuration = cfg')
    ],
    "pkg/webhooks/webhooks.go": [(r"func Setup\([^{]*\{\n", 's.Parts["webhooks"] = true')],
    "pkg/controller/jobframework/reconciler.go": [
        (
            r"func NewReconciler\([^{]*\{\n\toptions := ProcessOptions\(opts\.\.\.\)\n",
            's.Parts["jobs"] = true; '
            "s.WaitForPodsReady = s.WaitForPodsReady || options.WaitForPodsReady",
        ),
        (
            r"func ProcessOptions\([^}]*\}\n",
            "s.JobOptions(options.ManageJobsWithoutQueueName, "
            "options.ManagedJobsNamespaceSelector, options.LabelKeysToCopy.UnsortedList(), "
            "options.AnnotationsToCopy.UnsortedList())",
        ),
    ],
    "pkg/controller/jobframework/setup.go": [
        # A reconciler is set up when its kind exists, which may be after Kuota has started.
        (
            r"\t\tif allEnabledIntegrations\.Has\(name\) \{\n(?=\t\t\tif cb\.CanSupport)",
            's.Parts["jobs"] = true; s.Frameworks[name] = true',
        )
    ],
    "pkg/controller/jobframework/integrationmanager.go": [
        (r"IntegrationManager\) EnableIntegration\([^{]*\{\n", "s.Frameworks[name] = true")
    ],
    "pkg/controller/jobs/pod/pod_controller.go": [
        # The suite of the importer sets this reconciler up without enabling the integration.
        (r"func NewReconciler\([^{]*\{\n", "s.Frameworks[FrameworkName] = true")
    ],
    "pkg/controller/failurerecovery/pod_termination_controller.go": [
        (
            r"\toptions := defaultOptions\n\tfor _, opt[^}]*\}\n",
            's.Parts["core"] = true; s.RecoveryGrace = options.forcefulTerminationGracePeriod',
        )
    ],
    "pkg/controller/admissionchecks/multikueue/controllers.go": [
        (
            r"\tfor _, o := range opts \{\n\t\to\(options\)\n\t\}\n",
            "s.MultiKueue(namespace, options.origin, options.dispatcherName, options.gcInterval, "
            "options.workerLostTimeout)",
        )
    ],
    "pkg/controller/admissionchecks/multikueue/externalframeworks/config.go": [
        (r"func NewAdapters\([^{]*\{\n", "s.ExternalFrameworks = configs")
    ],
    "pkg/cache/queue/manager.go": [
        (r"func WithExcludedResourcePrefixes\([^{]*\{\n", "s.ExcludedPrefixes = excludedPrefixes"),
        (r"func WithResourceTransformations\([^{]*\{\n", "s.Transformations = transforms"),
        (r"func WithResourceMetrics\([^{]*\{\n", "s.ResourceMetrics = enabled"),
        (r"func WithAdmissionFairSharing\([^{]*\{\n", "s.AdmissionFairSharing = cfg"),
    ],
    "pkg/scheduler/scheduler.go": [
        (r"func WithFairSharing\([^{]*\{\n", "s.FairSharing = fs"),
        (r"func WithQuotaCheckStrategy\([^{]*\{\n", "s.QuotaCheckStrategy = qcs"),
        (r"\nfunc New\([^{]*\{\n", 's.Parts["scheduler"] = true'),
    ],
}
_OWN_RECONCILER = r"func New\w*Reconciler\(_ context\.Context, [^{\n]*\{\n"
"""Where a kind begins to set up a reconciler that is not the one of the job framework."""
_SETUP_WEBHOOK = r"func Setup\w*Webhook\([^{]*\{\n"
_START = """
		process, err := standin.Start(cfg, webhookInstallOptions.LocalServingHost,
			webhookInstallOptions.LocalServingPort, webhookInstallOptions.LocalServingCertDir)
		if err != nil {
			close(done) // StopManager waits for it.
		}
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), "failed to start kuota")
		go func() {
			defer close(done)
			defer ginkgo.GinkgoRecover()
			<-managerCtx.Done()
			gomega.ExpectWithOffset(1, process.Stop()).To(gomega.Succeed())
		}()
"""
_RESTART = """	if err := standin.GatesChanged(); err != nil {
		tb.Errorf("%v", err)
	}
"""


def replaced(pattern: str, replacement: str, text: str, *, times: int = 1) -> str:
    """Replace a regular expression that occurs exactly so often; `MATCH` stands for its match."""
    found = re.findall(pattern, text, flags=re.DOTALL)
    if len(found) != times:
        raise ValueError(
            f"{len(found)} instead of {times} matches of {pattern}; has Kueue changed?"
        )
    return re.sub(
        pattern, lambda match: replacement.replace("MATCH", match[0]), text, flags=re.DOTALL
    )


def imported(text: str, package: str = f'"{STANDIN}"') -> str:
    return text.replace(_IMPORT, f"{_IMPORT}\t{package}\n", 1)


def with_metrics(text: str) -> str:
    """Return a file that may call our testutil under a name of its own."""
    return imported(text, f'{_TESTUTIL_ALIAS} "{STANDIN}/testutil"')


def recording(name: str, text: str) -> str:
    """Return a file of Kueue whose set-up functions record their arguments."""
    for pattern, record in RECORDS[name]:
        line = f"\tstandin.Record(func(s *standin.Setup) {{ {record} }})\n"
        text = replaced(pattern, "MATCH" + line, text)
    loop = r"\tgo (wait\.UntilWithBackoff)\(ctx, s\.schedule\)\n"
    if name.endswith("scheduler.go"):
        text = replaced(loop, "\t_ = wait.UntilWithBackoff\n", text)
    return imported(text)


def recording_reconciler(text: str) -> str:
    """Return the reconciler of one job kind, whose set-up function records it."""
    line = '\tstandin.Record(func(s *standin.Setup) { s.Parts["jobs"] = true })\n'
    return imported(replaced(_OWN_RECONCILER, "MATCH" + line, text))


def recording_webhook(text: str) -> str:
    """Return the webhook of one job kind, whose set-up function records it."""
    options = "jobframework.ProcessOptions(opts...)"
    line = f"\tstandin.Webhook(FrameworkName, {options}.NoopWebhook)\n"
    return imported(replaced(_SETUP_WEBHOOK, "MATCH" + line, text))


def recording_noop_webhook(text: str) -> str:
    """Return noop_webhook.go, whose set-up function records the kind that is accepted."""
    begin = r"func SetupNoopWebhook\[[^{]*\{\n"
    return imported(replaced(begin, "MATCH\tstandin.Accept(apiType)\n", text))


def recording_base_webhook(text: str) -> str:
    """Return base_webhook.go, where most kinds of Kubeflow get their webhooks."""
    known = r"\t\toptions := ProcessOptions\(opts\.\.\.\)\n"
    line = "\t\tgvk := fromObject(obj).GVK()\n"
    line += '\t\tname := strings.ToLower(gvk.Group + "/" + gvk.Kind)\n'
    line += "\t\tstandin.Webhook(name, options.NoopWebhook)\n"
    text = replaced(known, "MATCH" + line, text)
    return imported(text if '"strings"' in text else imported(text, '"strings"'))


def starting(text: str) -> str:
    """Return framework.go, whose StartManager starts Kuota."""
    text = replaced(r"\t\tmgr, err := ctrl\.NewManager\(", "\t\tstandin.Begin()\nMATCH", text)
    text = replaced(
        r"\n\t\tgo func\(\) \{\n\t\t\tdefer close\(done\).*?\n\t\t\}\(\)\n", _START, text
    )
    text = replaced(r"\t\t// wait for the webhook server to get ready.*?Succeed\(\)\)\n", "", text)
    for unused in ("crypto/tls", "fmt", "net"):
        text = text.replace(f'\t"{unused}"\n', "")
    return imported(text)


def restarting(text: str) -> str:
    """Return kube_features.go, which restarts Kuota when a spec changes feature gates."""
    setting = r"if err := utilfeature\.DefaultMutableFeatureGate\.SetFromMap\([^}]*\}\n"
    return imported(replaced(setting, "MATCH" + _RESTART, text, times=2))


def collecting(text: str) -> str:
    """Return metrics.go, whose data points come from Kuota."""
    text = replaced(r"\tch := make\(chan prometheus\.Metric\)\n", "", text)
    text = replaced(r"\n\tgo func\(\) \{\n\t\tv\.Collect.*?\n\t\}\(\)\n", "", text)
    text = replaced(
        r"for m := range ch \{\n", f"for _, m := range {_TESTUTIL_ALIAS}.Series(v) {{\n", text
    )
    text = replaced(r"\t\tdtoMetric := dto\.Metric\{\}\n", "\t\tdtoMetric := m\n", text)
    text = replaced(r"if m\.Write\(&dtoMetric\) == nil", "if m != nil", text)
    return with_metrics(text.replace('\tdto "github.com/prometheus/client_model/go"\n', ""))


def resetting(text: str) -> str:
    """Return a test file that resets counters in our testutil."""
    reset = r"\b(metrics\.\w+)\.Reset\(\)"
    if not re.search(reset, text):
        return text
    return with_metrics(re.sub(reset, rf"{_TESTUTIL_ALIAS}.Reset(\1)", text))


def without_messages(text: str) -> str:
    """Return a test file that reads metrics from Kuota and does not compare messages."""
    text = text.replace(_TESTUTIL, f'"{STANDIN}/testutil"')
    for kind in ("metav1.Condition{}", "kueue.AdmissionCheckState{}", "corev1.PodCondition{}"):
        ignored = f'cmpopts.IgnoreFields({kind}, "LastTransitionTime"'
        text = re.sub(re.escape(ignored) + r'(?![^)]*"Message")', ignored + ', "Message"', text)
    text = re.sub(
        r"(\.Message\)\.(?:To|Should)\()(gomega\.\w+\((?:[^()]|\([^()]*\))*\))",
        r"\1gomega.Or(gomega.Not(gomega.BeNil()), \2)",
        text,
    )
    return re.sub(r"&&\s*\w+(?:\[i\])?\.Note == [^{\n]*?(?= \{|\n)", "", text)


def continuing(text: str) -> str:
    """Return a test file whose ordered containers go on after a spec that failed."""
    ordered = r"^(var _ = ginkgo\.Describe\([^\n]*ginkgo\.Ordered,)( ginkgo\.ContinueOnFailure,)?"
    return re.sub(ordered, r"\1 ginkgo.ContinueOnFailure,", text, flags=re.MULTILINE)


def sources(checkout: Path) -> dict[str, str]:
    """Return the files that differ from Kueue's, by path."""
    files = {name: recording(name, (checkout / name).read_text()) for name in RECORDS}
    for name, change in (
        ("test/integration/framework/framework.go", starting),
        ("pkg/features/kube_features.go", restarting),
        ("pkg/util/testing/metrics/metrics.go", collecting),
        ("pkg/controller/jobframework/base_webhook.go", recording_base_webhook),
        ("pkg/util/webhook/noop_webhook.go", recording_noop_webhook),
    ):
        files[name] = change((checkout / name).read_text())
    for path in (checkout / "pkg/controller/jobs").rglob("*_webhook.go"):
        if re.search(_SETUP_WEBHOOK, text := path.read_text()):
            files[str(path.relative_to(checkout))] = recording_webhook(text)
    for path in (checkout / "pkg/controller/jobs").rglob("*_reconciler.go"):
        if re.search(_OWN_RECONCILER, text := path.read_text()):
            files[str(path.relative_to(checkout))] = recording_reconciler(text)
    helpers = [checkout / "pkg/util/testing/core.go", *(checkout / "test/util").glob("*.go")]
    suites = [path for each in _SUITE_FILES for path in (checkout / each).rglob("*_test.go")]
    for path in [*helpers, *suites]:
        text = path.read_text()
        if (changed := resetting(continuing(without_messages(text)))) != text:
            files[str(path.relative_to(checkout))] = changed
    own = HERE / "kueue_suites"
    files["pkg/util/standin/standin.go"] = (own / "standin.go").read_text()
    files["pkg/util/standin/configuration.go"] = (own / "configuration.go").read_text()
    files["pkg/util/standin/testutil/testutil.go"] = (own / "testutil.go").read_text()
    return files


def overlay(checkout: Path, folder: Path) -> Path:
    """Write the changed files and the table of them that Go's compiler reads."""
    table = {}
    for number, (name, text) in enumerate(sources(checkout).items()):
        target = folder / f"{number}.go"
        target.write_text(text)
        table[str(checkout / name)] = str(target)
    path = folder / "overlay.json"
    path.write_text(json.dumps({"Replace": table}))
    return path


def build_crds(checkout: Path, kubectl: Path) -> None:
    """Write Kueue's CRDs to the folder that its suites read them from, which its git ignores."""
    target = checkout / _CRDS / "_output/crds-with-webhooks.yaml"
    if not target.exists():
        command = [str(kubectl), "kustomize", str(checkout / _CRDS)]
        built = subprocess.run(command, check=True, capture_output=True)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(built.stdout)


def link_operators(checkout: Path) -> None:
    """Let suites of job kinds find the operators' CRDs, in a folder that Kueue's git ignores."""
    from cluster.definitions import folders

    target = checkout / "dep-crds"
    target.mkdir(exist_ok=True)
    for ours, theirs in _OPERATORS.items():
        if (found := folders().get(ours)) and not (target / theirs).exists():
            (target / theirs).unlink(missing_ok=True)
            (target / theirs).symlink_to(found)


def link_modules(checkout: Path) -> None:
    """Let suites find the CRDs in Go modules, in a folder that Kueue's git ignores."""
    for name, (module, folder) in _MODULES.items():
        target = checkout / "dep-crds" / name
        if target.exists():
            continue
        command = ["go", "mod", "download", "-json", module]
        found = subprocess.run(command, cwd=checkout, check=True, capture_output=True).stdout
        target.unlink(missing_ok=True)
        target.symlink_to(Path(json.loads(found)["Dir"]) / folder)


def suite_folder(checkout: Path, suite: str) -> str:
    """Return the folder of a suite, relative to the checkout; "" if there is none."""
    return next((f"{at}/{suite}" for at in SUITES if (checkout / at / suite).is_dir()), "")


def assets(folder: Path, kubectl: Path) -> Path:
    """Return a folder with etcd, kube-apiserver and kubectl, as envtest expects them."""
    from cluster.kube_server import programs

    folder.mkdir()
    found = programs() | {"kubectl": kubectl}
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (folder / name).symlink_to(found[name])
    return folder


def build_kueuectl(checkout: Path, folder: Path) -> None:
    """Build Kueue's plugin of kubectl, which the suite of the plugin runs."""
    command = ["go", "build", "-o", str(folder / "kubectl-kueue"), "./cmd/kueuectl"]
    subprocess.run(command, cwd=checkout, check=True)


def main(words: list[str]) -> int:
    suite = suite_folder(Path(words[0]), words[1]) if len(words) > 1 else ""
    if not suite:
        print(f"{__doc__}\nSUITE is a folder below {SUITES[0]} of DIR.", file=sys.stderr)
        return 2
    checkout, options = Path(words[0]).resolve(), words[2:]
    programs = Path(sys.executable).parent
    build_crds(checkout, programs / "kubectl")
    link_operators(checkout)
    link_modules(checkout)
    with tempfile.TemporaryDirectory(prefix="kuota-suites-") as name:
        folder = Path(name)
        environment = os.environ | {
            "KUBEBUILDER_ASSETS": str(assets(folder / "assets", programs / "kubectl")),
            "KUEUE_BIN": str(folder),
            "KUOTA": str(programs / "kuota"),
        }
        if suite.endswith("/kueuectl"):
            build_kueuectl(checkout, folder)
        command = ["go", "test", f"-overlay={overlay(checkout, folder)}", "-count=1", "-vet=off"]
        command += ["-timeout=60m", "-v", f"./{suite}", "-args", *options]
        return subprocess.run(command, cwd=checkout, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
