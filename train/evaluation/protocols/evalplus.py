"""The settings of EvalPlus: one greedy answer of at most 768 tokens.

Models that think first need the form evalplus-thinking and more tokens; base models need the mode "complete".
"""

from train.evaluation.protocols.forms import evalplus
from train.evaluation.protocols.protocol import Protocol, SuiteSettings

_SETTING = SuiteSettings(temperature=0.0, top_p=0.95, max_tokens=768, k=1, form=evalplus.PREFILLED)

PROTOCOL = Protocol("evalplus", "evalplus 0.3.1", dict.fromkeys(("humaneval", "humaneval+", "mbpp", "mbpp+"), _SETTING))
