"""The protocols, and the forms of prompts, by the names that users type."""

from train.evaluation.protocols import deepcoder, evalchemy, evalplus, lcb, lighteval
from train.evaluation.protocols.forms import cruxeval, livecodebench, mathematics
from train.evaluation.protocols.forms import evalplus as evalplus_forms

PROTOCOLS = {module.PROTOCOL.name: module.PROTOCOL for module in (deepcoder, lcb, evalplus, lighteval, evalchemy)}
FORMS = {
    form.name: form
    for form in (
        livecodebench.GENERIC,
        livecodebench.DEEPSEEK_R1,
        livecodebench.DEEPCODER,
        livecodebench.EVALCHEMY,
        evalplus_forms.PREFILLED,
        evalplus_forms.THINKING,
        mathematics.DEEPSCALER,
        mathematics.LIGHTEVAL,
        mathematics.EVALCHEMY,
    )
}
COMPLETION_FORMS = (
    evalplus_forms.HUMANEVAL_COMPLETION,
    evalplus_forms.MBPP_COMPLETION,
    cruxeval.COMPLETION,
)  # for the mode "complete"
OWN_FORM = "curate"  # the name of our own form
