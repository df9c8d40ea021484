# SPDX-License-Identifier: Apache-2.0
"""`kuota logs` against a running server; the test provides the pods."""

from __future__ import annotations

from cli.cluster import Cluster, condition, job, pod_status, workload
from hang import HANG_S
from kuota.kube.resources import JOBS, PODS, WORKLOADS


def test_the_log_of_a_pod_is_printed(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.start_pod(made, "train-1")
    cluster.write("train-1", b"one\ntwo\n")
    assert "one\ntwo\n" == cluster.kuota("logs", "train-1")


def test_a_job_that_has_no_pods_yet_says_so(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    assert "has no pods yet; wait for them with -f" in cluster.kuota("logs", "job/train", code=1)


def test_a_job_that_waits_for_quota_says_why_it_has_no_pods(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    full = condition("QuotaReserved", holds=False, message="8 is more than it could ever get")
    cluster.status(WORKLOADS, "w", {"conditions": [full]})
    said = cluster.kuota("logs", "job/train", code=1)
    assert "Job train has no pods yet: 8 is more than it could ever get\n" in said
    assert "Wait for them with -f" in said


def test_a_job_is_followed_through_all_its_pods_to_its_end(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    with cluster.start("logs", "-f", "job/train") as process:
        assert process.stdout is not None
        cluster.start_pod(made, "train-1")
        cluster.write("train-1", b"first\n")
        assert "first\n" == process.stdout.readline()
        cluster.end_pod("train-1", 1)
        cluster.start_pod(made, "train-2")
        cluster.write("train-2", b"second\n")
        cluster.end_pod("train-2", 0)
        cluster.end_job("train")
        assert "second\n" == process.stdout.read()
        assert 0 == process.wait(HANG_S)


def test_several_pods_are_distinguished_line_by_line(cluster: Cluster) -> None:
    manifest = job("train")
    manifest["spec"] |= {"parallelism": 2, "completions": 2}
    made = cluster.create(JOBS, manifest)
    with cluster.start("logs", "-f", "job/train") as process:
        assert process.stdout is not None
        cluster.start_pod(made, "p-0")
        cluster.start_pod(made, "p-1")
        cluster.write("p-0", b"half ")
        cluster.write("p-1", b"whole\n")
        assert "[p-1] whole\n" == process.stdout.readline()
        cluster.write("p-0", b"line\n")
        assert "[p-0] half line\n" == process.stdout.readline()
        for each in ("p-0", "p-1"):
            cluster.end_pod(each, 0)
        cluster.end_job("train")


def test_a_workload_leads_to_its_job(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("job-train", made))
    cluster.start_pod(made, "train-1")
    cluster.write("train-1", b"hello\n")
    assert "hello\n" == cluster.kuota("logs", "wl/job-train")


def test_a_pod_that_is_missing_fails(cluster: Cluster) -> None:
    said = cluster.kuota("logs", "none", code=1)
    assert 'pods "none" not found in namespace default, and no Job has this name' in said


def test_the_name_of_a_job_needs_no_kind(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    assert "Job train has no pods yet" in cluster.kuota("logs", "train", code=1)
    cluster.start_pod(made, "train-1")
    cluster.write("train-1", b"hello\n")
    assert "hello\n" == cluster.kuota("logs", "train")


def test_a_misspelt_name_is_guessed(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    for what in ("trian", "job/trian"):
        assert "did you mean train?" in cluster.kuota("logs", what, code=1)


def test_a_pod_that_failed_without_a_word_reports_why(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.start_pod(made, "train-1")
    refusal = {"exitCode": 128, "message": "cannot execute its command"}
    cluster.status(PODS, "train-1", pod_status("Failed", {"terminated": refusal}))
    for what in ("train-1", "job/train"):
        with cluster.start("logs", what) as process:
            said, errors = process.communicate()
        assert ("", "pod train-1 wrote nothing: cannot execute its command\n") == (said, errors)


def test_a_pod_that_has_not_begun_reports_why(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.start_pod(made, "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="1 Insufficient cpu")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    for what in ("train-1", "job/train"):
        assert "1 Insufficient cpu" in cluster.kuota("logs", what, code=1)


def test_a_job_whose_pods_are_gone_reports_how_it_ended(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    cluster.end_job("train", "Failed", "it took too long")
    said = cluster.kuota("logs", "job/train", code=1)
    assert "failed and its pods are gone: it took too long" in said


def test_the_last_words_of_a_deleted_job_are_shown(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    with cluster.start("logs", "-f", "job/train") as process:
        assert process.stdout is not None
        cluster.start_pod(made, "train-1")
        cluster.write("train-1", b"first\n")
        assert "first\n" == process.stdout.readline()
        cluster.delete(JOBS, "train")
        cluster.write("train-1", b"saved\n")
        cluster.write("train-1", b"")
        said, errors = process.communicate()
        assert ("saved\n", "Error: job.batch/train was deleted before it ended\n") == (said, errors)


def test_who_follows_a_pod_that_waits_reports_why(cluster: Cluster) -> None:
    made = cluster.create(JOBS, job("train"))
    cluster.start_pod(made, "train-1", "Pending")
    full = condition("PodScheduled", holds=False, message="1 Insufficient cpu")
    cluster.status(PODS, "train-1", {"phase": "Pending", "conditions": [full]})
    with cluster.start("logs", "-f", "train-1") as process:
        assert process.stderr is not None
        waits = "waiting for pod train-1 to start: 1 Insufficient cpu\n"
        assert waits == process.stderr.readline()
        cluster.status(PODS, "train-1", pod_status("Running", {"running": {}}))
        cluster.write("train-1", b"hello\n")
        cluster.end_pod("train-1", 0)
        said, _ = process.communicate()
        assert "hello\n" == said
