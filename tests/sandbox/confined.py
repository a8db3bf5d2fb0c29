"""Judging where nobody has privileges: in a process of an ordinary user, or in a container of Docker's defaults.

The sandbox starts at the level `landlock` there: the container refuses namespaces, and the user's process asks for it.
In a mount namespace in which another mount hides the cgroups, there are namespaces, but no cgroup.
"""

import os
import pickle
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox import Program, Suite, image

ROOT = Path(__file__).parents[2]
USER, CONTAINER, ROOT_OF_CONTAINER = "user", "container", "root of a container"
PLACES = (USER, CONTAINER, ROOT_OF_CONTAINER)
NO_CGROUP = "without a cgroup"
_HIDING_CGROUPS = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-ec"]
_HIDING_CGROUPS += ['mount -t tmpfs none /sys/fs/cgroup; exec "$@"', "sh"]
Answer = list[tuple[str, str]]  # the verdict of each case, and what is known about it

JUDGE = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from sandbox import Sandbox
answers = {}
with Sandbox(**{"workers": 2, **pickle.loads(bytes.fromhex(sys.argv[2]))}) as box:
    assert box.level == "landlock", box.layers
    for index, answer in box.judge_many_with_errors(pickle.load(sys.stdin.buffer), run_all=True):
        if isinstance(answer, Exception):
            raise answer
        answers[index] = [(case.verdict.value, case.detail) for case in answer.cases]
pickle.dump([answers[index] for index in sorted(answers)], sys.stdout.buffer)
"""


def install(folder: Path) -> Path:
    """Copy the package to where every user can read it, and return the folder."""
    for path in (folder, *folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    shutil.copytree(ROOT / "sandbox", folder / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def command(place: str, installed: Path) -> list[str]:
    """Return the beginning of a command line that runs Python in such a place; skip the test where there is none."""
    if place == NO_CGROUP:
        hidden = subprocess.run([*_HIDING_CGROUPS, "true"], capture_output=True, text=True, check=False)
        if hidden.returncode != 0:
            pytest.skip(f"hiding the cgroups takes a mount namespace of our own: {hidden.stderr.strip()}")
        return [*_HIDING_CGROUPS, sys.executable]
    if place == USER:
        python = interpreter()
        if os.geteuid() != 0:
            return [python]
        return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--inh-caps=-all",
                "--bounding-set=-all", python]  # fmt: skip
    found = subprocess.run(["docker", "image", "inspect", image.TAG], capture_output=True, check=False)
    if found.returncode != 0:
        assert "CURATE_REQUIRE_DOCKER" not in os.environ, found.stderr
        pytest.skip("no containers here")
    user = "0:0" if place == ROOT_OF_CONTAINER else "1000:1000"
    start = ["docker", "run", "--rm", "--interactive", "--network=none", f"--user={user}", "--entrypoint=python3"]
    return [*start, f"--volume={installed}:{installed}:ro", image.TAG]


def ordinary_user() -> str | None:
    """Return the name of an ordinary user; None if we are one. Skip the test if there is none."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody").pw_name
    except KeyError:
        pytest.skip("there is no ordinary user")


def interpreter() -> str:
    """Return an interpreter that an ordinary user may run: ours, or the system's."""
    user = ordinary_user()
    for candidate in (os.path.realpath(sys._base_executable), "/usr/bin/python3"):  # type: ignore[attr-defined]
        asked = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(asked, user=user, capture_output=True, check=False).returncode == 0:
                return candidate
        except PermissionError:
            continue
    pytest.skip("no Python that an ordinary user may run")


def judged(place: str, installed: Path, pairs: Sequence[tuple[Program, Suite]], **options: object) -> list[Answer]:
    """Return the answers of a sandbox in such a place to these pairs. options: further arguments of Sandbox."""
    if place == USER:
        options = {"levels": ("landlock",), **options}
    arguments = ["-c", JUDGE, str(installed), pickle.dumps(options).hex()]
    done = subprocess.run(
        [*command(place, installed), *arguments], input=pickle.dumps(list(pairs)), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Answer] = pickle.loads(done.stdout)
    return answers
