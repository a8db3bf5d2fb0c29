"""The assertion that an answer to CRUXEval completes, taken from the answer as CRUXEval's own code takes it.

The answer is what stands between the first [ANSWER] and [/ANSWER]; without these tags, the whole text or, if the model
was asked to think first, its last line. Of the assertion in it, the input is what stands before the first `==`, and the
output what stands between the first and the second. Thoughts in <think> tags are left out, unlike there.
"""

from rewards.extract.thinking import strip_thinking

_BEGIN, _END = "[ANSWER]", "[/ANSWER]"


def predicted_output(answer: str, *, stepwise: bool) -> str:
    """Return the expression that an answer gives as output; empty if there is none.

    stepwise   whether the prompt asks for steps before the answer
    """
    text = _answer(answer, stepwise)
    return text.split("==")[1].strip() if "==" in text else text


def predicted_input(answer: str, *, stepwise: bool) -> str:
    """Return the expression that an answer gives as call of the function; empty if there is none."""
    text = _answer(answer, stepwise).split("==")[0]
    return text.split("assert")[1].strip() if "assert" in text else text.strip()


def _answer(answer: str, stepwise: bool) -> str:
    text = strip_thinking(answer, lambda rest: _BEGIN in rest) or ""
    if _BEGIN in text:
        return text.split(_BEGIN)[1].split(_END)[0].strip()
    text = text.split(_END)[0].strip()
    return text.split("\n")[-1].strip() if stepwise else text
