"""Programs that print what they read, or sleep, for tests of where programs run."""

from collections.abc import Iterator

from sandbox import Case, Limits, Program, Sandbox, Suite

ECHO = Program("print(input())")
ONE = Suite([Case("1\n", "1\n")])
SLEEP = Program("import time\ntime.sleep(60)")
LONG = Suite([Case("", "")], limits=Limits(wall_seconds=60))


def echo(number: int) -> Suite:
    return Suite([Case(f"{number}\n", f"{number}\n")])


def count_reads(box: Sandbox) -> int:
    """Judge five of endlessly many pairs, and return how many were read."""
    read = 0

    def endless() -> Iterator[tuple[Program, Suite]]:
        nonlocal read
        while True:
            read += 1
            yield ECHO, echo(read)

    stream = box.judge_many(endless())
    for _ in range(5):
        assert next(stream)[1].accepted
    stream.close()  # type: ignore[attr-defined]
    return read
