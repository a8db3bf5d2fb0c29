"""Programs can import packages that were asked for, and see nothing else of the place where these are installed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from installing import install
from serving import serving

from sandbox import (
    BackendUnavailable,
    Case,
    Outcome,
    Package,
    Program,
    RunResult,
    Sandbox,
    SandboxError,
    SandboxOptions,
    Suite,
    Verdict,
)
from sandbox.backends._supervisor import NodeSupervisor, compute_code_fingerprint
from sandbox.packages import find

HOSTILE_PTH = "import os; os.environ['PTH_WAS_READ'] = 'yes'\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    install(folder, "answer-book", {"answers.py": "import tables\nANSWER = tables.SIX * 7\n"}, needs=("tables>=2",))
    install(
        folder,
        "tables",
        {"tables/__init__.py": "SIX = 6\n", "tables/data/six.txt": "six", "tables.pth": HOSTILE_PTH},
        version="2.1",
    )
    install(folder, "broken", {"broken.py": "raise ImportError('built for another machine')\n"})
    (folder / "secret.py").write_text("KEY = 'belongs to no package'\n")
    return folder


@pytest.fixture(scope="module")
def box(folder: Path) -> Iterator[Sandbox]:
    with Sandbox(workers=1, packages=["answer-book"], packages_from=folder) as box:
        yield box


def run(box: Sandbox, source: str) -> RunResult:
    return box.run(Program(source))


def printed(box: Sandbox, source: str) -> str:
    result = run(box, source)
    assert (result.outcome, result.exit_code) == (Outcome.EXITED, 0), result.stderr.decode()
    return result.stdout.decode().strip()


def test_programs_import_a_package_and_what_it_needs(box: Sandbox) -> None:
    assert printed(box, "import answers, tables\nprint(answers.ANSWER, tables.SIX)") == "42 6"
    assert printed(box, "import tables, pathlib\nprint(pathlib.Path(tables.__file__).with_name('data'))").endswith(
        "data"
    )
    assert printed(box, "from importlib.metadata import version\nprint(version('tables'))") == "2.1"


def test_a_program_that_names_no_package_sees_none(box: Sandbox) -> None:
    assert printed(box, "import os\nprint(os.listdir('/packages'))") == "[]"


def test_packages_can_be_read_and_not_written(box: Sandbox) -> None:
    for attempt in (
        "open('/packages/tables/six.py', 'w')",
        "os.remove('/packages/answers.py')",
        "os.mkdir('/packages/x')",
    ):
        assert "Read-only file system" in printed(
            box, f"import os, tables\ntry:\n    {attempt}\nexcept OSError as error:\n    print(error)"
        )


def test_nothing_tells_where_packages_are_installed_and_no_pth_is_read(box: Sandbox, folder: Path) -> None:
    search = f"""
import os, sys, tables
files = [os.path.join(root, name) for root, _, names in os.walk('/packages') for name in names]
print([file for file in files if {str(folder)!r}.encode() in open(file, 'rb').read()])
print([file for file in files if file.endswith(('.pth', '.json')) or 'secret' in file])
print(os.environ.get('PTH_WAS_READ'), [path for path in sys.path if {str(folder)!r} in path], len(files) > 5)
"""
    assert printed(box, search).splitlines() == ["[]", "[]", "None [] True"]


def test_a_package_is_described_by_its_version_and_a_digest_of_its_files(
    box: Sandbox, folder: Path, tmp_path: Path
) -> None:
    assert [(each.name, each.version, each.requested) for each in box.packages] == [
        ("answer-book", "1.0", True),
        ("tables", "2.1", False),
    ]
    copy = {"tables/__init__.py": "SIX = 6\n", "tables/data/six.txt": "six"}
    install(tmp_path, "tables", copy, version="2.1")
    [same] = find(["tables"], str(tmp_path))
    assert same.package.digest == box.packages[1].digest
    (tmp_path / "tables" / "data" / "six.txt").write_text("seven")
    [other] = find(["tables"], str(tmp_path))
    assert other.package.digest != same.package.digest


@pytest.mark.parametrize(
    ("word", "message"),
    [
        pytest.param(
            "nothing", "the package nothing is not in {0}. Type: pip install --target {0} nothing", id="missing"
        ),
        pytest.param(
            "tables<2", "tables 2.1 is in {0}, not tables<2. Type: pip install --target {0} 'tables<2'", id="old"
        ),
        pytest.param("lonely", "the package company, which lonely needs, is not in {0}.", id="needs another"),
    ],
)
def test_a_package_that_is_missing_is_an_error_that_says_what_to_type(word: str, message: str, folder: Path) -> None:
    install(folder, "lonely", {"lonely.py": ""}, needs=("company",))
    with pytest.raises(BackendUnavailable) as error:
        Sandbox(workers=1, packages=[word], packages_from=folder)
    assert message.format(folder) in str(error.value)


def test_words_that_name_no_package_are_refused() -> None:
    with pytest.raises(ValueError, match="'two words' is not a package"):
        SandboxOptions(packages=("two words",))
    with pytest.raises(ValueError, match="needs the names"):
        SandboxOptions(packages_from="folder")
    with pytest.raises(ValueError, match="not for docker"):
        SandboxOptions(backend="docker", packages=("pandas",), packages_from="folder")


def test_a_package_that_cannot_be_imported_is_a_failure_of_the_sandbox_and_no_verdict(folder: Path) -> None:
    with Sandbox(workers=1, packages=["broken"], packages_from=folder) as box:
        assert box.judge(Program("print(input())"), Suite([Case("1", "1")])).accepted
        with pytest.raises(SandboxError, match="built for another machine"):
            box.judge(Program("import broken"), Suite([Case("", "")]))


def test_a_service_has_the_packages_that_it_was_started_with(folder: Path) -> None:
    asked = ["--package", "answer-book", "--packages-from", str(folder)]
    with serving("--workers", "1", *asked) as service:
        with Sandbox(backend="http", url=service.url, packages=["answer-book>=1"]) as there:
            assert printed(there, "import answers\nprint(answers.ANSWER)") == "42"
            assert {each.name for each in there.packages} == {"answer-book", "tables"}
        options = SandboxOptions("http", service.url, packages=("broken",))
        with pytest.raises(BackendUnavailable, match="has no package broken; it has answer-book, tables.") as error:
            options.open()
        assert str(error.value).endswith("Start it with: curate serve --package broken")


@pytest.mark.thorough
def test_a_node_with_other_packages_is_left_out(folder: Path) -> None:
    others = (Package("tables", "2.1", hashlib.sha256().hexdigest(), True),)
    options = {"workers": 1, "isolation": "full", "seed": None, "packages": ("tables",), "packages_from": str(folder)}
    supervisor = NodeSupervisor()
    try:
        with pytest.raises(BackendUnavailable, match=r"it has tables 2\.1 \(.*\), but the caller has tables 2\.1 \("):
            supervisor.start(compute_code_fingerprint(), others, options, 1)
    finally:
        supervisor.close()


@pytest.mark.thorough
def test_pandas_works_and_its_import_costs_a_program_neither_time_nor_memory() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed, which programs import here")
    source = "import pandas\ntable = pandas.DataFrame({'a': [1, 2, 3]})\nprint(table.a.sum(), pandas.__file__)"
    with Sandbox(workers=1, packages=["pandas"]) as box:
        result = run(box, source)
        assert result.stdout == b"6 /packages/pandas/__init__.py\n", result.stderr.decode()
        assert result.memory_mb < 50  # without what the zygote has loaded: by itself, the import takes 100
        assert printed(box, "import numpy\nprint(numpy.ones(3).sum())") == "3.0"
        call = Suite([Case("[[1, 2]]", "3")], entry_point="total")
        judgement = box.judge(Program("import pandas\ndef total(x): return int(pandas.Series(x).sum())"), call)
        assert judgement.verdict is Verdict.ACCEPTED
        assert {"pandas", "numpy"} <= {each.name for each in box.packages}


COUNTER = "import os\nimport answers\nPLACE, CALLS = os.getpid(), [answers.ANSWER]\n"


def test_a_module_of_the_caller_runs_once_and_programs_find_it_as_it_then_is(folder: Path) -> None:
    add = "import counter\ncounter.CALLS.append(1)\ncounter.PLACE = 0\nprint(counter.CALLS)"
    with Sandbox(workers=1, packages=["answer-book"], packages_from=folder, modules={"counter": COUNTER}) as box:
        places = {printed(box, "from counter import PLACE\nimport os\nprint(PLACE, os.getpid())") for _ in range(2)}
        assert len(places) == 1
        assert len(set(places.pop().split())) == 2  # it ran in the interpreter from which programs are forked
        assert [printed(box, add) for _ in range(2)] == ["[42, 1]", "[42, 1]"]
        assert "Read-only" in run(box, "import counter\nopen(counter.__file__, 'w')").stderr.decode()
        assert printed(box, "import os\nprint(os.listdir('/packages'))") == "[]"


def test_a_module_of_the_caller_that_fails_is_a_failure_of_the_sandbox(folder: Path) -> None:
    with Sandbox(workers=1, modules={"failing": "raise KeyError('of the caller')\n"}) as box:
        assert printed(box, "print(1)") == "1"
        with pytest.raises(SandboxError, match="of the caller"):
            run(box, "import failing")


def test_modules_that_no_backend_can_take_are_refused() -> None:
    with pytest.raises(ValueError, match="must be a Python name, not 'a-b'"):
        Sandbox(workers=1, modules={"a-b": ""})
    with pytest.raises(ValueError, match="at most 100,000 bytes as JSON, not 100,"):
        Sandbox(workers=1, modules={"large": "#" * 100_000})
    with pytest.raises(ValueError, match="only with the backends local and docker, not http"):
        Sandbox(backend="http", url="http://127.0.0.1:1", modules={"a": ""})
