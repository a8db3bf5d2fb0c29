"""The prompt for a problem: the messages that ask for a program, and the arguments of the model's chat template.

By default there is no system prompt. As in LiveCodeBench and DeepCoder, the form of the response follows the statement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curate.errors import CurateError
from curate.json_records import omit_if_default
from sandbox import Suite

if TYPE_CHECKING:
    from jinja2 import Template

Chat = list[dict[str, str]]  # messages, each with its role and content

_STDIN = """\
Write a Python 3 program that solves this problem. It reads from standard input and prints to standard output.
"""
_CALL = """\
Write a Python 3 function `{name}` that solves this problem. It is called with the arguments in their order, and what \
it returns counts; what it prints does not.
"""
_STARTER = """\
Solve this problem in Python 3 by completing the code below. Keep its names and signatures: `{name}` is called, and \
what it returns counts; what it prints does not.

```python
{starter}
```
"""
_FORM = """
Put the whole program into one ```python block at the end of your answer.
"""
# Instruction appended to a math problem, as in DeepScaleR.
MATHEMATICS_INSTRUCTION = "Let's think step by step and output the final answer within \\boxed{}."
# Samples depend on these texts, so they are part of a sample's cache key.
FINGERPRINT_TEXTS = (_STDIN, _CALL, _STARTER, _FORM)

# For problems whose tests are Python code. FINGERPRINT_TEXTS must not change, so it does not contain these.
_CODE_TESTS = """\
Write Python 3 code that solves this problem. Tests in Python use what it defines as {names}; what it prints does not \
count.
"""
_CODE_TESTS_STARTER = """\
Solve this problem in Python 3 by completing the code below. Keep its names and signatures: tests in Python use \
{names}; what is printed does not count.

```python
{starter}
```
"""
# Each prompt has one of these after the statement.
TASK_SENTENCES = (_STDIN, _CALL, _STARTER, _CODE_TESTS, _CODE_TESTS_STARTER)
_GIVEN = """
This code runs before yours, so what it defines is there:

```python
{given}
```
"""
_NAMES = "{% for name in names %}{{ ', ' if not loop.first }}`{{ name }}`{% endfor %}"

# The same texts as a template, the starting point of custom templates.
DEFAULT_TEMPLATE = (
    "{{ statement }}\n\n{% if entry_point is none and names %}\n{% if starter_code %}\n"
    + _CODE_TESTS_STARTER.format(names=_NAMES, starter="{{ starter_code }}")
    + "{% else %}\n"
    + _CODE_TESTS.format(names=_NAMES)
    + "{% endif %}\n{% if given.strip() and given.strip() not in starter_code %}\n"
    + _GIVEN.format(given="{{ given.strip() }}")
    + "{% endif %}\n{% elif entry_point is none %}\n"
    + _STDIN
    + "{% elif starter_code %}\n"
    + _STARTER.format(name="{{ entry_point }}", starter="{{ starter_code }}")
    + "{% else %}\n"
    + _CALL.format(name="{{ entry_point }}")
    + "{% endif %}\n"
    + _FORM
)
# The chat of a base model, in DeepSeek-R1-Zero's form; a system prompt replaces its first sentences.
BASE_CHAT = """\
{{ bos_token if bos_token else '' }}\
{%- if messages[0]['role'] != 'system' %}A conversation between User and Assistant. The user asks a question, and the \
Assistant solves it. The Assistant first thinks about the reasoning process and then provides the answer.

{% endif %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}{{ message['content'] }}

{% elif message['role'] == 'user' %}User: {{ message['content'] }}

{% else %}Assistant: {{ message['content'] }}
{%- if not loop.last %}

{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}Assistant:{% endif %}"""
FORMATS = ("chat", "base")
TEMPLATE_VARIABLES = {
    "statement": "the statement of the problem",
    "starter_code": "code that the answer must complete; empty if there is none",
    "entry_point": "name of the function that the tests call; none if the program reads standard input",
    "names": "list of the names that the answer must define; empty if the program reads standard input",
    "given": "code that runs before the answer, such as imports and helpers; empty if there is none",
}
_RESERVED_ARGUMENTS = {  # arguments of apply_chat_template that are not variables of the template
    "conversation", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message",
    "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict",
    "return_assistant_tokens_mask", "tokenizer_kwargs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """The form of a prompt.

    system              the system prompt, the first message; empty: none
    template            Jinja2 template of the message that asks for a program, with TEMPLATE_VARIABLES; empty:
                        DEFAULT_TEMPLATE
    template_arguments  further arguments of the model's chat template, such as enable_thinking = false
    format              "chat": the model's chat template; "base": BASE_CHAT, for models without a chat template

    Raises CurateError for an unknown format, an invalid template, and reserved template arguments.
    """

    # Help texts show the comments below.

    system: str = ""  # the system prompt; empty: none
    template: str = ""  # a file with a Jinja2 template of the message that asks for a program; empty: the default
    template_arguments: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the chat template
    # "chat": the model's chat template; "base": DeepSeek-R1-Zero's form, for base models without a chat template
    format: str = omit_if_default("chat")

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise CurateError(f"prompt.format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.template:
            _check_template(self.template)
        for name in self.template_arguments:
            if not name.isidentifier() or name in _RESERVED_ARGUMENTS:
                raise CurateError(f"prompt.template_arguments: {name!r} is reserved or not an identifier. Remove it.")

    @property
    def chat_arguments(self) -> Mapping[str, Any]:
        """The arguments of apply_chat_template besides the messages, including the template for base models."""
        return {**self.template_arguments, **({"chat_template": BASE_CHAT} if self.format == "base" else {})}

    def build_chat(self, statement: str, starter_code: str, tests: Suite) -> Chat:
        """Return the messages that ask for a program to pass the tests. Raises CurateError if the template fails."""
        from jinja2 import TemplateError

        try:
            content = _compile(self.template or DEFAULT_TEMPLATE).render(
                statement=statement.strip(),
                starter_code=starter_code.strip("\n") if starter_code.strip() else "",
                entry_point=tests.entry_point,
                names=list(tests.called_names),
                given=tests.assertions.given if tests.assertions else "",
            )
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CurateError(f"the prompt's template fails: {error}. Correct it.") from error
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": content}]

    def build_row_chat(self, row: Mapping[str, Any], tests: Suite) -> Chat:
        """Return the messages that ask for a program, or for the final answer to a question.

        row  a row with the columns statement, starter_code and expected_answer
        """
        if not row["expected_answer"] or self.template:
            return self.build_chat(row["statement"], row["starter_code"], tests)
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": f"{row['statement'].strip()} {MATHEMATICS_INSTRUCTION}"}]

    def cache_key(self) -> list[Any]:
        """Return this prompt's contribution to the cache key of a sample.

        The contribution of the default prompt must never change.
        """
        more = {"system": self.system, "template_arguments": dict(self.chat_arguments)}
        words = [self.template] if self.template else list(FINGERPRINT_TEXTS)
        return [*words, more] if any(more.values()) else words

    def as_table(self) -> dict[str, Any]:
        """Return the differences from the default as a table of JSON values, for `read_prompt`."""
        table = {
            "system": self.system,
            "template": self.template,
            "template_arguments": dict(self.template_arguments),
            "format": self.format if self.format != "chat" else "",
        }
        return {name: value for name, value in table.items() if value}


def read_prompt(table: Mapping[str, Any], base: PromptFormat | None = None) -> PromptFormat:
    """Parse a table [prompt]. Missing keys are taken from `base`.

    system              a string, or @ and the path of a text file
    template            the path of a file with a template, or the template itself, which contains {{ or {%
    template_arguments  a table of JSON values
    format              "chat" or "base"

    Raises CurateError for unknown keys, values of a wrong type, unreadable files, and invalid prompts.
    """
    parts = {**(base or PromptFormat()).as_table(), **table}
    for name in parts:
        if name not in PromptFormat.__dataclass_fields__:
            known = ", ".join(f"prompt.{known}" for known in PromptFormat.__dataclass_fields__)
            raise CurateError(f"unknown key prompt.{name}; known are {known}")
    for name in ("system", "template"):
        if not isinstance(parts.get(name, ""), str):
            raise CurateError(f"prompt.{name} must be a string, not {parts[name]!r}")
    if not isinstance(parts.get("template_arguments", {}), Mapping):
        raise CurateError(f"prompt.template_arguments must be a table, not {parts['template_arguments']!r}")
    if "system" in table and table["system"].startswith("@"):
        parts["system"] = _read_text(table["system"].removeprefix("@")).strip("\n")
    if parts.get("template") and "template" in table and not any(mark in parts["template"] for mark in ("{{", "{%")):
        parts["template"] = _read_text(table["template"].removeprefix("@"))
        if not parts["template"].strip():
            raise CurateError(f"{table['template']} is empty. Pass a file with a template.")
    return PromptFormat(**parts)


def _read_text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CurateError(f"{path} is not a text file in UTF-8. Convert it, or pass another file.") from error
    except OSError as error:
        raise CurateError(f"{path}: {error.strerror}. Pass the path of a text file.") from error


@lru_cache(8)
def _compile(template: str) -> "Template":
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Sandboxed, because a template may be part of an untrusted configuration.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template)


def _check_template(template: str) -> None:
    """Raise CurateError if the template is not Jinja2, uses unknown variables, or lacks the statement."""
    from jinja2 import TemplateSyntaxError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        used = meta.find_undeclared_variables(ImmutableSandboxedEnvironment().parse(template))
    except TemplateSyntaxError as error:
        raise CurateError(f"the prompt's template is not Jinja2: line {error.lineno}: {error.message}") from error
    for name in sorted(used - TEMPLATE_VARIABLES.keys()):
        near = get_close_matches(name, TEMPLATE_VARIABLES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        known = ", ".join(TEMPLATE_VARIABLES)
        raise CurateError(f"the prompt's template has no variable {name!r}; known are {known}.{hint}")
    if "statement" not in used:
        raise CurateError(
            "the prompt's template has no variable statement, so it omits the problem; add {{ statement }}"
        )
