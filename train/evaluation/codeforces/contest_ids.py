"""The contests whose 408 problems DeepCoder's Codeforces rating was measured on: May to November 2024."""

DEEPCODER_CONTESTS = (
    *range(1971, 2009),
    *(2013, 2014),
    *range(2018, 2031),
    *(2032, 2033),
    *(2035, 2036),
)
