"""A whole swarm on this machine:  python examples/swarm/swarm.py [FOLDER]

A trainer, a coordinator, two relays, a verifier and nodes. Three nodes cheat: one rounds its weights, one always takes
the most likely token, one never submits completions. When all three are banned or suspended, an honest node joins. A
second one joins later, and the first one leaves. Finally, a replay of the journal must give the same weights, and the
run is repeated with a trusted worker. The example takes a few minutes on two cores.

The exit status is 1 if a cheat is accepted, an honest node is rejected, or the weights differ.
"""

import json
import re
import shutil
import sys
import time
import tomllib
from pathlib import Path

from parts import Swarm
from processes import run

from train.run.model_card import MODEL_FOLDER, compute_weights_digest
from train.swarm.messages import SwarmStatus

HERE = Path(__file__).parent
CHEATS = {"quentin": "quantised", "greta": "greedy", "drew": "dropping"}  # kind of cheat by node name
HONEST = ("ann", "bea")
JOINS_AT, LEAVES_AT = 0.35, 0.6  # share of the steps after which bea joins, and ann leaves
MIN_LEASE_SECONDS = 20.0
_REPORTED_LINES = re.compile(r"^step |joined|rejected|refuses|has left|run is over|published|Error")


def main(folder: Path) -> None:
    """Run the example, and print its result. Exits with status 1 if an expectation is violated."""
    began = time.monotonic()
    settings, lease_seconds = _prepare(folder)
    config = HERE / "swarm.toml"
    swarm = Swarm(folder / "swarm", lambda name, line: _report(name, line, began))
    with swarm.processes:
        swarm.start_trainer(config, *settings)
        swarm.start_coordinator("--bars", str(folder / "bars.toml"), "--lease-seconds", f"{lease_seconds:.0f}")
        swarm.start_verifier()
        for name, cheat in CHEATS.items():
            swarm.start_node(name, cheat)
        status, detected = _run_nodes(swarm)
    replay = run("train", str(swarm.run), "--replay", "--out", str(folder / "replay"), "--overwrite")
    _print_line("replay", replay.strip().splitlines()[-1], began)
    trusted = ["workers.local=true", 'workers.listen=""', *settings]
    run("train", str(config), "--out", str(folder / "trusted"), "--overwrite", *_make_set_options(trusted))
    _print_table(swarm, status, folder, time.monotonic() - began)
    if faults := _find_faults(swarm, status, detected, folder / "replay"):
        sys.exit("\n".join(f"Error: {fault}" for fault in faults))


def _prepare(folder: Path) -> tuple[list[str], float]:
    """Write problems and model, and calibrate the thresholds. Return the run's settings and the seconds of a lease."""
    from prepare import prepare

    shutil.rmtree(folder / "swarm", ignore_errors=True)
    prepare(folder)
    run("build-dataset", "--source", f"generic={folder / 'raw' / 'train.toml'}", "--out", str(folder / "data"),
        "--mutants", "0")  # fmt: skip
    data = folder / "data"
    settings = [f"model.path={folder / 'warm'}", f"data.dataset={data}", f"evaluation.dataset={data}"]
    began = time.monotonic()
    run(
        "swarm", "calibrate", str(HERE / "swarm.toml"), "--out", str(folder / "bars.toml"), *_make_set_options(settings)
    )
    # The calibration started an engine and sampled eight groups, so its duration is ample for one lease.
    return settings, max(MIN_LEASE_SECONDS, time.monotonic() - began)


def _run_nodes(swarm: Swarm) -> tuple[SwarmStatus, set[str]]:
    """Start and stop nodes until the run ends. Return the coordinator's last status, and the detected cheats.

    Raises RuntimeError if a process fails unexpectedly.
    """
    ann, bea = HONEST
    steps = int(tomllib.loads((HERE / "swarm.toml").read_text())["run"]["steps"])
    processes, detected = swarm.processes, set[str]()
    status, has_left = None, False
    while processes.is_alive("trainer"):
        processes.report_output()
        exited = {name for name in CHEATS if processes.has_failed(name)}
        now = swarm.fetch_status()
        if now is not None:
            detected |= {name for name in CHEATS if _read_state(swarm, now, name) in ("banned", "suspended")}
        status = now or status
        needed = [name for name in ("coordinator", "verifier", *HONEST) if name in processes.by_name]
        failed = [name for name in needed if processes.has_failed(name)]
        failed += [] if now is None else sorted(exited - detected)
        if failed:
            raise RuntimeError(f"{failed[0]} has failed:\n{processes.read_output(failed[0])[-2000:]}")
        if ann not in processes.by_name and len(detected) == len(CHEATS):
            swarm.start_node(ann)
        if bea not in processes.by_name and ann in processes.by_name and swarm.count_steps() >= JOINS_AT * steps:
            swarm.start_node(bea)
        joined = None if status is None else swarm.find_node(status, bea)
        if swarm.count_steps() >= LEAVES_AT * steps and not has_left and joined is not None and joined.accepted:
            has_left = True
            processes.terminate(ann)
        time.sleep(0.5)
    processes.report_output()
    if processes.by_name["trainer"].returncode or status is None:
        raise RuntimeError(f"the trainer has failed:\n{processes.read_output('trainer')[-2000:]}")
    return swarm.fetch_status() or status, detected


def _find_faults(swarm: Swarm, status: SwarmStatus, detected: set[str], replay: Path) -> list[str]:
    """Return a message for each violated expectation."""
    faults = []
    for name, cheat in CHEATS.items():
        node = swarm.find_node(status, name)
        if name not in detected or node is None or node.state == "healthy" or node.accepted > 1:
            n_accepted = 0 if node is None else node.accepted
            faults.append(f"{name} cheats ({cheat}), but the coordinator accepted {n_accepted} leases")
    for name in HONEST:
        node = swarm.find_node(status, name)
        reasons = set(node.reasons) - {"", "late", "freed", "expired"} if node is not None else set()
        if node is None or reasons:
            faults.append(f"{name} is honest, but {'has not joined' if node is None else f'was rejected: {reasons}'}")
    if compute_weights_digest(swarm.run / MODEL_FOLDER) != compute_weights_digest(replay / MODEL_FOLDER):
        faults.append(f"a replay of the journal of {swarm.run} gives other weights: {replay}")
    return faults


def _read_state(swarm: Swarm, status: SwarmStatus, name: str) -> str:
    node = swarm.find_node(status, name)
    return "" if node is None else node.state


def _print_table(swarm: Swarm, status: SwarmStatus, folder: Path, seconds: float) -> None:
    print(f"\n{'node':10} {'is':12} {'state':10} {'leases':>6} {'accepted':>8}  verdicts")
    for name in (*CHEATS, *HONEST):
        node = swarm.find_node(status, name)
        if node is not None:
            verdicts = ", ".join(f"{n} {reason or 'accepted'}" for reason, n in node.reasons.items())
            kind = CHEATS.get(name, "honest")
            print(f"{name:10} {kind:12} {node.state:10} {node.n_granted:>6} {node.accepted:>8}  {verdicts}")
    before, after = _pass_at_1(swarm.run)
    _, trusted = _pass_at_1(folder / "trusted")
    print(f"\npass@1 before {before:.3f}, after {after:.3f}; after a trusted run {trusted:.3f}")
    print(f"{swarm.count_steps()} steps in {seconds / 60:.1f} minutes; everything is in {folder}")


def _pass_at_1(run: Path) -> tuple[float, float]:
    """Return pass@1 before the first step of a run, and after the last."""
    found = sorted((run / "evaluations" / "data").glob("step-*.json"))
    first, *_, last = (json.loads(path.read_text())["numbers"]["pass_at_1"] for path in found)
    return first, last


def _make_set_options(settings: list[str]) -> list[str]:
    return [word for change in settings for word in ("--set", change)]


def _report(name: str, line: str, began: float) -> None:
    if _REPORTED_LINES.search(line):
        _print_line(name, line, began)


def _print_line(name: str, line: str, began: float) -> None:
    print(f"{time.monotonic() - began:6.1f}  {name:12} {line[:110]}", flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/swarm"))
    except RuntimeError as error:
        sys.exit(f"Error: {error}")
