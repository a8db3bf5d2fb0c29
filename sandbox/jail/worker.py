"""A worker: trusted, outside the namespaces, one submission at a time.

It is two processes: a warden with its caller's privileges, which starts zygotes (warden.py), and an unprivileged judge,
which holds the suite, passes inputs to its runner one by one and gives the verdicts. Both exit with the process that
started them, and remove zygotes, runs and cgroups.
"""

import contextlib
import math
import os
import resource
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from sandbox import checkers, languages, referee
from sandbox.errors import BackendUnavailable, ExecutionLost, RefereeError, SandboxError
from sandbox.jail import cgroups, delegation, linux, referee_validation, spawn, stale_resources
from sandbox.jail.assertion_runner import AssertionRunner, PreambleCache
from sandbox.jail.call_runner import CallRunner
from sandbox.jail.channel import Channel
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.interactive import Participant, run_interactive, run_scripted
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.runner import Runner
from sandbox.jail.warden import WardenClient, run_warden
from sandbox.jail.worker_config import WorkerConfig
from sandbox.jail.zygote_pool import ZygotePool
from sandbox.judge import CaseRun, Judgement, judge
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult
from sandbox.request import JudgeRequest, Request, RunRequest
from sandbox.suite import INTERACTIVE, Case, Referee, Suite

HEARTBEAT = b"\0"
_MIN_MEMORY = 2 << 30  # bytes of address space
_COPIES = 12  # maximum number of copies of a request, and of programs' outputs, in memory
_RUNNERS = 2  # one for submissions and their later checks, one for concurrent referees


class JudgeWorker:
    """Executes the requests of one caller.

    groups           a cgroup for each runner, or why there is none
    shutdown_events  events that end the worker: descriptor -> poll mask

    Raises BackendUnavailable if the machine cannot isolate as configured.
    """

    def __init__(
        self,
        configuration: WorkerConfig,
        warden: WardenClient,
        groups: list[cgroups.Cgroup | str],
        shutdown_events: dict[int, int],
    ) -> None:
        self._configuration = configuration
        self._warden = warden
        self._groups = groups
        self.ends = shutdown_events
        self.answering = False
        self._runner = self._open_runner(0)
        self._second: Runner | None = None  # of concurrent referees
        self._trials = referee_validation.RefereeValidator()
        self._given_code = PreambleCache(self._runner)

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how."""
        return self._runner.layers

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Run a program once. Raises ExecutionLost if the sandbox fails repeatedly."""
        order = self._runner.make_run_spec("run", program, limits)
        order = order.with_child_params(ChildParams(arguments=invocation.arguments, fetch_files=invocation.fetch))
        if invocation.files:
            order = order.with_files(dict(invocation.files))
        return self._runner.run(order, invocation.stdin)

    def judge(self, program: Program, suite: Suite, *, run_all: bool, keep_outputs: bool) -> Judgement:
        """Judge a program by a suite. Raises ExecutionLost, and whatever judge.judge raises."""
        if suite.assertions is not None:
            runs = AssertionRunner(program, suite, self._runner, self._second_runner, self._given_code)
            return judge(suite, runs.run, run_all=run_all, keep_outputs=keep_outputs)
        if suite.entry_point is not None:
            calls = CallRunner(program, suite, self._runner)
            return judge(suite, calls.run, run_all=run_all, keep_outputs=keep_outputs, run_isolated=calls.run_isolated)
        order = self._runner.make_run_spec("run", program, suite.limits)

        def run_case(case: Case, remaining_seconds: float) -> CaseRun:
            within = order.with_time_limits(min(suite.limits.wall_seconds, remaining_seconds))
            if suite.checker == INTERACTIVE and suite.referee is not None:
                return self._run_interactive(within, case, suite.referee, remaining_seconds, suite)
            result = self._runner.run(within, _encoded(case.input))
            if suite.referee is None or result.outcome is not Outcome.EXITED or result.exit_code != 0:
                return CaseRun(result)
            return self._ruling(case, result, suite.referee, remaining_seconds - result.wall_seconds, suite)

        return judge(suite, run_case, run_all=run_all, keep_outputs=keep_outputs)

    def _ruling(self, case: Case, result: RunResult, judge: Referee, remaining_seconds: float, suite: Suite) -> CaseRun:
        """Run the referee on an output. Raises RefereeError if it fails for another reason than the output."""
        compiled = _compiled_referee(judge, self._runner)
        if remaining_seconds <= 0:
            return CaseRun(referee.mark_timed_out(result))

        def ask(output: bytes, wall_seconds: float) -> RunResult:
            order = self._referee_order(judge, case, {referee.OUTPUT: output}).with_time_limits(wall_seconds)
            return self._runner.execute(order, compiled, b"")

        referee_run = ask(result.stdout, min(referee.LIMITS.wall_seconds, remaining_seconds))
        try:
            return CaseRun(result, referee.read_result(referee_run, judge), referee_run.wall_seconds)
        except RefereeError as failure:
            trial = referee_validation.validation_outputs(case, suite)
            if not self._trials.passes(judge, case, trial, ask, _trial_seconds(suite.limits)):
                raise
            if referee_run.outcome is Outcome.TIMED_OUT and remaining_seconds < referee.LIMITS.wall_seconds:
                return CaseRun(referee.mark_timed_out(result), None, referee_run.wall_seconds)
            return CaseRun(result, referee.wrong_answer_result(failure), referee_run.wall_seconds)

    def _run_interactive(
        self, order: RunSpec, case: Case, judge: Referee, remaining_seconds: float, suite: Suite
    ) -> CaseRun:
        """Run a program connected with its interactive referee. Raises as run_interactive does."""
        compiled = self._runner.compile(order.program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        second = self._second_runner()
        partner = Participant(self._referee_order(judge, case, {}), _compiled_referee(judge, second), second)

        def is_sound(cpu_seconds: float | None) -> bool:
            def ask(text: bytes, wall_seconds: float) -> RunResult:
                return run_scripted(text, partner.with_time_limits(wall_seconds, cpu_seconds))

            trial = referee_validation.scripted_inputs(case, suite)
            return self._trials.passes(judge, case, trial, ask, _trial_seconds(suite.limits), cpu_seconds)

        return run_interactive(Participant(order, compiled, self._runner), partner, judge, remaining_seconds, is_sound)

    def _second_runner(self) -> Runner:
        if self._second is None:
            self._second = self._open_runner(1)
        return self._second

    def _open_runner(self, place: int) -> Runner:
        zygotes = ZygotePool(self._configuration, self._warden, self._groups[place], place, self.ends)
        return Runner(self._configuration, self._warden, zygotes)

    def _referee_order(self, judge: Referee, case: Case, contents: dict[str, bytes]) -> RunSpec:
        contents = {referee.INPUT: _encoded(case.input), referee.ANSWER: _encoded(case.expected), **contents}
        order = self._runner.make_run_spec("run", judge.program, referee.LIMITS, referee=True)
        return order.with_child_params(ChildParams(arguments=referee.arguments(judge.convention))).with_files(contents)

    def close(self) -> None:
        for runner in (self._runner, self._second):
            if runner is not None:
                runner.close()


def _compiled_referee(judge: Referee, runner: Runner) -> CompiledProgram:
    """Return the compiled referee. Raises RefereeError if it does not compile."""
    compiled = runner.compile(judge.program)
    if isinstance(compiled, RunResult):
        message = compiled.stderr.decode("utf-8", "replace").strip()
        raise RefereeError(f"it does not compile: {message[:500]}")
    return compiled


def _trial_seconds(limits: Limits) -> float:
    """Return the time for the validation of a referee. If it needs more than a submission has, the limits are wrong."""
    return min(referee.LIMITS.wall_seconds, limits.budget_seconds or math.inf)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def main(socket_fd: int, caller_pid: int) -> int:
    """Serve one caller on this machine until it exits; return an exit status."""
    try:
        caller_gone = os.pidfd_open(caller_pid)
        state = os.open(f"/proc/{caller_pid}/stat", os.O_RDONLY)  # opened early, since the image may hide the caller
    except (ProcessLookupError, FileNotFoundError):
        return 0
    shutdown_events = {caller_gone: select.POLLIN, socket_fd: select.POLLRDHUP}
    status, remove_shared = serve(Channel(socket_fd, socket_fd), shutdown_events)
    if stale_resources.is_ending(state):
        remove_shared()  # the caller has exited
    return status


def main_in_container() -> int:
    """Serve the caller over stdin and stdout until EOF; send heartbeats on stderr."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # pid 1 ignores signals without a handler
    return serve(Channel(0, 1), {0: 0}, heartbeat_fd=2)[0]


def serve(channel: Channel, shutdown_events: dict[int, int], heartbeat_fd: int = -1) -> tuple[int, Callable[[], None]]:
    """Serve one caller until it exits; return an exit status, and a function that removes the shared directory.

    shutdown_events  events that signal the caller's exit: descriptor -> poll mask
    heartbeat_fd     descriptor that gets a HEARTBEAT each second while the caller waits for a response; -1: none

    This process becomes the warden (warden.py), with the judge as its child; in a container, vice versa.
    """
    configuration: WorkerConfig = channel.receive_request()
    for name in checkers.names():  # loaded now, since the judge may be unable to read them
        checkers.load(name)
    for name in languages.names():
        languages.load(name)
    subtree, groups = _cgroups(configuration.scope_failure)
    remove_shared = _make_cleanup(configuration.shared)
    wardens, judges = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    uid = spawn.judge_uid()

    def judge() -> None:
        wardens.close()
        _drop_privileges(uid, parent=not configuration.has_own_cgroup)
        _judge(channel, configuration, WardenClient(judges), groups, shutdown_events, heartbeat_fd)

    def guard(judge_pid: int) -> int:
        judges.close()
        channel.close()
        owned = [group if isinstance(group, cgroups.Cgroup) else None for group in groups]
        return run_warden(judge_pid, wardens, subtree, owned, configuration)

    if configuration.has_own_cgroup:  # In a container the judge is the first process: joining it gains no privileges.
        first = os.getpid()
        if os.fork() == 0:
            _end_with(lambda: guard(first))
        judge()
        return 0, remove_shared
    child = os.fork()
    if child == 0:
        _end_with(judge)
    return guard(child), remove_shared


def _make_cleanup(directory: str) -> Callable[[], None]:
    """Return a function that removes a directory, if there is one, by descriptor rather than by path."""
    if not directory:
        return lambda: None
    parent = os.open(os.path.dirname(directory), os.O_RDONLY | os.O_DIRECTORY)
    return partial(shutil.rmtree, os.path.basename(directory), ignore_errors=True, dir_fd=parent)


def _end_with(part: Callable[[], object]) -> NoReturn:
    """Run a part of the worker, then exit. Called in a fork."""
    status = 1
    try:
        part()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _cgroups(scope_failure: str) -> tuple[delegation.CgroupSubtree | None, list[cgroups.Cgroup | str]]:
    """Return the parent of new cgroups, and a cgroup for each runner, or why there is none."""
    groups: list[cgroups.Cgroup | str] = []
    try:
        subtree = delegation.find_subtree(scope_failure)
        for number in range(_RUNNERS):
            groups.append(cgroups.create(subtree, str(number + 1)))
    except OSError as error:
        for group in groups:
            if isinstance(group, cgroups.Cgroup):
                group.remove()
        return None, [str(error)] * _RUNNERS
    return subtree, groups


def _drop_privileges(uid: int, *, parent: bool) -> None:
    """Drop all privileges that the judge does not need.

    uid      the user to become, if permitted; otherwise the judge keeps its caller's user, without capabilities
    parent   whether the parent is the warden; if so, the judge gets its parent-death signal, where permitted
    """
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # in a user namespace with a single group
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    with contextlib.suppress(OSError):
        linux.set_capabilities(0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if parent:
        # After the ids, which would reset it. The kernel sends it only if the warden may signal the judge, which it may
        # not with another uid and without an effective CAP_KILL. So _judge also polls the warden's socket.
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)


def _judge(
    channel: Channel,
    configuration: WorkerConfig,
    warden: WardenClient,
    groups: list[cgroups.Cgroup | str],
    shutdown_events: dict[int, int],
    heartbeat_fd: int,
) -> None:
    """Serve requests until the caller or the warden exits."""
    sys.set_int_max_str_digits(0)
    linux.enable_malloc_trim()  # returns the memory of large outputs
    shutdown_events = {**shutdown_events, warden.fileno(): 0}  # poll reports POLLHUP when the warden has ended
    try:
        worker = JudgeWorker(configuration, warden, groups, shutdown_events)
    except BackendUnavailable as error:
        channel.send_response(error)
        return
    _watch_caller(worker, heartbeat_fd)
    try:
        channel.send_response(worker.layers)
        while True:
            _wait_for_request(channel, shutdown_events)
            request: Request[object] = channel.receive_request()
            _bound_memory(channel.received_bytes, request.run_limits)
            worker.answering = True
            response = _execute(worker, request)
            worker.answering = False  # the caller no longer reads heartbeats, which would pile up
            channel.send_response(response)
    except (EOFError, ConnectionError, SystemExit):
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _wait_for_request(channel: Channel, shutdown_events: dict[int, int]) -> None:
    """Wait until a request begins to arrive. Raises SystemExit at a shutdown event."""
    source, poll = channel.fileno(), select.poll()
    for descriptor, mask in {**shutdown_events, source: select.POLLIN}.items():  # a source at EOF is readable
        poll.register(descriptor, mask)
    if any(descriptor != source for descriptor, _ in poll.poll()):
        raise SystemExit


def _bound_memory(n_bytes: int, limits: Limits) -> None:
    """Bound the memory of this process by the maximum for an honest request of this size and these limits. A second
    line of defense: outputs are bounded, and not parsed if they cannot be right.
    """
    bound = _MIN_MEMORY + _COPIES * (n_bytes + 4 * limits.output_kb * 1024)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def _watch_caller(worker: JudgeWorker, heartbeat_fd: int) -> None:
    """Check every second, also during a request, whether the caller or the warden has exited: exit if so, else send a
    heartbeat."""

    def look(*_: object) -> None:
        poll = select.poll()
        for descriptor, mask in worker.ends.items():
            poll.register(descriptor, mask)
        if poll.poll(0):
            raise SystemExit
        if heartbeat_fd >= 0 and worker.answering:
            os.write(heartbeat_fd, HEARTBEAT)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def _execute(worker: JudgeWorker, request: Request[object]) -> RunResult | Judgement | Exception:
    """Execute a request; return the response, or an exception for the caller to raise."""
    try:
        match request:
            case RunRequest(program, invocation, limits):
                return worker.run(program, invocation, limits)
            case JudgeRequest(program, suite, run_all, keep_outputs):
                return worker.judge(program, suite, run_all=run_all, keep_outputs=keep_outputs)
    except SandboxError as error:
        return error
    except OSError as error:
        return ExecutionLost(str(error))
    except MemoryError:
        return ExecutionLost("the judge has no memory left for this request")
    except RefereeError as error:
        judging = isinstance(request, JudgeRequest) and request.suite.assertions is not None
        return RefereeError(f"the suite's own {'tests' if judging else 'referee'} failed: {error}")
    except (ValueError, TypeError, KeyError) as error:
        return error  # the suite's fault: the caller raises it
    raise ValueError(f"unknown request {type(request).__name__}")
