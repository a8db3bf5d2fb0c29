"""Why a solution failed, in one fixed word: its verdict, or where that hides something worth telling apart, more."""

from sandbox import Judgement, Verdict


def cause(judgement: Judgement) -> str:
    """Of a judgement that is not accepted. Beside the verdicts' words:

    no_module     it imports what is not installed in the sandbox
    input_ended   it reads more input than there is: as a rule the tests are of another form than it expects
    empty_output  it prints nothing: as a rule a function that nobody calls
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
