# SPDX-License-Identifier: Apache-2.0
"""The entry point: start-up time, and messages about unknown commands."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from kuota import __version__
from kuota.cli.main import main


def test_help_lists_every_command() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    assert all(name in output for name in ("check", "crds", "plan"))


def test_every_command_can_be_loaded() -> None:
    for name in ("check", "crds", "plan"):
        assert 0 == CliRunner().invoke(main, [name, "--help"]).exit_code


def test_a_mistyped_command_is_guessed() -> None:
    result = CliRunner().invoke(main, ["plam"])
    assert 2 == result.exit_code
    assert "did you mean plan?" in result.output


@pytest.mark.parametrize(
    ("word", "command"),
    [("explain", "describe"), ("ps", "list"), ("cancel", "delete"), ("squeue", "list")],
)
def test_a_word_that_other_programs_have_leads_to_ours(word: str, command: str) -> None:
    assert f"did you mean {command}?" in CliRunner().invoke(main, [word]).output


def test_characters_that_a_terminal_lacks_are_replaced() -> None:
    done = CliRunner(charset="latin-1").invoke(main, ["up", "--help"])
    assert (0, True) == (done.exit_code, "LEVEL=NUMBER,?" in done.output)


@pytest.mark.parametrize("option", ["-n", "--namespace", "--context"])
def test_an_option_before_the_command_leads_behind_it(option: str) -> None:
    done = CliRunner().invoke(main, [option, "x", "list"])
    assert (2, True) == (done.exit_code, f"{option} belongs after the command" in done.output)


def test_a_mistyped_kind_is_guessed() -> None:
    assert "did you mean jobs?" in CliRunner().invoke(main, ["list", "jbos"]).output
    assert "did you mean job?" in CliRunner().invoke(main, ["stop", "jbos"]).output
    assert "did you mean" not in CliRunner().invoke(main, ["create", "jbos"]).output
    stopped = CliRunner().invoke(main, ["stop", "train"], prog_name="kuota")
    assert stopped.output.endswith("; if it is a job: kuota stop job train\n")
    assert "if it is a job" not in CliRunner().invoke(main, ["create", "train"]).output


def test_an_interrupt_has_the_status_of_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kuota.cli.manifests.load", interrupted)
    done = CliRunner().invoke(main, ["check", "-f", "-"])
    assert (130, "\nInterrupted.\n") == (done.exit_code, done.stderr)


def test_the_version_is_reported() -> None:
    assert f"kuota, version {__version__}\n" == CliRunner().invoke(main, ["--version"]).output


def test_commands_that_only_kubectl_has_lead_to_kubectl() -> None:
    said = CliRunner().invoke(main, ["label", "namespace", "vision"]).output
    assert """use kubectl: eval "$(kuota status -o env)"; kubectl label …\n""" in said


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from click.testing import CliRunner; from kuota.cli.main import main\n"
        "CliRunner().invoke(main, ['--help'])\n"
        "heavy = {'rich', 'yaml', 'msgspec', 'kuota.engine', 'kuota.api'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "[]\n" == done.stdout


def test_help_describes_each_subcommand_in_a_complete_sentence() -> None:
    for group in ("cluster", "create", "list", "resume", "stop", "token"):
        output = CliRunner().invoke(main, [group, "--help"]).output
        assert "..." not in output.partition("Commands:")[2], group


def test_jobs_are_listed_by_their_workloads() -> None:
    result = CliRunner().invoke(main, ["list", "jobs", "--help"])
    assert 0 == result.exit_code
    assert "List workloads" in result.output


@pytest.mark.parametrize("args", [[], ["-A"], ["--status", "pending"]])
def test_a_list_without_a_kind_lists_workloads(args: list[str]) -> None:
    kubeconfig = ["--kubeconfig", "/no/such/file"]
    done = CliRunner().invoke(main, ["list", *args, *kubeconfig])
    assert (3, True) == (done.exit_code, "there is no such file" in done.output)


def test_every_command_of_the_help_exists() -> None:
    context = main.make_context("kuota", ["--help"], resilient_parsing=True)
    for name in main.list_commands(context):
        assert main.get_command(context, name) is not None, name
