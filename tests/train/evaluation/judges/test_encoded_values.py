"""Values leave the sandbox as JSON or as a digest, and are equal there if Python's == holds between them."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from train.evaluation.judges.sandbox_runner import (
    MAX_JSON_CHARS,
    UNEQUAL,
    EncodingTooLarge,
    IncomparableValueError,
    SizeBudget,
    canonical_text,
    decode,
    digest,
    encode,
)

atoms = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**63, 2**63 - 1, -(2**63), 10**18, 10**4000])
    | st.sampled_from([0.0, -0.0, 0.5, 1e19, 1e300, float("inf"), Fraction(1, 2), Fraction(1, 3), Decimal("0.5")])
    | st.sampled_from([1 + 0j, 1j, b"", b"a", "", "a", "1" * 25, "\ud800", "'\""])
)
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(atoms, max_size=3).map(set)
        | st.dictionaries(atoms, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values, values)
def test_canonical_texts_are_equal_if_the_values_are(one, other):
    assert (canonical_text(one) == canonical_text(other)) == (one == other)


@given(values)
def test_what_a_program_claims_has_the_canonical_text_of_the_value(value):
    claimed = decode(json.loads(json.dumps(encode(value))), untrusted=True)
    assert canonical_text(claimed) == canonical_text(value)
    assert digest(claimed) == digest(value) != UNEQUAL


@settings(max_examples=12)
@given(st.recursive(st.integers(-9, 9) | st.sampled_from(["a", 1.0, None, 0.5]), st.lists, max_leaves=30))
def test_the_text_of_a_long_list_is_that_of_its_parts(item):
    text = canonical_text(item)
    assert canonical_text([item] * 2500) == f"[{', '.join([text] * 2500)}]"
    assert canonical_text(tuple([item] * 1500)) == f"({', '.join([text] * 1500)})"


@pytest.mark.parametrize("value", [float("nan"), [1, float("nan")], {"a": (float("nan"),)}, object(), [map(str, [])]])
def test_nan_and_what_is_no_data_equals_nothing(value):
    assert digest(value) == UNEQUAL
    with pytest.raises(IncomparableValueError):
        canonical_text(value)


@given(values)
def test_arguments_keep_their_types(value):
    again = decode(json.loads(json.dumps(encode([value]))))[0]
    assert again == value
    assert isinstance(value, Decimal) or type(again) is type(value)


@pytest.mark.parametrize(
    "value", [[0] * MAX_JSON_CHARS, "a" * (MAX_JSON_CHARS + 1), [["a" * 99]] * 700, (iter(range(10**9)),) * 99]
)
def test_a_large_value_is_not_encoded(value):
    with pytest.raises(EncodingTooLarge):
        encode(value, SizeBudget())
