import pytest

from curate.decontamination.problem_keys import derive_keys


@pytest.mark.parametrize(
    ("url", "key"),
    [
        pytest.param("https://codeforces.com/problemset/problem/1016/D", "codeforces:1016/d", id="problemset"),
        pytest.param("http://www.codeforces.com/contest/1016/problem/D?locale=en#x", "codeforces:1016/d", id="contest"),
        pytest.param("https://m1.codeforces.com/contest/1016/problem/D1/", "codeforces:1016/d1", id="mirror"),
        pytest.param("https://atcoder.jp/contests/abc301/tasks/abc301_a", "atcoder:abc301_a", id="atcoder"),
        pytest.param("https://leetcode.com/problems/two-sum/description/", "leetcode:two-sum", id="leetcode"),
        pytest.param(
            "https://leetcode.cn/contest/weekly-1/problems/two-sum", "leetcode:two-sum", id="leetcode contest"
        ),
        pytest.param("https://www.Codewars.com/kata/5a?x=1", "url:codewars.com/kata/5a", id="another site"),
    ],
)
def test_addresses_of_one_problem_give_one_key(url, key):
    assert derive_keys(url=url) == {key}


@pytest.mark.parametrize(
    ("platform", "name", "key"),
    [
        pytest.param("codeforces", "1016_D", "codeforces:1016/d", id="codeforces id"),
        pytest.param("Codeforces", "1016_D. Vasya And The Matrix", "codeforces:1016/d", id="codecontests title"),
        pytest.param("codeforces", "1016_d_vasya_and_the_matrix_3445", "codeforces:1016/d", id="codecontests name"),
        pytest.param("codeforces", "2000A", "codeforces:2000/a", id="codeelo id"),
        pytest.param("atcoder", "abc301_a", "atcoder:abc301_a", id="atcoder id"),
        pytest.param("leetcode", "Kids With Candies", "leetcode:kids-with-candies", id="leetcode title"),
        pytest.param("leetcode", "kids-with-candies", "leetcode:kids-with-candies", id="leetcode slug"),
    ],
)
def test_names_on_a_platform_give_the_key_of_its_address(platform, name, key):
    assert derive_keys(platform=platform, names=(name,)) == {key}


@pytest.mark.parametrize(
    ("url", "platform", "name"),
    [
        pytest.param("", "", "Two Sum", id="a title without a platform"),
        pytest.param("", "leetcode", "2755", id="a number on leetcode"),
        pytest.param("", "codeforces", "D. Vasya And The Matrix", id="an index without a contest"),
        pytest.param("", "codeforces", "3 Apples", id="a title that begins with a number"),
        pytest.param("https://codeforces.com", "", "", id="a whole site"),
        pytest.param("https://example.org/problems", "", "", id="a list"),
        pytest.param("", "", "", id="nothing"),
    ],
)
def test_an_unrecognised_problem_has_no_key(url, platform, name):
    assert derive_keys(url=url, platform=platform, names=(name,)) == frozenset()
