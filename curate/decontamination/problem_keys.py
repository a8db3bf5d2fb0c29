"""Keys of problems, derived from their URLs and their names on a platform. Rows with a common key are one problem.

An ambiguous name yields no key, because a wrong key would remove an unrelated row.
"""

import re

_CODEFORCES_URL = re.compile(
    r"(?:\w+\.)?codeforces\.com/(?:contest/(\d+)/problem|problemset/problem/(\d+)|gym/(\d+)/problem)/(\w+)"
)
_ATCODER_URL = re.compile(r"(?:\w+\.)?atcoder\.jp/contests/[\w-]+/tasks/([\w-]+)")
_LEETCODE_URL = re.compile(r"(?:\w+\.)?leetcode\.(?:com|cn)/(?:contest/[\w-]+/)?problems/([\w-]+)")
_CODEFORCES_NAME = re.compile(r"(\d{1,4})[ _/-]?([a-z]\d?)(?:$|[ ._:])", re.IGNORECASE)
_ATCODER_NAME = re.compile(r"[a-z]+\d{3}_\w{1,2}")


def derive_keys(*, url: str = "", platform: str = "", names: tuple[str, ...] = ()) -> frozenset[str]:
    """Return the keys of a problem. names: its title, number and other names on the platform"""
    candidates = {_parse_url(url)} | {_parse_name(platform.lower(), name.strip()) for name in names}
    return frozenset(key for key in candidates if key)


def _parse_url(url: str) -> str | None:
    address = re.sub(r"^https?://(?:www\.)?|[?#].*$", "", url.strip().lower(), flags=re.DOTALL).rstrip("/")
    if match := _CODEFORCES_URL.match(address):
        return f"codeforces:{match[1] or match[2] or match[3]}/{match[4]}"
    if match := _ATCODER_URL.match(address):
        return f"atcoder:{match[1]}"
    if match := _LEETCODE_URL.match(address):
        return f"leetcode:{match[1]}"
    # Shorter addresses are those of whole sites or lists, which many problems share.
    return f"url:{address}" if address.count("/") >= 2 else None


def _parse_name(platform: str, name: str) -> str | None:
    if platform == "codeforces" and (match := _CODEFORCES_NAME.match(name)):
        return f"codeforces:{match[1]}/{match[2].lower()}"
    if platform == "atcoder" and _ATCODER_NAME.fullmatch(name.lower()):
        return f"atcoder:{name.lower()}"
    if platform == "leetcode":
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower().replace("'", "")).strip("-")
        return f"leetcode:{slug}" if slug and not slug.isdigit() else None
    return None
