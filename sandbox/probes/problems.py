"""Three small problems for each convention, without empty, zero, true or one-character outputs."""

from sandbox.probes.probe import Convention, ProbeProblem, make_assert_problem, make_call_problem, make_stdin_problem

PROBLEMS: tuple[ProbeProblem, ...] = (
    make_stdin_problem(
        "sum",
        {"3 4\n": "7\n", "10 -2\n": "8\n", "1000000 21\n": "1000021\n"},
        "a, b = map(int, input().split())\nprint(a + b)\n",
    ),
    make_stdin_problem(
        "words",
        {"abc def\n": "2\ncba\nfed\n", "one two three\n": "3\neno\nowt\neerht\n", "level up\n": "2\nlevel\npu\n"},
        "words = input().split()\nprint(len(words))\nfor word in words:\n    print(word[::-1])\n",
    ),
    make_stdin_problem(
        "primes",
        {"10\n": "2 3 5 7\n", "20\n": "2 3 5 7 11 13 17 19\n", "12\n": "2 3 5 7 11\n"},
        "n = int(input())\nprint(*[k for k in range(2, n + 1) if all(k % d for d in range(2, k))])\n",
    ),
    make_call_problem(
        "weigh",
        [([3, 4], 25), ([10, 2], 104), ([5, 12], 169)],
        "def SOLVE(a, b):\n    return a * a + b * b\n",
    ),
    make_call_problem(
        "rotate",
        [([[1, 2, 3, 4], 1], [4, 1, 2, 3]), ([[5, 6, 7], 2], [6, 7, 5]), ([[9, 8, 7, 6, 5], 3], [7, 6, 5, 9, 8])],
        "def SOLVE(items, k):\n    k %= len(items)\n    return items[-k:] + items[:-k]\n",
    ),
    make_call_problem(
        "letters",
        [(["abca"], {"a": 2, "b": 1, "c": 1}), (["zz"], {"z": 2}), (["hello"], {"h": 1, "e": 1, "l": 2, "o": 1})],
        "def SOLVE(text):\n    return {letter: text.count(letter) for letter in text}\n",
    ),
    make_call_problem(
        "twoSum",
        [([[2, 7, 11, 15], 9], [0, 1]), ([[3, 2, 4], 6], [1, 2]), ([[1, 5, 8, 3], 11], [2, 3])],
        "def SOLVE(nums, target):\n    return next([i, j] for j in range(len(nums)) for i in range(j) "
        "if nums[i] + nums[j] == target)\n",
        Convention.METHOD,
    ),
    make_call_problem(
        "compress",
        [(["aaabb"], "a3b2"), (["xyz"], "x1y1z1"), (["qqqq"], "q4")],
        "def SOLVE(text):\n    import itertools\n"
        "    return ''.join(f'{k}{len(list(g))}' for k, g in itertools.groupby(text))\n",
        Convention.METHOD,
    ),
    make_call_problem(
        "climb",
        [([10], 89), ([20], 10946), ([15], 987)],
        "def SOLVE(n):\n    a, b = 1, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
        Convention.METHOD,
    ),
    make_assert_problem(
        "clamp",
        ["assert clamp(15, 2, 9) == 9", "assert clamp(-3, 2, 9) == 2", "assert clamp(5, 2, 9) == 5"],
        "def SOLVE(x, low, high):\n    return max(low, min(x, high))\n",
    ),
    make_assert_problem(
        "interleave",
        ["assert interleave([1, 2], [3, 4]) == [1, 3, 2, 4]", "assert interleave('ab', 'cd') == ['a', 'c', 'b', 'd']"],
        "def SOLVE(first, second):\n    return [item for pair in zip(first, second) for item in pair]\n",
    ),
    make_assert_problem(
        "initials",
        ["assert initials('Ada Lovelace') == 'A.L.'", "assert initials('Alan Mathison Turing') == 'A.M.T.'"],
        "def SOLVE(name):\n    return ''.join(word[0] + '.' for word in name.split())\n",
    ),
)


def get_first_problem(convention: Convention) -> ProbeProblem:
    """Return the first built-in problem of a convention."""
    return next(problem for problem in PROBLEMS if problem.convention is convention)
