# SPDX-License-Identifier: Apache-2.0
"""`kuota run`: submits a command as a Job, waits for quota, and follows the Job to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, parse
from kuota.kube.errors import NotFound
from kuota.kube.requests import LogOptions
from kuota.kube.resources import JOBS, key_of
from kuota.view.endings import Ending, Result

from . import output
from .amounts import Integer, Seconds
from .connect import INTERRUPTED, Choice, Failed, ServerUnreachable, conduct, server_options
from .job_follow import JobFollow
from .output import name_text
from .progress import Progress, answer
from .run_folder import default_folder, path_hint
from .run_job import RunRequest, job_of
from .run_submission import JobSubmitter

if TYPE_CHECKING:
    from .session import Session

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_QUESTION = "[l]eave it running, [c]ancel it, or go [b]ack? [l]: "
_ANSWERS = {"l": "leave", "c": "cancel", "b": "back"}
_OPTIONS = {"cpu": "--cpus", "memory": "--memory", "nvidia.com/gpu": "--gpus"}
"""The options of resources. All others have --resource."""


_LONGEST_NAME = 63
"""The longest value of a label: the pods of a Job have a label with its name."""
_LEAST_MEMORY = "1Mi"
"""Every program needs more. A smaller amount lacks its unit, or has that of CPUs (m)."""
_SLURM = {
    **dict.fromkeys(("-p", "--partition"), "--queue"),
    **dict.fromkeys(("-G", "--gres", "--gpus-per-node", "--gpus-per-task"), "--gpus"),
    **dict.fromkeys(("-c", "--cpus-per-task"), "--cpus"),
    **dict.fromkeys(("--mem", "--mem-per-cpu"), "--memory"),
    **dict.fromkeys(("-t", "--time"), "--time-limit"),
    **dict.fromkeys(("-J", "--job-name"), "--name"),
    **dict.fromkeys(("-a", "--array", "--ntasks"), "--parallelism"),
    **dict.fromkeys(("-D", "--chdir"), "--workdir"),
    "--qos": "--priority",
    "--export": "--env",
    "--test-only": "--dry-run",
}
"""Our options for those of sbatch and srun."""


class _Run(click.Command):
    """A command that translates the options of Slurm in its error messages."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in _SLURM:
                raise
            message = f"{error.message} Did you mean '{_SLURM[name]}'?"
            raise click.NoSuchOption(name, message, ctx=ctx) from None


@click.command("run", cls=_Run, context_settings={"allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, required=True, metavar="-- COMMAND [ARGUMENT]...")
@click.option("-q", "--queue", default="", metavar="NAME", help="The LocalQueue to submit to.")
@click.option("--gpus", type=Integer(0), default=0, metavar="N", help="GPUs for each pod.")
@click.option("--cpus", default="", metavar="AMOUNT", help="CPUs for each pod, such as 4 or 500m.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory for each pod, such as 8Gi.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Another resource for each pod. May be repeated.",
)
@click.option("--priority", default="", metavar="CLASS", help="A WorkloadPriorityClass.")
@click.option(
    "--name", default="", help="The name of the Job. The default is generated from the command."
)
@click.option(
    "--parallelism",
    type=Integer(1),
    default=1,
    metavar="N",
    help="Number of pods. They are admitted together; JOB_COMPLETION_INDEX numbers them.",
)
@click.option("--retries", type=Integer(0), default=0, metavar="N", help="Retries after failures.")
@click.option(
    "--requeue/--no-requeue",
    default=True,
    help="Whether the command runs again after its machine restarted or its pod was evicted. "
    "This is the default and uses up no retry. A preempted Job always runs again.",
)
@click.option(
    "--time-limit",
    type=Seconds(1),
    metavar="DURATION",
    help="Stop the command after it has run this long: seconds, or for example 90m or 1h30m.",
)
@click.option(
    "--grace-period",
    type=Seconds(),
    metavar="DURATION",
    help="Time between SIGTERM and SIGKILL when the command has to stop.",
)
@click.option(
    "-e",
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="An environment variable, by default with its value in this shell. May be repeated.",
)
@click.option("--workdir", default="", metavar="FOLDER", help="The working directory.")
@click.option(
    "--image", default="", help="The container image; required on a cluster, unused by `kuota up`."
)
@click.option("-d", "--detach", is_flag=True, help="Submit the Job and return.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the Job as YAML without submitting it. Works without a server, with fewer checks.",
)
@click.option("--quiet", is_flag=True, help="Print only the output of the command.")
@click.option(
    "--on-interrupt",
    type=click.Choice(["ask", "leave", "cancel"]),
    default="ask",
    show_default=True,
    help="What Ctrl-C does: leave the Job running, or cancel it. Without a terminal, ask leaves.",
)
@server_options
def command(
    detach: bool, dry_run: bool, quiet: bool, on_interrupt: str, choice: Choice, **given: Any
) -> None:
    """Run a command as soon as there is quota for it, and show its output.

    The command becomes a Job, which waits in a queue until its whole quota is available. Meanwhile,
    standard error says why it waits. A preempted Job waits again and restarts. A Job whose machine
    restarts is repeated there.

    \b
    Exit status:
      the command's own   once it ran; 0 if all pods of the Job succeeded
      1                   the Job was rejected, deactivated or deleted, or its queue was deleted
      2                   wrong usage
      3                   the server cannot be reached
      124                 the Job exceeded its time limit (TIMEOUT)
      130                 interrupted by Ctrl-C

    \b
    Examples:
      kuota run -q research --gpus 2 --priority high -- python train.py
      kuota run -q research --cpus 4 --memory 8Gi --parallelism 4 -- ./simulate
      kuota run -q research --detach --name nightly -- make all
    """
    asked = _asked(**given)

    async def work(session: Session) -> int:
        running = Running(session, quiet=quiet, on_interrupt=on_interrupt)
        settled = _settled(asked, embedded=session.embedded)
        if dry_run:
            return await running.preview(settled)
        return await running.run(settled, detach=detach)

    try:
        conduct(choice, work)
    except ServerUnreachable as error:
        if not dry_run or choice.kubeconfig or choice.context:
            raise
        _preview_offline(asked, choice, error)


def _preview_offline(asked: RunRequest, choice: Choice, error: ServerUnreachable) -> None:
    """Print the Job without a server: for a cluster if an image is given, else for `kuota up`."""
    reason = error.message.partition("\n")[0]
    click.echo(f"Queue and priority were not checked: {reason}", err=True)
    settled = _settled(asked, embedded=not asked.image)
    output.show(job_of(settled, choice.namespace or "default"), "yaml")


def _asked(
    *,
    name: str,
    gpus: int,
    cpus: str,
    memory: str,
    resources: tuple[str, ...],
    variables: tuple[str, ...],
    time_limit: int | None,
    grace_period: int | None,
    **others: Any,
) -> RunRequest:
    """The options, validated."""
    if len(name) > _LONGEST_NAME:
        message = f"'{name}' is longer than {_LONGEST_NAME} characters"
        raise click.BadParameter(message, param_hint="--name")
    return RunRequest(
        name=name,
        amounts=_amounts(gpus, cpus, memory, resources),
        variables=_variables(variables),
        time_limit_s=time_limit,
        grace_s=grace_period,
        **others,
    )


def _amounts(gpus: int, cpus: str, memory: str, others: tuple[str, ...]) -> dict[str, str]:
    """Return the requests of each pod, by resource."""
    amounts = {"cpu": cpus, "memory": memory, "nvidia.com/gpu": str(gpus) if gpus else ""}
    for each in others:
        name, equals, amount = each.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{each}' is not NAME=AMOUNT", param_hint="--resource")
        if amounts.get(name):
            message = f"{name} is given twice: {amounts[name]} and {amount}"
            raise click.BadParameter(message, param_hint="--resource")
        amounts[name] = amount
    kept = {name: amount for name, amount in amounts.items() if amount}
    for name, amount in kept.items():
        fault = _fault(name, amount)
        if fault:
            option = _OPTIONS.get(name, "--resource")
            raise click.BadParameter(f"{name}: {fault}", param_hint=option)
    return kept


def _fault(name: str, amount: str) -> str:
    """Return what is wrong with the amount of a resource, or ""."""
    try:
        number = parse(amount)
    except QuantityError as error:
        return str(error)
    if number < 0:
        return f"{amount} is negative"
    if name == "memory" and 0 < number < parse(_LEAST_MEMORY):
        return f"{amount} is less than {_LEAST_MEMORY}; add a unit, as in 8Gi (default: bytes)"
    return ""


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set in this shell", param_hint="--env")
        variables[name] = value if equals else os.environ[name]
    return variables


def _settled(asked: RunRequest, *, embedded: bool) -> RunRequest:
    """The options, completed with defaults that depend on where the job runs.

    The embedded server runs processes on this machine: they start in the current directory and
    find the programs that this shell finds. Root's jobs run as another user, who has another home.
    """
    if not embedded:
        if not asked.image:
            raise click.UsageError("a cluster needs an --image to run the command in")
        return asked
    passed = ("PATH", "VIRTUAL_ENV", *(("HOME",) if os.geteuid() != 0 else ()))
    shell = {name: os.environ[name] for name in passed if name in os.environ}
    folder, note = (os.path.abspath(asked.workdir), "") if asked.workdir else default_folder()
    if note:
        click.echo(f"The job {note}. Choose a directory with --workdir.", err=True)
    variables = shell | asked.variables
    hint = path_hint(asked.arguments[0], folder, variables.get("PATH"))
    if hint:
        click.echo(hint, err=True)
    return msgspec.structs.replace(
        asked,
        image=asked.image or "local",
        workdir=folder,
        variables=variables,
    )


class Running:
    """One run of `kuota run`."""

    def __init__(self, session: Session, *, quiet: bool, on_interrupt: str) -> None:
        self._session = session
        self._submitter = JobSubmitter(session)
        self._progress = Progress(quiet=quiet)
        self._on_interrupt = on_interrupt

    async def preview(self, asked: RunRequest) -> int:
        output.show(await self._submitter.manifest(asked), "yaml")
        return 0

    async def run(self, asked: RunRequest, *, detach: bool) -> int:
        """Submit and follow; returns the exit status."""
        job = await self._submitter.create(await self._submitter.manifest(asked))
        name = name_text(JOBS, job)
        if detach:
            click.echo(name)
            return 0
        where = f" in queue {asked.queue}" if asked.queue else ""
        self._progress.say(f"{name} submitted{where}")
        return await self._followed(job)

    async def _followed(self, job: Json) -> int:
        """Follow the Job until it ends or the user interrupts. The answer "back" continues.

        The last output of a cancelled Job is shown; another interrupt ends that too.
        """
        follow = JobFollow(self._session, job, LogOptions(follow=True), self._progress)
        task = asyncio.create_task(follow.run())
        try:
            while True:
                interrupt = await _interrupt(task)
                if interrupt is None:
                    return self._ended(job, await task)
                decision = self._decision(job, interrupt)
                if decision == "cancel":
                    await self._cancel(job)
                    await _interrupt(task)
                if decision != "back":
                    return INTERRUPTED
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _ended(self, job: Json, ending: Ending) -> int:
        """Report how the Job ended, and return the exit status for it."""
        name = name_text(JOBS, job)
        if ending.result is Result.DELETED:
            raise Failed(f"{name} was deleted before it ended")
        self._progress.say(f"{name}: {ending}")
        if ending.workload:
            resume = f"kuota resume {self._session.here}workload {ending.workload}"
            self._progress.say(f"To queue it again, run: {resume}")
        return ending.exit_status

    def _decision(self, job: Json, interrupt: signal.Signals) -> str:
        """What to do with the Job: "leave", "cancel" or "back"."""
        decision = self._on_interrupt
        name = name_text(JOBS, job)
        if decision == "ask":
            can_ask = interrupt is signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty()
            decision = answer(f"\n{name}: {_QUESTION}", _ANSWERS, "leave") if can_ask else "leave"
        if decision == "leave":
            here, bare = self._session.here, job["metadata"]["name"]
            self._progress.say(
                f"\n{name} continues. Follow it: kuota logs -f {here}job/{bare}; "
                f"delete it: kuota delete {here}job {bare}"
            )
        return decision

    async def _cancel(self, job: Json) -> None:
        with suppress(NotFound):
            await self._session.client.delete(
                JOBS, key_of(job), propagation="Background", uid=job["metadata"]["uid"]
            )
        self._progress.say(f"{name_text(JOBS, job)} cancelled")


async def _interrupt(task: asyncio.Task[Ending]) -> signal.Signals | None:
    """Wait for the task or a signal. Returns SIGINT or SIGTERM, or None if the task ended."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[signal.Signals] = loop.create_future()

    def take(each: signal.Signals) -> None:
        if not came.done():
            came.set_result(each)

    for each in _SIGNALS:
        loop.add_signal_handler(each, take, each)
    try:
        await asyncio.wait((task, came), return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Restore Python's signal handlers before the user is prompted.
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
    return None if task.done() else came.result()
