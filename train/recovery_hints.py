"""Recovery hints for disk errors."""

import errno
import re

_REMEDIES = {
    errno.EROFS: "Make the folder writable",
    errno.EACCES: "Make the folder writable",
    errno.EPERM: "Make the folder writable",
    errno.EMFILE: "Allow more open files (ulimit -n)",
    errno.ENFILE: "Close other programs that hold files open",
    errno.ENOSPC: "Make room",
    errno.EDQUOT: "Make room",
    errno.EFBIG: "Make room",
}
_NUMBER = re.compile(r"(?:Errno|os error) (\d+)")  # Python writes one, and libraries in Rust the other


def recovery_hint(error: BaseException) -> str:
    """Return the first half of an advice, such as "Make room"; the words of the error say which error it is."""
    number = _NUMBER.search(str(error))
    return _REMEDIES.get(int(number[1]), "Correct that") if number else "Make room"
