"""A process that compares answers of mathematics, for math_process.py; it may hang or eat memory, and is then killed.

math-verify's own time limits are alarms in Python, which wait for C code to return, and a power of a power is all C.
Here the kernel counts CPU seconds and ends the process, so that a busy machine makes no answer wrong.

One JSON line [expected, given], both LaTeX, comes in; two words go out, each on a line: whether the expected answer can
be read as mathematics (`read` or `unreadable`), then `right` or `wrong`. What cannot be read is compared as text.
"""

import json
import logging
import os
import re
import resource
import signal
import sys

CPU_SECONDS = 4.0  # for one comparison; an ordinary one takes some hundredths of a second
MEMORY_MB = 2048


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the one who asks
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    words = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    logging.disable()

    from math_verify import parse, verify
    from math_verify.parser import LatexExtractionConfig

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MB << 20, MEMORY_MB << 20))

    def tell(word: str) -> None:
        words.write(word + "\n")
        words.flush()

    def read(latex: str) -> list[object]:
        percent = re.fullmatch(r"([^$%]*[^$%\s\\])\s*\\?%", latex)  # read only behind the signs of mathematics
        text = rf"${percent[1]}$\%" if percent else rf"\boxed{{{latex}}}"
        # Only LaTeX: plain expressions would go through Python's eval.
        return list(parse(text, [LatexExtractionConfig()], parsing_timeout=None))

    tell("ready")
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        expected, given = json.loads(line)
        gold = read(expected)
        tell("unreadable" if all(isinstance(reading, str) for reading in gold) else "read")
        tell("right" if verify(gold, read(given), timeout_seconds=None) else "wrong")
        signal.setitimer(signal.ITIMER_PROF, 0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MEMORY_MB << 9:
            return  # the next answer is not to be wrong for want of memory that this one took


if __name__ == "__main__":
    main()
