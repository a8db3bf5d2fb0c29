"""Submissions that exceed the time limit, and exit on their own within 15 seconds without the expected output."""

from sandbox.probes.probe import STDIN, Convention, Group, ProbeClass, make_source_probe

_SLEEP = "import time\ntime.sleep(15)"
_SPIN = "import time\nend = time.monotonic() + 15\nwhile time.monotonic() < end:\n    pass"
_SWALLOW = (
    "import time\nend = time.monotonic() + 15\nwhile time.monotonic() < end:\n    try:\n"
    "        while time.monotonic() < end:\n            pass\n    except BaseException:\n        pass"
)
_NO_ALARM = f"import signal\nsignal.alarm(0)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n{_SPIN}"

CLASS = ProbeClass(
    Group.DODGE,
    "timeouts",
    why="The judge drops tests that time out, or its timer runs in the submission's process, which disables it.",
    remedy="Count a timeout as a failed test; run the timer in another process, and kill with SIGKILL.",
    source="ours",
    probes=(
        make_source_probe("sleeps", _SLEEP, STDIN, seconds=15.0),
        make_source_probe(
            "spins",
            f"def SOLVE(*values):\n    {_SPIN.replace(chr(10), chr(10) + '    ')}\n",
            (Convention.CALL,),
            seconds=15.0,
        ),
        make_source_probe(
            "swallows-exceptions",
            f"def SOLVE(*values):\n    {_SWALLOW.replace(chr(10), chr(10) + '    ')}\n",
            (Convention.CALL,),
            seconds=15.0,
        ),
        make_source_probe("cancels-the-alarm", _NO_ALARM, STDIN, seconds=15.0),
    ),
)
