"""Comparison of two answers with math-verify, as a program in the sandbox (see mathematics.py). Imports only the
standard library and math-verify, because the sandbox runs the source of this module.

math-verify's time limits are Python alarms, which cannot interrupt C code, such as a power of a power. Here the kernel
limits CPU seconds, so a busy machine makes no answer wrong.

Rules in addition to math-verify's:

- A percentage is a number: 2\\% is 0.02, not 2.
- An equation is equivalent to its right side if its left side has only names: x = 3, f(2) = 3, AB = 3, m + n = 3.
  With numbers on its left side, both sides must be equal: 1 + 2 = 3 is equivalent to 3; 4 = 3 and x + 1 = 3 are not.
  In the chain x = 2 = 3, the last equation is false, so the chain is not equivalent to 3. If the expected answer is an
  equation, both answers are compared as equations.
- If both answers have units, the units are the same. 5 cm is not 5 m, but may be written 5. Words other than units do
  not count.
- The bases are the same. 1010_2 is neither 1010 nor 10, since a question may ask for the digits.
- If both answers have a modulus, it is the same. 7 mod 10 is not 7 mod 11, but may be written 7.
- The letters of a name, an answer of capital letters only, have an order. AB is not BA.
- Inequalities that `and` joins differ from inequalities that `or` joins.

Parsing the notation, which math-verify drops or misreads, takes linear time on any text.
"""

import contextlib
import json
import logging
import re
import signal
import sys
from dataclasses import dataclass
from typing import Any

EXPECTED_CPU_SECONDS = 4.0  # for reading the expected answer
CPU_SECONDS = 0.5  # for the rest of a comparison; an ordinary one takes some hundredths of a second
_NUMBER_PERCENT = re.compile(r"((?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+)\s*+\\?%")
_ONLY_PERCENT = re.compile(r"([^$%=,]*[^$%=,\s\\])\s*\\?%")

Reading = Any  # one interpretation of an answer: an expression of sympy, or text

# Comparing these makes sympy import and cache the basis of all comparisons.
_WARM_UP = r"""\frac{1}{2}; 3\sqrt{2}; x^3 + 3x - 6; (1, 2); \{1, 2\}; y = 2x; -\frac{\pi}{6}; 0.5; 2\text{ cm}; [0,1);
-2 + 7i; \cot x; e^x; \ln 2; \begin{pmatrix} 1 \\ 2 \end{pmatrix}; x > 2; 90^\circ; 2\%; \text{even};
\left[ \frac{\pi^2}{8}, 5 \right]""".replace("\n", " ").split("; ")


@dataclass(frozen=True, slots=True)
class Notation:
    """The notation of an answer."""

    latex: str  # for math-verify
    units: frozenset[tuple[str, ...]]
    bases: frozenset[str]
    moduli: frozenset[str]
    connectives: frozenset[str]  # `and`, `or` between inequalities
    capitals: tuple[str, ...]  # of each item of a list, sorted
    is_name: bool  # or a list of names


def main() -> None:
    """Compare the two answers on stdin, a JSON list of the expected and the given one.

    Writes `right`, `wrong`, or `unreadable` if the expected answer cannot be parsed and the texts differ.
    """
    logging.disable()
    sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)  # rejects an answer of a million digits
    with contextlib.redirect_stdout(sys.stderr):  # output of libraries is not the result
        signal.setitimer(signal.ITIMER_PROF, EXPECTED_CPU_SECONDS)
        texts = json.load(sys.stdin)
        notation, readings = _read(texts[0])
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        right = False
        with contextlib.suppress(Exception):  # an answer that breaks the parser is wrong
            given_notation, given_readings = _read(texts[1])
            right = are_notations_compatible(notation, given_notation) and _are_equal(readings, given_readings)
    unreadable = all(isinstance(reading, str) for reading in readings)
    sys.stdout.write("right" if right else "unreadable" if unreadable else "wrong")


def warm_up() -> None:
    """Compare some answers, to load all modules before programs are forked from this interpreter."""
    logging.disable()
    for expected, given in zip(_WARM_UP, [*_WARM_UP[1:], "4"], strict=True):
        for other in (given, "4"):
            _are_equal(_read(expected)[1], _read(other)[1])


def _read(latex: str) -> tuple[Notation, list[Reading]]:
    """Return the notation of an answer, and its interpretations by math-verify."""
    from math_verify import parse
    from math_verify.parser import LatexExtractionConfig

    notation = parse_notation(latex)
    latex = notation.latex
    only_percent = _ONLY_PERCENT.fullmatch(latex)
    if only_percent is None:
        latex = _NUMBER_PERCENT.sub(lambda number: rf"\frac{{{number[1].replace(',', '')}}}{{100}}", latex)
    # math-verify heeds a percent sign only after the math delimiters.
    text = rf"${only_percent[1]}$\%" if only_percent else rf"\boxed{{{latex}}}"
    # Only LaTeX: math-verify passes plain expressions to Python's eval.
    readings = list(parse(text, [LatexExtractionConfig()], parsing_timeout=None))
    if only_percent is not None:
        # math-verify also returns the text without the percent sign, and ignores the factor 1/100 of an unevaluated
        # product.
        numbers = [reading.doit() for reading in readings if getattr(reading, "is_Mul", False)]
        readings = numbers or [latex.replace("\\%", "%")]
    return notation, readings


def _are_equal(expected: list[Reading], given: list[Reading]) -> bool:
    from math_verify import verify

    if not verify(expected, given, timeout_seconds=None):
        return False
    if any(_find_equations(reading) or getattr(reading, "is_Relational", False) for reading in expected):
        return True
    return all(_is_equal_to_right_side(chain) for reading in given for chain in _find_equations(reading))


def _find_equations(reading: Reading) -> list[list[Reading]]:
    """Return the chains of equations in a reading; a single equation is a chain."""
    if isinstance(reading, str):
        return []
    if _is_equation(reading):
        return [[reading]]
    parts: list[Reading] = list(getattr(reading, "_unsorted_args", getattr(reading, "args", ())))
    if type(reading).__name__ == "And" and all(_is_equation(part) for part in parts):
        return [parts]
    return [chain for part in parts for chain in _find_equations(part)]


def _is_equation(reading: Reading) -> bool:
    return type(reading).__name__ == "Equality"


def _is_equal_to_right_side(chain: list[Reading]) -> bool:
    from math_verify import verify

    first, *others = chain
    doubtful = [equation for equation in others if not equation.free_symbols]
    if not _has_only_names(first.lhs):
        doubtful.append(first)
    return all(verify([equation.rhs], [equation.lhs], timeout_seconds=None) for equation in doubtful)


def _has_only_names(side: Reading) -> bool:
    """Return whether a side has names, and no numbers other than exponents and signs."""
    if getattr(side, "is_Symbol", False) or str(side) == "E":  # sympy parses the letter e as the number
        return True
    if getattr(side, "is_Function", False):
        return bool(side.free_symbols) or type(type(side)).__name__ == "UndefinedFunction"  # f(2)
    if getattr(side, "is_Pow", False):
        return _has_only_names(side.base)
    parts = getattr(side, "args", ())
    if getattr(side, "is_Mul", False):
        parts = [part for part in parts if part != -1]
    return bool(parts) and all(_has_only_names(part) for part in parts)


_GROUP = r"\\(?:text(?:rm|bf|it)?|mathrm|mbox|operatorname)\s*+\{"
_SPACE = r"(?:\s|\\[,;:! ]|~)"
_PHRASE = re.compile(rf"({_GROUP})?+\s*+(?:the\s++)?+(?:final\s++)?+answer\s*+(?:is\b:?+|[:=])\s*+", re.IGNORECASE)
_THOUSANDS = re.compile(rf"(?<![\d.])\d{{1,3}}(?:\s*+(?:\\[,;:! ]|~){_SPACE}*+\d{{3}}(?!\d))++")
_APPROXIMATION = re.compile(r"\s*+(?:\\approx(?![a-zA-Z])|≈)")
_ROOT_OF_NEGATIVE = re.compile(r"\\sqrt\s*+\{\s*+-\s*+(\d++)\s*+\}")
_MULTIPLE_OF_I = re.compile(r"(?<=\d)i(?![a-zA-Z])")  # math-verify treats this letter as a real variable
_OR = re.compile(rf"{_GROUP}{_SPACE}*+or{_SPACE}*+\}}|\\(?:lor|vee)(?![a-zA-Z])")
_CONNECTIVE = re.compile(r"(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])|\\(?:land|lor|wedge|vee)(?![a-zA-Z])")
_AND = ("and", r"\land", r"\wedge")
_INEQUALITY = re.compile(r"[<>≤≥]|\\(?:[lg]eq?|[lg]eqslant|lt|gt)(?![a-zA-Z])")
_CONGRUENT = re.compile(r"\\equiv(?![a-zA-Z])")
_MODULUS = re.compile(
    rf"(?:\\[bp]?mod(?![a-zA-Z])|\(\s*+(?:{_GROUP})?+\s*+\\?[bp]?mod(?![a-zA-Z]))([^()]{{1,50}}+)\)?+\s*+\Z"
)
_BASE = re.compile(
    rf"(?<![\w\\.])(?P<open>\()?+(?P<numeral>[0-9A-Z]++(?:[.,]\d++)*+)(?(open)\)){_SPACE}*+"
    rf"(?P<base>_\s*+(?:\d|\{{\s*+(?:\d++|[a-z]++|{_GROUP}\s*+[a-z]++\s*+\}})\s*+\}})"
    rf"|{_GROUP}{_SPACE}*+base\s*+(?:\d++\s*+\}}|\}}\s*+(?:\d++|\{{\d++\}})))"
)
_LETTERS = re.compile("[A-Z]++")
_BASE_NAMES = "two three four five six seven eight nine ten eleven twelve".split()

# For each unit its symbol and its other names, without the s of the plural.
_UNITS = """
mm millimeter millimetre; cm centimeter centimetre; dm decimeter decimetre; m meter metre mtr; km kilometer kilometre;
in inch inches; ft foot feet; yd yard; mi mile; mg milligram; g gram gm; kg kilogram; lb pound; oz ounce; t ton tonne;
ml milliliter millilitre; l liter litre; gal gallon; quart; pint; ms millisecond; s sec second; min minute; h hr hour;
day; week; month; yr year; cent ¢; dollar; euro; deg degree; rad radian; c celsius; f fahrenheit; mph; kmh kmph kph
"""
_SYMBOLS = {name: unit.split()[0] for unit in _UNITS.split(";") for name in unit.split()}
_PER_HOUR = {"mph": ("mi", "/", "h"), "kmh": ("km", "/", "h")}
_TEMPERATURE_SCALES = ("c", "f")  # whose degrees are not those of an angle
_POWERS = {"square": "2", "sq": "2", "squared": "2", "²": "2", "cubic": "3", "cu": "3", "cubed": "3", "³": "3"}
_DEGREES = re.compile(r"\^\s*+\{?+\s*+\\circ(?![a-zA-Z])\s*+\}?+|\\degree(?![a-zA-Z])|°")
_LAST_UNIT = re.compile(r"((?:[^a-zA-Z\\]|\\[a-zA-Z]++|\\[^a-zA-Z])++)([a-zA-Z][a-zA-Z ./]*+(?:\^\{?+[23]\}?+)?+)\s*+")
_NEXT_GROUP = re.compile(rf"\}}{_SPACE}*+(/?+)\s*+{_GROUP}")
_UNIT_GROUP = re.compile(rf"{_GROUP}([^{{}}]*+)(?:\}}\s*+(\^\s*+\{{?+\s*+[23]))?+")
_UNIT_WORD = re.compile(r"([a-z]++|[/¢²³])(?:\s*+\^\s*+\{?+\s*+([23])|([23]))?+")

_LIST_ITEM_ENDS = re.compile(r"[,;]|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])")
_COMMAND = re.compile(r"\\[a-zA-Z]++")
_NAMES = re.compile(rf"(?:{_GROUP})?+\s*+[A-Z]{{2,}}+\s*+(?:,\s*+[A-Z]{{2,}}+\s*+)*+\}}?+")


def are_notations_compatible(expected: Notation, given: Notation) -> bool:
    """Return whether two answers of equal value agree in bases, units, moduli, connectives and order of letters."""
    return (
        expected.bases == given.bases
        and _are_compatible(expected.units, given.units)
        and _are_compatible(expected.moduli, given.moduli)
        and _are_compatible(expected.connectives, given.connectives)
        and (not expected.is_name or expected.capitals == given.capitals)
    )


def _are_compatible(one: frozenset[Any], other: frozenset[Any]) -> bool:
    return not one or not other or one == other


def parse_notation(latex: str) -> Notation:
    """Return the notation of an answer."""
    latex = _strip_phrase(latex)
    is_name = _NAMES.fullmatch(latex) is not None
    latex = _THOUSANDS.sub(lambda number: "".join(re.findall(r"\d", number[0])), latex)
    latex = _ROOT_OF_NEGATIVE.sub(lambda root: " i " if root[1] == "1" else rf"(i\sqrt{{{root[1]}}})", latex)
    latex = _MULTIPLE_OF_I.sub(" i", latex).replace(r"\varnothing", r"\emptyset")
    if approximation := _APPROXIMATION.match(latex):
        latex = latex[approximation.end() :]
    connectives = frozenset("and" if word in _AND else "or" for word in _CONNECTIVE.findall(latex))
    if "=" in latex:
        latex = _OR.sub(r"\\text{ or }", latex)
    latex, moduli = _strip_modulus(latex)
    bases: set[str] = set()
    latex = _BASE.sub(lambda numeral: _strip_base(numeral, bases), latex)
    return Notation(
        latex,
        units=_parse_units(latex),
        bases=frozenset(bases),
        moduli=moduli,
        connectives=connectives if _INEQUALITY.search(latex) else frozenset(),
        capitals=_extract_capitals(latex),
        is_name=is_name,
    )


def _strip_phrase(latex: str) -> str:
    """Return an answer without a leading `The answer is`, also inside a LaTeX group."""
    phrase = _PHRASE.match(latex)
    if phrase is None:
        return latex
    rest = latex[phrase.end() :]
    if phrase[1]:
        text, _, after = rest.partition("}")
        text = text.strip().removesuffix(".")
        rest = (rf"\text{{{text}}}" if any(map(str.isalpha, text)) and "$" not in text else text) + after
    return rest.strip().removesuffix(".").strip("$")


def _strip_modulus(latex: str) -> tuple[str, frozenset[str]]:
    """Return an answer without its modulus, and the modulus. A number not below its modulus keeps it."""
    found = _MODULUS.search(latex)
    if found is None:
        return latex, frozenset()
    modulus = re.sub(r"\W", "", _COMMAND.sub("", found[1]))
    number = _CONGRUENT.sub("=", latex[: found.start()]).rstrip(" \\~").lstrip(" =")
    if number.isdecimal() and modulus.isdecimal() and int(number) >= int(modulus):
        return latex, frozenset()
    return number, frozenset([modulus])


def _strip_base(numeral: re.Match[str], bases: set[str]) -> str:
    """Return a numeral without its base, and add the base to `bases`."""
    base = re.sub(r"[^a-z\d]|base", "", _COMMAND.sub("", numeral["base"]))
    base = str(_BASE_NAMES.index(base) + 2) if base in _BASE_NAMES else base
    digits = numeral["numeral"].replace(",", "")
    if not base.isdecimal() or _LETTERS.fullmatch(digits) and (len(digits) == 1 or int(base) <= 10):
        return numeral[0]  # a variable
    bases.add(base)
    return rf"\text{{{digits}}}" if _LETTERS.search(digits) else digits


def _parse_units(latex: str) -> frozenset[tuple[str, ...]]:
    _, _, right_side = latex.rpartition("=")
    if unit_match := _LAST_UNIT.fullmatch(right_side):
        latex = rf"{unit_match[1]}\text{{{unit_match[2]}}}"
    latex = _DEGREES.sub(r"\\text{degree }", latex).replace(r"\$", r"\text{dollar }")
    latex = _NEXT_GROUP.sub(r" \1 ", latex)
    units: set[tuple[str, ...]] = set()
    for text, power in _UNIT_GROUP.findall(latex):
        units.update(map(_parse_unit, _LIST_ITEM_ENDS.split(text.lower() + power)))
    return frozenset(units - {()})


def _parse_unit(text: str) -> tuple[str, ...]:
    """Parse a unit into symbols, slashes and powers; () if the text holds other words."""
    unit: list[str] = []
    power = ""  # from a word such as `square`, for the next unit
    for word, *powers in _UNIT_WORD.findall(text):
        symbol = _SYMBOLS.get(word) or _SYMBOLS.get(word.removesuffix("s"))
        if symbol in _TEMPERATURE_SCALES and unit[-1:] == ["deg"]:
            unit.pop()
        if symbol:
            unit += filter(None, [*_PER_HOUR.get(symbol, (symbol,)), power, *powers])
            power = ""
        elif word in ("/", "per"):
            unit.append("/")
        elif word in _POWERS and unit and unit[-1] != "/":
            unit.append(_POWERS[word])
        elif word in _POWERS:
            power = _POWERS[word]
        else:
            return ()
    return tuple(unit)


def _extract_capitals(latex: str) -> tuple[str, ...]:
    _, _, right_side = _COMMAND.sub("", latex).rpartition("=")
    return tuple(sorted(re.sub(r"[^A-Z]", "", item) for item in _LIST_ITEM_ENDS.split(right_side)))
