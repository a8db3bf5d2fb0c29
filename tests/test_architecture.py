"""Imports point in one direction, heavy packages are imported only where they are needed, and names mean one thing."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "sandbox": {"sandbox"},
    "rewards": {"rewards", "sandbox"},
    "curate": {"curate", "rewards", "sandbox"},
    "train": {"train", "curate", "rewards", "sandbox"},
}
ROOMS = [name for name in ALLOWED if (ROOT / name).is_dir()]
STANDARD_LIBRARY_ONLY = "sandbox"
AT_HOME = {  # packages that only these modules may import
    "sandbox/backends/docker.py": {"docker", "urllib3", "requests"},
    "sandbox/backends/ray.py": {"ray"},
    "sandbox/http_client.py": {"urllib3"},
    "sandbox/json_codec.py": {"msgspec"},
    "sandbox/judge_record.py": {"msgspec"},
    "sandbox/extras.py": {"packaging"},
    "sandbox/packages.py": {"packaging"},
    "sandbox/commands/": {"click", "rich", "tqdm"},
    "sandbox/service/": {"fastapi", "starlette", "uvicorn", "prometheus_client", "anyio", "pydantic", "msgspec"},
}
# From the bottom up: a room of a package may import only the rooms that stand before it in its list.
DIRECTIONS = {
    "sandbox": "closeable errors extras program suite machine json_codec literals languages referee checkers "
    "return_values probes judge request limit_bounds concurrency http_client kernel jail judging packages image "
    "backends box options judge_record conformance service commands",
    "rewards": "errors argument_checks reward extract form weighted "
    "case_selection code math_comparison mathematics async_rewards process_singletons trl verl verl_manager "
    "verifiers",
    "curate": "errors progress json_records manifest problem prompt trust text reading sources judging "
    "strength options recipe ingestion work dataset dedup report derivation difficulty decontamination "
    "operations stage shards build_state stages exports pipeline audit recipes probe "
    "commands __main__",
    "train": "errors gpu_cost interrupts child bounded_http engine_options config weights sampling evaluation learning "
    "rollouts asynchronous swarm run planning loop commands",
    "train.learning": "flops sequences attention logprob heartbeats ranks policy model_files sharded_state "
    "objectives loss learner",
    "train.asynchronous": "staleness messages events group_states journal leases dispatcher evaluation_sampler "
    "controller server client controller_threads rollout_worker rollout_process ray_actors local_workers pipeline "
    "lockstep async_pipeline",
}


def at_home(path: str) -> set[str]:
    return {name for place, names in AT_HOME.items() if path.startswith(place) for name in names}


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


NODES = (ast.Import, ast.ImportFrom, ast.Call)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the imports and the calls of a module."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, NODES))


def imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def within(name: str, parents: set[str]) -> bool:
    return any(name == parent or name.startswith(parent + ".") for parent in parents)


def within_any(names: Iterator[str], parents: set[str]) -> bool:
    return any(within(name, parents) for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_between_rooms_point_down(room: str) -> None:
    ours = {*ALLOWED, "cli", "tests", "benchmarks"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(room)
        for name in imports(path)
        if within(name, ours) and not within(name, ALLOWED[room])
    ]
    assert wrong == []


def folder_of(package: str) -> Path:
    return ROOT / package.replace(".", "/")


def room_of(path: Path, package: str) -> str:
    return path.relative_to(folder_of(package)).with_suffix("").parts[0]


def rooms_imported(path: Path, package: str) -> Iterator[str]:
    """Yield the names of the package's rooms that a module imports, its own included."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (alias.name for alias in node.names if not is_of_the_facade(alias.name, package))
        elif isinstance(node, ast.ImportFrom) and within(node.module or "", {package}):
            yield (node.module or "").removeprefix(f"{package}.").split(".")[0]


def is_of_the_facade(name: str, package: str) -> bool:
    return not (folder_of(package) / name).is_dir() and not (folder_of(package) / f"{name}.py").is_file()


@pytest.mark.parametrize("package", DIRECTIONS)
def test_every_room_of_a_package_has_its_place_in_the_direction(package: str) -> None:
    rooms = {
        path.stem for path in folder_of(package).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert rooms - {"__init__"} == set(DIRECTIONS[package].split())


@pytest.mark.parametrize("package", DIRECTIONS)
def test_imports_within_a_package_point_down(package: str) -> None:
    order = DIRECTIONS[package].split()
    wrong = [
        f"{path.relative_to(ROOT)} imports {package}.{room}"
        for path in sorted(folder_of(package).rglob("*.py"))
        if path != folder_of(package) / "__init__.py"
        for room in rooms_imported(path, package)
        if order.index(room) > order.index(room_of(path, package))
    ]
    assert wrong == []


def test_only_what_runs_vllm_knows_vllm() -> None:
    importing = {
        str(path.relative_to(ROOT)) for room in ROOMS for path in modules(room) if within_any(imports(path), {"vllm"})
    }
    assert importing == {
        "train/sampling/vllm.py",
        "train/sampling/vllm_worker.py",
        "train/sampling/vllm_weights.py",
        "train/weights/nccl.py",
    }


def test_the_sandbox_needs_nothing_but_the_standard_library() -> None:
    known = sys.stdlib_module_names | {"sandbox"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(STANDARD_LIBRARY_ONLY)
        for name in imports(path)
        if name.split(".")[0] not in known | at_home(str(path.relative_to(ROOT)))
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_libraries_do_not_print(room: str) -> None:
    inside_the_jail = ROOT / "sandbox" / "languages"  # there, stderr is the program's
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules(room)
        if not path.is_relative_to(inside_the_jail)
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "statement",
    [
        "import sandbox",
        "import curate",
        "import rewards.extract",
        "import train.sampling.protocol",
        "from train import Config, TrainError, read_config",
        "from cli import main",
    ],
)
def test_light_imports_load_no_heavy_package(statement: str) -> None:
    heavy = set("datasets pandas pyarrow datasketch docker duckdb numba numpy torch vllm ray".split())
    code = f"{statement}\nimport sys\nprint(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by their names alone, and a run of all tests would stop at the second."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, n in names.items() if n > 1] == []


# Past participles that do not end in -ed, and adverbs: names of states, not of what a module holds.
NO_NOUNS = set(
    "ahead again apart aside begun beside done drawn found given gone here held hidden inside kept known left lost "
    "made meant met outside seen sent shown taken there told together understood within without written".split()
)
# Adjectives that name a thing of the field: distributed training, hard-coded mutants, a weighted reward.
NOUNS = {"distributed", "hard_coded", "weighted"}
ADJECTIVES = {"least_similar", "most_changed", "most_common"}


@cache
def public_classes() -> dict[str, list[str]]:
    """Return the modules that define each public class name."""
    found: dict[str, list[str]] = {}
    for path in (path for room in ROOMS for path in modules(room)):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    return found


def test_a_public_class_name_means_one_thing() -> None:
    repeated = {name: paths for name, paths in public_classes().items() if len(paths) > 1}
    repeated.pop("Backend")  # sandbox/backends/NAME.py has the Backend of that name
    assert repeated == {}


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_is_named_by_a_participle_or_an_adverb(room: str) -> None:
    stems = {path.stem for path in modules(room)} | {path.parent.name for path in modules(room)}
    wrong = {stem for stem in stems - NOUNS if stem in NO_NOUNS or stem.rpartition("_")[2].endswith(("ed", "ly"))}
    assert wrong == set()


@pytest.mark.parametrize("room", ROOMS)
def test_bounds_are_called_max_and_min(room: str) -> None:
    bound = re.compile(r"\b_*(?:most|least|MOST|LEAST)_\w+")
    wrong = {
        token.string
        for path in modules(room)
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        if token.type == tokenize.NAME and bound.fullmatch(token.string) and token.string.lstrip("_") not in ADJECTIVES
    }
    assert wrong == set()
