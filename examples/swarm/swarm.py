"""A whole swarm on this machine:  python examples/swarm/swarm.py [FOLDER]

A trainer, a coordinator, two relays, a verifier and four nodes: one is honest, one has rounded weights, one always
takes the likeliest token, one never answers. A further one joins in the midst of the run, and the first one leaves. At
the end, the run is trained again from its journal, which must give the same weights, and once more by a worker that is
trusted. It takes a few minutes on two processor cores; `make swarm` runs it with FOLDER = runs/swarm.
"""

import json
import re
import shutil
import sys
import time
from pathlib import Path

from cast import run
from parts import Swarm

from train.swarm.messages import SwarmStatus

HERE = Path(__file__).parent
NODES = {"ann": "", "quentin": "quantised", "greta": "greedy", "drew": "dropping"}  # the name, and how it cheats
LATER = "bea"
JOINS_AT, LEAVES_AT = 0.35, 0.6  # share of the steps after which bea joins, and ann leaves
LEASE_SECONDS = 20
SECONDS = 900.0
_WORTH_TELLING = re.compile(r"^step |joined|rejected|refuses|has left|run is over|published|Error")


def main(folder: Path) -> None:
    """Play it, and print what happened."""
    began = time.monotonic()
    settings = _prepared(folder)
    config = HERE / "swarm.toml"
    swarm = Swarm(folder / "swarm", lambda name, line: _tell(name, line, began))
    with swarm.cast:
        _start(swarm, config, settings, folder)
        status = _play(swarm)
    replay = run("train", str(swarm.run), "--replay", "--out", str(folder / "replay"), "--overwrite")
    _say("replay", replay.strip().splitlines()[-1], began)
    trusted = ["workers.local=true", 'workers.listen=""', *settings]
    run("train", str(config), "--out", str(folder / "trusted"), "--overwrite", *_changes(trusted))
    _table(swarm, status, replay, folder, time.monotonic() - began)


def _prepared(folder: Path) -> list[str]:
    """Write problems and model, calibrate the bars, and return the settings of the run."""
    from prepare import prepare

    shutil.rmtree(folder / "swarm", ignore_errors=True)
    prepare(folder)
    run("build-dataset", "--source", f"generic={folder / 'raw' / 'train.toml'}", "--out", str(folder / "data"),
        "--mutants", "0")  # fmt: skip
    data = folder / "data"
    settings = [f"model.path={folder / 'warm'}", f"data.dataset={data}", f"evaluation.dataset={data}"]
    run("swarm", "calibrate", str(HERE / "swarm.toml"), "--out", str(folder / "bars.toml"), *_changes(settings))
    return settings


def _start(swarm: Swarm, config: Path, settings: list[str], folder: Path) -> None:
    swarm.start_trainer(config, *settings)
    swarm.start_coordinator("--bars", str(folder / "bars.toml"), "--lease-seconds", str(LEASE_SECONDS))
    swarm.start_verifier()
    for name, cheat in NODES.items():
        swarm.start_node(name, cheat)


def _play(swarm: Swarm) -> SwarmStatus:
    """Let things happen until the run is over, and return what the coordinator saw last."""
    steps = _steps(HERE / "swarm.toml")
    status, leaves = None, False
    until = time.monotonic() + SECONDS
    while swarm.cast.is_alive("trainer"):
        if time.monotonic() > until:
            raise RuntimeError(f"the run is not over after {SECONDS:g} s; see {swarm.folder / 'logs'}")
        swarm.cast.listen()
        needed = ("coordinator", "verifier", "ann", LATER)
        if failed := [name for name in needed if name in swarm.cast.processes and swarm.cast.has_failed(name)]:
            raise RuntimeError(f"{failed[0]} has failed:\n{swarm.cast.said(failed[0])[-2000:]}")
        status = swarm.status() or status
        if swarm.steps() >= JOINS_AT * steps and LATER not in swarm.cast.processes:
            swarm.start_node(LATER)
        bea = None if status is None else swarm.node_in(status, LATER)
        if swarm.steps() >= LEAVES_AT * steps and not leaves and bea is not None and bea.accepted:
            leaves = True
            swarm.cast.leave("ann")
        time.sleep(0.5)
    swarm.cast.listen()
    if swarm.cast.processes["trainer"].returncode or status is None:
        raise RuntimeError(f"the trainer has failed:\n{swarm.cast.said('trainer')[-2000:]}")
    return swarm.status() or status


def _table(swarm: Swarm, status: SwarmStatus, replay: str, folder: Path, seconds: float) -> None:
    print(f"\n{'node':10} {'is':12} {'state':10} {'leases':>6} {'accepted':>8}  verdicts")
    for name, cheat in {**NODES, LATER: ""}.items():
        node = swarm.node_in(status, name)
        if node is not None:
            told = ", ".join(f"{n} {reason or 'accepted'}" for reason, n in node.reasons.items())
            print(f"{name:10} {cheat or 'honest':12} {node.state:10} {node.n_granted:>6} {node.accepted:>8}  {told}")
    before, after = _pass_at_1(swarm.run)
    _, trusted = _pass_at_1(folder / "trusted")
    print(f"\npass@1 before {before:.3f}, after {after:.3f}; after a trusted run {trusted:.3f}")
    print("the journal, trained again: " + ("the same weights" if "the same weights" in replay else "OTHER WEIGHTS"))
    print(f"{swarm.steps()} steps in {seconds / 60:.1f} minutes; everything is in {folder}")


def _pass_at_1(run: Path) -> tuple[float, float]:
    """Return pass@1 before the first step of a run, and after the last."""
    found = sorted((run / "evaluations" / "data").glob("step-*.json"))
    first, *_, last = (json.loads(path.read_text())["numbers"]["pass_at_1"] for path in found)
    return first, last


def _steps(config: Path) -> int:
    import tomllib

    return int(tomllib.loads(config.read_text())["run"]["steps"])


def _changes(settings: list[str]) -> list[str]:
    return [word for change in settings for word in ("--set", change)]


def _tell(name: str, line: str, began: float) -> None:
    if _WORTH_TELLING.search(line):
        _say(name, line, began)


def _say(name: str, line: str, began: float) -> None:
    print(f"{time.monotonic() - began:6.1f}  {name:12} {line[:110]}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/swarm"))
