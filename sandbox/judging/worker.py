"""A worker: two trusted processes outside the namespaces, which execute one request at a time.

The warden has its caller's privileges and starts zygotes (jail/warden.py). The judge is unprivileged; it holds the
suite, sends inputs to its runner one by one, and decides the verdicts. When their caller exits, both exit, and kill
zygotes and runs and remove their cgroups.
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
from sandbox.jail import spawn
from sandbox.jail.child import ChildParams
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.warden import WardenClient, run_warden
from sandbox.jail.worker_config import WorkerConfig
from sandbox.jail.zygote_pool import ZygotePool
from sandbox.judge import CaseRun, Judgement, judge
from sandbox.judging import referee_validation
from sandbox.judging.assertion_runner import AssertionRunner, PreambleCache
from sandbox.judging.call_runner import CallRunner
from sandbox.judging.channel import Channel
from sandbox.judging.interactive import Participant, run_interactive, run_scripted
from sandbox.judging.message_codec import encode_text
from sandbox.judging.runner import Runner
from sandbox.kernel import cgroups, delegation, linux, stale_resources
from sandbox.program import Invocation, Limits, Outcome, Program, RunResult
from sandbox.request import JudgeRequest, Request, RunRequest
from sandbox.suite import INTERACTIVE, Case, Referee, Suite

HEARTBEAT = b"\0"
_MIN_MEMORY = 2 << 30  # minimum bound on the judge's address space, in bytes
_MAX_COPIES = 12  # maximum number of copies of a request, and of programs' outputs, in memory
_RUNNERS = 2  # one for submissions and their checkers, one for concurrent referees


class JudgeWorker:
    """The judge process's executor of requests.

    groups           the cgroup of each runner, or the reason for none
    shutdown_events  events at which the worker exits: descriptor -> poll mask

    Raises BackendUnavailable if the machine lacks the configured level of isolation.
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
        self.shutdown_events = shutdown_events
        self.is_executing = False
        self._runner = self._open_runner(0)
        self._referee_runner: Runner | None = None  # for referees and tests that run concurrently with a submission
        self._validator = referee_validation.RefereeValidator()
        self._preambles = PreambleCache(self._runner)

    @property
    def layers(self) -> dict[str, str]:
        return self._runner.layers

    def run(self, program: Program, invocation: Invocation, limits: Limits) -> RunResult:
        """Run a program. Raises ExecutionLost if the sandbox fails repeatedly."""
        run_spec = self._runner.make_run_spec("run", program, limits)
        run_spec = run_spec.with_child_params(ChildParams(arguments=invocation.arguments, fetch_files=invocation.fetch))
        if invocation.files:
            run_spec = run_spec.with_files(dict(invocation.files))
        return self._runner.run(run_spec, invocation.stdin)

    def judge(self, program: Program, suite: Suite, *, run_all: bool, keep_outputs: bool) -> Judgement:
        """Judge a program by a suite. Raises ExecutionLost, and as judge.judge does."""
        if suite.assertions is not None:
            runs = AssertionRunner(program, suite, self._runner, self._get_referee_runner, self._preambles)
            return judge(suite, runs.run, run_all=run_all, keep_outputs=keep_outputs)
        if suite.entry_point is not None:
            calls = CallRunner(program, suite, self._runner)
            return judge(suite, calls.run, run_all=run_all, keep_outputs=keep_outputs, run_isolated=calls.run_isolated)
        run_spec = self._runner.make_run_spec("run", program, suite.limits)

        def run_case(case: Case, remaining_seconds: float) -> CaseRun:
            limited_spec = run_spec.with_time_limits(min(suite.limits.wall_seconds, remaining_seconds))
            if suite.checker == INTERACTIVE and suite.referee is not None:
                return self._run_interactive(limited_spec, case, suite.referee, remaining_seconds, suite)
            result = self._runner.run(limited_spec, encode_text(case.input))
            if suite.referee is None or result.outcome is not Outcome.EXITED or result.exit_code != 0:
                return CaseRun(result)
            return self._run_referee(case, result, suite.referee, remaining_seconds - result.wall_seconds, suite)

        return judge(suite, run_case, run_all=run_all, keep_outputs=keep_outputs)

    def _run_referee(
        self, case: Case, result: RunResult, referee_spec: Referee, remaining_seconds: float, suite: Suite
    ) -> CaseRun:
        """Run the referee on an output. Raises RefereeError if it also fails on trusted outputs."""
        compiled = _compile_referee(referee_spec, self._runner)
        if remaining_seconds <= 0:
            return CaseRun(referee.mark_timed_out(result))

        def run_referee(output: bytes, wall_seconds: float) -> RunResult:
            run_spec = self._make_referee_run_spec(referee_spec, case, {referee.OUTPUT: output})
            return self._runner.execute(run_spec.with_time_limits(wall_seconds), compiled, b"")

        referee_run = run_referee(result.stdout, min(referee.LIMITS.wall_seconds, remaining_seconds))
        try:
            return CaseRun(result, referee.read_result(referee_run, referee_spec), referee_run.wall_seconds)
        except RefereeError as failure:
            outputs = referee_validation.generate_trusted_outputs(case, suite)
            seconds = _get_validation_seconds(suite.limits)
            if not self._validator.is_sound(referee_spec, case, outputs, run_referee, seconds):
                raise
            if referee_run.outcome is Outcome.TIMED_OUT and remaining_seconds < referee.LIMITS.wall_seconds:
                return CaseRun(referee.mark_timed_out(result), None, referee_run.wall_seconds)
            return CaseRun(result, referee.make_wrong_answer_result(failure), referee_run.wall_seconds)

    def _run_interactive(
        self, run_spec: RunSpec, case: Case, referee_spec: Referee, remaining_seconds: float, suite: Suite
    ) -> CaseRun:
        """Run a program connected to its interactive referee. Raises as run_interactive does."""
        compiled = self._runner.compile(run_spec.program)
        if isinstance(compiled, RunResult):
            return CaseRun(compiled)
        runner = self._get_referee_runner()
        participant = Participant(
            self._make_referee_run_spec(referee_spec, case, {}), _compile_referee(referee_spec, runner), runner
        )

        def is_sound(cpu_seconds: float | None) -> bool:
            def run_referee(text: bytes, wall_seconds: float) -> RunResult:
                return run_scripted(text, participant.with_time_limits(wall_seconds, cpu_seconds))

            outputs = referee_validation.generate_trusted_inputs(case, suite)
            seconds = _get_validation_seconds(suite.limits)
            return self._validator.is_sound(referee_spec, case, outputs, run_referee, seconds, cpu_seconds)

        return run_interactive(
            Participant(run_spec, compiled, self._runner), participant, referee_spec, remaining_seconds, is_sound
        )

    def _get_referee_runner(self) -> Runner:
        if self._referee_runner is None:
            self._referee_runner = self._open_runner(1)
        return self._referee_runner

    def _open_runner(self, runner_number: int) -> Runner:
        zygotes = ZygotePool(
            self._configuration, self._warden, self._groups[runner_number], runner_number, self.shutdown_events
        )
        return Runner(self._configuration, self._warden, zygotes)

    def _make_referee_run_spec(self, referee_spec: Referee, case: Case, contents: dict[str, bytes]) -> RunSpec:
        contents = {referee.INPUT: encode_text(case.input), referee.ANSWER: encode_text(case.expected), **contents}
        run_spec = self._runner.make_run_spec("run", referee_spec.program, referee.LIMITS, referee=True)
        child_params = ChildParams(arguments=referee.list_arguments(referee_spec.convention))
        return run_spec.with_child_params(child_params).with_files(contents)

    def close(self) -> None:
        for runner in (self._runner, self._referee_runner):
            if runner is not None:
                runner.close()


def _compile_referee(referee_spec: Referee, runner: Runner) -> CompiledProgram:
    compiled = runner.compile(referee_spec.program)
    if isinstance(compiled, RunResult):
        message = compiled.stderr.decode("utf-8", "replace").strip()
        raise RefereeError(f"it does not compile: {message[:500]}")
    return compiled


def _get_validation_seconds(limits: Limits) -> float:
    """Return the wall time limit of a referee's validation, at most a submission's budget."""
    return min(referee.LIMITS.wall_seconds, limits.budget_seconds or math.inf)


def main(socket_fd: int, caller_pid: int) -> int:
    """Serve a caller on this machine until it exits; return an exit status."""
    try:
        caller_pidfd = os.pidfd_open(caller_pid)
        stat_fd = os.open(f"/proc/{caller_pid}/stat", os.O_RDONLY)  # the image may hide it later
    except (ProcessLookupError, FileNotFoundError):
        return 0
    shutdown_events = {caller_pidfd: select.POLLIN, socket_fd: select.POLLRDHUP}
    status, remove_shared = serve(Channel(socket_fd, socket_fd), shutdown_events)
    if stale_resources.is_exiting(stat_fd):
        remove_shared()
    return status


def main_in_container() -> int:
    """Serve the caller over stdin and stdout until EOF, with heartbeats on stderr."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # pid 1 ignores signals without a handler
    return serve(Channel(0, 1), {0: 0}, heartbeat_fd=2)[0]


def serve(channel: Channel, shutdown_events: dict[int, int], heartbeat_fd: int = -1) -> tuple[int, Callable[[], None]]:
    """Serve a caller until it exits; return an exit status, and a function that removes the shared directory.

    shutdown_events  events that indicate the caller's exit: descriptor -> poll mask
    heartbeat_fd     descriptor that gets a HEARTBEAT each second while the caller waits for a response; -1: none

    This process becomes the warden (jail/warden.py), and its child the judge; in a container, vice versa.
    """
    configuration: WorkerConfig = channel.receive_request()
    for name in checkers.list_names():  # after the change of uid, the process may lack read access
        checkers.load(name)
    for name in languages.list_names():
        languages.load(name)
    subtree, groups = _create_cgroups(configuration.scope_failure)
    remove_shared = _make_cleanup(configuration.shared)
    warden_socket, judge_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    uid = spawn.compute_judge_uid()

    def become_judge() -> None:
        warden_socket.close()
        _drop_privileges(uid, is_child=not configuration.has_own_cgroup)
        _serve_requests(channel, configuration, WardenClient(judge_socket), groups, shutdown_events, heartbeat_fd)

    def become_warden(judge_pid: int) -> int:
        judge_socket.close()
        channel.close()
        owned = [group if isinstance(group, cgroups.Cgroup) else None for group in groups]
        return run_warden(judge_pid, warden_socket, subtree, owned, configuration)

    if configuration.has_own_cgroup:  # a container, whose pid 1 must be unprivileged, since processes may enter it
        judge_pid = os.getpid()
        if os.fork() == 0:
            _run_and_exit(lambda: become_warden(judge_pid))
        become_judge()
        return 0, remove_shared
    judge_pid = os.fork()
    if judge_pid == 0:
        _run_and_exit(become_judge)
    return become_warden(judge_pid), remove_shared


def _make_cleanup(directory: str) -> Callable[[], None]:
    """Return a function that removes a directory, by a descriptor of its parent; a no-op for ""."""
    if not directory:
        return lambda: None
    parent = os.open(os.path.dirname(directory), os.O_RDONLY | os.O_DIRECTORY)
    return partial(shutil.rmtree, os.path.basename(directory), ignore_errors=True, dir_fd=parent)


def _run_and_exit(function: Callable[[], object]) -> NoReturn:
    status = 1
    try:
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _create_cgroups(scope_failure: str) -> tuple[delegation.CgroupSubtree | None, list[cgroups.Cgroup | str]]:
    """Create a cgroup for each runner; return their parent, and each cgroup or the reason for none."""
    groups: list[cgroups.Cgroup | str] = []
    try:
        subtree = delegation.find_subtree(scope_failure)
        for number in range(_RUNNERS):
            groups.append(cgroups.create_cgroup(subtree, str(number + 1)))
    except OSError as error:
        for group in groups:
            if isinstance(group, cgroups.Cgroup):
                group.remove()
        return None, [str(error)] * _RUNNERS
    return subtree, groups


def _drop_privileges(uid: int, *, is_child: bool) -> None:
    """Drop all privileges of the judge.

    uid        the judge's uid if the caller is root; otherwise, the judge keeps the caller's
    is_child   whether the judge is a child of the warden; if so, it requests a parent-death signal
    """
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a user namespace may have no other user
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
    with contextlib.suppress(OSError):
        linux.set_capabilities(0)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    if is_child:
        # A change of ids would reset this. The kernel does not send the signal if their uids differ and the warden's
        # CAP_KILL is not effective, so _serve_requests also polls the warden's socket.
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve_requests(
    channel: Channel,
    configuration: WorkerConfig,
    warden: WardenClient,
    groups: list[cgroups.Cgroup | str],
    shutdown_events: dict[int, int],
    heartbeat_fd: int,
) -> None:
    sys.set_int_max_str_digits(0)
    linux.enable_malloc_trim()  # returns the memory of large outputs
    shutdown_events = {**shutdown_events, warden.fileno(): 0}  # poll reports POLLHUP when the warden has exited
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
            _limit_memory(channel.message_bytes, request.run_limits)
            worker.is_executing = True
            response = _execute(worker, request)
            worker.is_executing = False  # the caller stops reading heartbeats, which would then fill the pipe
            channel.send_response(response)
    except (EOFError, ConnectionError, SystemExit):
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _wait_for_request(channel: Channel, shutdown_events: dict[int, int]) -> None:
    """Wait for the first byte of a request. Raises SystemExit at a shutdown event."""
    source, poll = channel.fileno(), select.poll()
    # EOF also makes the source readable.
    for descriptor, mask in {**shutdown_events, source: select.POLLIN}.items():
        poll.register(descriptor, mask)
    if any(descriptor != source for descriptor, _ in poll.poll()):
        raise SystemExit


def _limit_memory(n_bytes: int, limits: Limits) -> None:
    """Set RLIMIT_AS of this process to the maximum for an honest request of this size and these limits.

    A second defense: the limits also bound outputs, and checkers do not parse outputs that cannot be correct.
    """
    bound = _MIN_MEMORY + _MAX_COPIES * (n_bytes + 4 * limits.output_kb * 1024)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def _watch_caller(worker: JudgeWorker, heartbeat_fd: int) -> None:
    """Set a timer: each second, exit if the caller or the warden has exited; otherwise send a heartbeat."""

    def check(*_: object) -> None:
        poll = select.poll()
        for descriptor, mask in worker.shutdown_events.items():
            poll.register(descriptor, mask)
        if poll.poll(0):
            raise SystemExit
        if heartbeat_fd >= 0 and worker.is_executing:
            os.write(heartbeat_fd, HEARTBEAT)

    signal.signal(signal.SIGALRM, check)
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
        return ExecutionLost("the judge ran out of memory for this request")
    except RefereeError as error:
        has_assertions = isinstance(request, JudgeRequest) and request.suite.assertions is not None
        return RefereeError(f"the suite's own {'tests' if has_assertions else 'referee'} failed: {error}")
    except (ValueError, TypeError, KeyError) as error:
        return error  # an invalid request
    raise ValueError(f"unknown request {type(request).__name__}")
