"""Name the cause of a solution's failure in one fixed word: its verdict, or a more precise word for common causes."""

from sandbox import Judgement, Verdict


def failure_cause(judgement: Judgement) -> str:
    """Return the cause of a judgement that is not accepted: its verdict, or one of these words:

    no_module     it imports a module that is not installed in the sandbox
    input_ended   it reads more input than there is, usually because the tests have another form than it expects
    empty_output  it prints nothing, usually because it defines a function that is never called
    """
    detail = next((case.detail for case in judgement.cases if case.verdict is not Verdict.ACCEPTED), "")
    last_line = detail.rstrip().rpartition("\n")[2]
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith(("ModuleNotFoundError:", "ImportError:")):
        return "no_module"
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith("EOFError:"):
        return "input_ended"
    if judgement.verdict is Verdict.WRONG_ANSWER and not detail.strip():
        return "empty_output"
    return judgement.verdict.value
