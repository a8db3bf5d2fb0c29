"""Render the results into the README and pages of docs/:  python -m benchmarks.render"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
_STEPS = 30  # of each run
_EFFECTS = ("last", "mean", "entropy", "length")
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}  # quantiles of 97.5% of Student's t, by number of values
BEGIN, END = "<!-- numbers: rendered by benchmarks/render.py, do not edit -->", "<!-- end of numbers -->"


def sandbox_table(measured: dict[str, Any]) -> str:
    latency, rate = measured["milliseconds"], measured["tests_per_second_and_core"]
    memory, crowd = measured["memory_mb"], measured["crowd"]
    rows = {
        "curate-code, full isolation, each of a submission's tests": ({"p50": latency["suite"]["p50"]}, rate["ours"]),
        "curate-code, full isolation, a submission with one test": (latency["ours"], None),
        "`subprocess`, bare `python -I`": (latency["subprocess"], rate["subprocess"]),
        "floor: bare `os.fork` of a warm interpreter": (latency["fork"], None),
    }
    lines = ["| one trivial test | p50 ms | p99 ms | tests per second and core |", "|---|---:|---:|---:|"]
    for name, (times, per_second) in rows.items():
        p99 = f"{times['p99']:.2f}" if "p99" in times else ""
        lines.append(f"| {name} | {times['p50']:.2f} | {p99} | {f'{per_second:.0f}' if per_second else ''} |")
    return "\n".join(lines) + (
        f"\n\n{crowd['submissions']} submissions at once, each needing a fifth of its time limit:"
        f" {crowd['false_time_limits']} false time limits. Memory: supervisor {memory['supervisor_rss']:.0f} MB"
        f" resident, each idle worker {memory['worker_pss']:.0f} MB (proportional set size of its three processes)."
        f" Measured on {measured['machine']}."
    )


def supervisor_table(measured: dict[str, Any]) -> str:
    lines = [
        "| workers of one process | judgements per second, `judge_many` | CPU µs | `judge` | CPU µs |",
        "|---:|---:|---:|---:|---:|",
    ]
    found = {(row["workers"], row["call"]): row for row in measured["rows"]}
    for workers in dict.fromkeys(row["workers"] for row in measured["rows"]):
        cells = [str(workers)]
        for call in ("judge_many", "judge"):
            row = found[workers, call]
            cells += [f"{row['per_second']:,.0f}", f"{row['cpu_microseconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + (
        f"\n\nSuites of {measured['cases']} cases; the workers only sleep {measured['sleep_seconds'] * 1e3:g} ms and"
        f" answer. CPU time is that of the process that hands out. Measured on {measured['machine']}."
    )


def calls_table(measured: dict[str, Any]) -> str:
    right, wrong = measured["right"], measured["wrong"]
    lines = ["| CPU seconds for call suites | curate-code | LiveCodeBench's grader | ratio |", "|---|---:|---:|---:|"]
    for name, part in (("right", right), ("wrong", wrong)):
        ours, theirs = (part["cpu_seconds"][who] for who in ("ours", "theirs"))
        lines.append(f"| {part['programs']:,} {name} programs | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
    return "\n".join(lines) + (
        f"\n\nThe right programs have {right['tests']:,} calls to pass. LiveCodeBench's grader runs programs in its own"
        f" process. The verdicts on {right['different']} right and {wrong['different']} wrong programs differ."
        f" Medians of {measured['rounds']} rounds. Measured on {measured['machine']}."
    )


def docker_table(measured: dict[str, Any]) -> str:
    latency, rate = measured["milliseconds"], measured["tests_per_second"]
    rows = {
        "docker backend, each of a submission's tests": (latency["docker_suite"], rate["docker"]),
        "docker backend, a submission with one test": (latency["docker"], None),
        "local backend, each of a submission's tests": (latency["local_suite"], rate["local"]),
        "local backend, a submission with one test": (latency["local"], None),
        "`docker run --rm` for each test": (latency["docker_run"], rate["docker_run"]),
    }
    cores = measured["cores"]
    lines = [f"| one trivial test | p50 ms | p99 ms | tests per second on {cores} cores |", "|---|---:|---:|---:|"]
    for name, (times, per_second) in rows.items():
        rated = f"{per_second:.0f}" if per_second else ""
        lines.append(f"| {name} | {times['p50']:.2f} | {times['p99']:.2f} | {rated} |")
    return "\n".join(lines) + f"\n\nMeasured on {measured['machine']}."


def service_line(measured: dict[str, Any]) -> str:
    run, crowd = measured["run_code"], measured["crowd"]
    same, new = run["same_program"], run["new_programs"]
    return (
        f"`/run_code` with {run['clients']} clients: {same['per_second']:.0f} runs per second of one program, p50"
        f" {same['milliseconds']['p50']:.0f} ms, p99 {same['milliseconds']['p99']:.0f} ms;"
        f" {new['per_second']:.0f} where each program is a new one (the same sandbox in process:"
        f" {same['in_process_before']:.0f} and {new['in_process_before']:.0f})."
        f" {crowd['clients']} clients with {crowd['submissions']:,} mixed submissions:"
        f" {crowd['false_time_limits']} false time limits, {sum(crowd['wrong_verdicts'].values())} wrong verdicts,"
        f" {crowd['leaked_processes']} processes left.{_hostile_line(measured.get('hostile'))}"
        f" Measured on {measured['machine']}."
    )


def _hostile_line(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return ""
    shares = {behaviour: found["share"] for behaviour, found in measured["behaviours"].items()}
    each = ", ".join(f"{behaviour} {share:.0%}" for behaviour, share in shares.items())
    return (
        f" Beside one hostile client, {measured['clients']} others get this share of what they get without it: {each}."
    )


def front_ends_table(measured: dict[str, Any]) -> str:
    alone = measured["dispatcher"]
    lines = [
        "| `curate serve --processes` | CPU µs of a request in the front end | in the dispatcher |",
        "|---:|---:|---:|",
    ]
    for row in measured["rows"]:
        cells = (row["front_end_cpu_microseconds"], row["dispatcher_cpu_microseconds"])
        lines.append(f"| {row['processes']} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    busiest = measured["rows"][-1]
    front_ends = busiest["processes"] * 1e6 / busiest["front_end_cpu_microseconds"]
    dispatcher = 1e6 / busiest["dispatcher_cpu_microseconds"], 1e6 / alone["cpu_microseconds"]
    return "\n".join(lines) + (
        f"\n\nRequests with one test to {measured['workers']} workers that only sleep"
        f" {measured['sleep_seconds'] * 1e3:g} ms and answer. Many requests at once cost the dispatcher less:"
        f" {alone['cpu_microseconds']:.0f} µs if one process sends what sixteen front ends would send"
        f" ({alone['per_second']:,.0f} requests per second on these cores, with a load of"
        f" {measured['load_before']:.0f} from other work)."
        f" So {busiest['processes']} front ends with a core each would be busy at"
        f" {front_ends:,.0f} requests per second, and the dispatcher at {dispatcher[0]:,.0f} to {dispatcher[1]:,.0f};"
        f" computed, not measured. Measured on {measured['machine']}."
    )


def ray_table(measured: dict[str, Any]) -> str:
    columns = list(measured["weak_scaling"][0])
    lines = ["| Ray: " + " | ".join(name.replace("_", " ") for name in columns) + " |", "|" + "---:|" * len(columns)]
    for row in measured["weak_scaling"]:
        lines.append("| " + " | ".join(f"{row[name]:.3g}" for name in columns) + " |")
    return "\n".join(lines) + (
        "\n\nWeak scaling, all nodes on this one machine, so with programs that sleep."
        f" Measured on {measured['machine']}."
    )


def soak_line(measured: dict[str, Any]) -> str:
    steady, deaths, restarts = measured["steady"], measured["deaths"], measured["restarts"]
    held = steady["held"]
    resident = held["supervisor RSS, MB"]
    grown = [name for name, ends in held.items() if not ends["flat"]]
    kills = sum(deaths["kills"].values()) + sum(restarts["kills"].values())
    mistakes = sum(len(part["mistakes"]) for part in (steady, deaths, restarts))
    submissions = deaths["submissions"] + restarts["records"]
    return (
        f"{steady['runs']:,} mixed runs (right, wrong, hostile) in one sandbox took {steady['seconds'] / 60:.0f} min"
        f" and {submissions:,} submissions more saw {kills} kills of worker, zygote or supervisor:"
        f" {mistakes} false, lost or doubled verdicts. Supervisor: {resident['first']:.0f} MB resident at the start,"
        f" {resident['last']:.0f} MB at the end. Grown: {', '.join(grown) or 'nothing'}, of {len(held)} things counted."
        f" Measured on {measured['machine']}."
    )


def build_tables(measured: dict[str, Any]) -> str:
    """Return a line about a build with programs, a table about synthetic rows, and one about a Ray cluster."""
    parts = []
    if programs := measured.get("programs"):
        found = programs["measured"]
        parts.append(
            f"`curate build-dataset` on {found['rows']} real problems of the three sources took"
            f" {found['wall_seconds']:.0f} s on {found['workers']} cores;"
            f" the programs it executed needed {found['executed_cpu_seconds']:.0f} s of CPU time:"
            f" wall time is {found['ratio']:.2f} times CPU time divided by cores. Measured on {programs['machine']}."
        )
        parts += [_funnel_table(found["funnel"]), _whole_recipe(found)] if "funnel" in found else []
    if rows := measured.get("rows"):
        lines = [
            "| made-up rows | cores | minutes | rows per second | peak MB | raw MB | MB on the way | dataset MB |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|",
            *(
                f"| {found['rows']:,} | {found['cores']} | {found['wall_seconds'] / 60:.1f}"
                f" | {found['rows_per_second']:,.0f} | {found['peak_mb']:,.0f} | {found['raw_mb']:,.0f}"
                f" | {found['work_mb']:,.0f} | {found['dataset_mb']:,.0f} |"
                for found in rows["measured"]
            ),
        ]
        about = f"`curate build-dataset` without programs. Measured on {rows['machine']}."
        parts += ["\n".join(lines), about]
    if ray := measured.get("ray"):
        lines = ["| Ray nodes | workers | rows per second | share of ideal |", "|---:|---:|---:|---:|"] + [
            f"| {found['nodes']} | {found['workers']} | {found['rows_per_second']:.1f}"
            f" | {found['share_of_ideal']:.2f} |"
            for found in ray["measured"]
        ]
        about = f"`curate build-dataset --backend ray` with solutions that sleep. Measured on {ray['machine']}."
        parts += ["\n".join(lines), about]
    return "\n\n".join(parts)


_DEEPCODER_ROWS = {"taco": 7436, "synthetic1": 16252, "livecodebench": 599}  # of its training set


def _funnel_table(funnel: dict[str, Any]) -> str:
    """Return the numbers of rows kept and rejected by source, and DeepCoder's number of rows."""
    stages = list(dict.fromkeys(stage for counts in funnel.values() for stage in counts["rejected"]))
    rejecting = " | ".join(f"rejected: {stage}" for stage in stages)
    lines = [
        f"| source | read | {rejecting} | kept | of read | of all kept | kept by DeepCoder | of all kept |",
        "|---" + "|---:" * (len(stages) + 6) + "|",
    ]
    n_ours, n_theirs = sum(counts["kept"] for counts in funnel.values()), sum(_DEEPCODER_ROWS.values())
    for source, counts in funnel.items():
        rejected = [sum(counts["rejected"].get(stage, {}).values()) for stage in stages]
        kept, theirs = counts["kept"], _DEEPCODER_ROWS[source]
        ours = [kept, f"{kept / counts['read']:.0%}", f"{kept / n_ours:.0%}"]
        cells = [source, counts["read"], *rejected, *ours, f"{theirs:,}", f"{theirs / n_theirs:.0%}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _whole_recipe(found: dict[str, Any]) -> str:
    """Extrapolate the measured costs to DeepCoder's training set."""
    funnel = found["funnel"].items()
    to_read = sum(_DEEPCODER_ROWS[source] * counts["read"] / counts["kept"] for source, counts in funnel)
    n_kept = sum(_DEEPCODER_ROWS.values())
    core_hours = found["wall_seconds"] * found["workers"] / found["rows"] * to_read / 3600
    work_gb = found["work_mb"] / found["rows"] * to_read / 1000
    dataset_gb = found["dataset_mb"] / found["kept"] * n_kept / 1000
    return (
        f"Extrapolated from these rows, not measured: DeepCoder's {n_kept:,} problems take {to_read:,.0f} rows to read"
        f" at these shares, {core_hours:.0f} core hours, {work_gb:.1f} GB of disk on the way and {dataset_gb:.2f} GB"
        " for the dataset. Rows with more or larger tests need more."
    )


def strength_table(measured: dict[str, Any]) -> str:
    groups = {
        "submissions": "submissions labelled wrong",
        "others": "mutants of another solution",
        "unseen": "mutants unseen by the choice",
    }
    ways = {"first": "the first", "longest": "longest", "blind": "drawn blindly", "strongest": "strongest"}
    budgets = ("3", "5", "8", "15")
    lines = [
        "| wrong programs let through by | " + " | ".join(f"{budget} tests" for budget in budgets) + " |",
        "|---" * (len(budgets) + 1) + "|",
    ]
    for group, name in groups.items():
        found = measured["wrong_programs"][group]["failing"]
        for way, words in ways.items():
            counts = " | ".join(f"{found['let_through'][way][budget]:.0f}" for budget in budgets)
            lines.append(f"| {words}, of {found['wrong_programs']} {name} | {counts} |")
    share = measured["share"]
    return "\n".join(lines) + (
        f"\n\nTest strength of {measured['measured']} real problems: {measured['killed']:,} of"
        f" {measured['mutants'] - measured['equivalent']:,} mutants rejected ({measured['equivalent']} more were"
        f" equivalent), median {share['median']:.2f}, lowest {share['least']:.2f},"
        f" {share['at_least_0.9']:.0%} of the problems at least 0.9. Measured on {measured['machine']}."
    )


_ENGINES = {
    "plain": "datasketch, a loop",
    "bulk": "datasketch, in bulk",
    "rensa": "rensa",
    "gaoya": "gaoya",
    "ours": "curate-code",
}


def dedup_table(measured: dict[str, Any]) -> str:
    lines = [
        "| near-duplicates of | with | documents per second of CPU | recall | precision | peak MB |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    machines = []
    for documents in sorted(measured, key=int):
        for engine, name in _ENGINES.items():
            if found := measured[documents].get(engine):
                machines.append(found["machine"])
                lines.append(
                    f"| {int(documents):,} | {name} | {found['documents_per_cpu_second']:,.0f} | {found['recall']:.4f}"
                    f" | {found['precision']:.4f} | {found['peak_mb']:,.0f} |"
                )
    return "\n".join(lines) + (
        "\n\nFrom text to clusters, on made-up statements, at a Jaccard similarity of 0.7 or more; benchmarks/dedup.py"
        f" says what is counted. Measured on {'; '.join(dict.fromkeys(machines))}."
    )


_LEARNT = {"grpo_plus": "GRPO+", "grpo": "plain GRPO", "random": "GRPO+, random rewards"}


def learn_table(measured: dict[str, Any]) -> str:
    """Return a table with a row for each run and a column for each step at which it was evaluated."""
    curves = measured["curves"]
    at = sorted({step for by_seed in curves.values() for known in by_seed.values() for step, _ in known})
    lines = [f"| held-out pass@1 after steps | {' | '.join(map(str, at))} |", "|---|" + "---:|" * len(at)]
    for name, label in _LEARNT.items():
        for seed, known in curves.get(name, {}).items():
            values = dict(map(tuple, known))
            cells = (f"{values[step]:.3f}" if step in values else "" for step in at)
            lines.append(f"| {label}, seed {seed} | {' | '.join(cells)} |")
    whole = [found for found in measured["models"].values() if len(found) == 2]
    minutes = " and ".join(f"{found['wall'] / 60:.1f}" for found in measured["seconds"].values())
    models = ", ".join(f"{found['before']:.3f} before and {found['after']:.3f} after" for found in whole)
    return "\n".join(lines) + (
        "\n\n`make learn`: a model of 850 thousand parameters, 256 answers a step,"
        " vLLM and sandbox included; 200 problems that neither"
        " warm-up nor training saw, one answer each."
        + (f" Over eight answers to each: {models}." if models else "")
        + (f" A seed took {minutes} min, model and dataset included." if minutes else "")
        + f" Measured on {measured['machine']}."
    )


def trl_table(measured: dict[str, Any]) -> str:
    other = f"TRL {measured['versions']['trl']}, GRPOTrainer"
    lines = [
        "| whole training steps | answers in a batch | completion tokens per second | times TRL | CPU seconds a step |"
        " held-out pass@1 |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for shape in measured["shapes"]:
        for name, label in (("curate", "`curate train`"), ("async", "`curate train`, asynchronous"), ("trl", other)):
            passed = f"{shape[name]['pass_at_1']:.3f}" if "pass_at_1" in shape[name] else ""
            rate = shape[name]["tokens_per_second"]
            ratio, cpu = shape[name]["ratio"], shape[name]["cpu_seconds_per_step"]
            lines.append(f"| {label} | {shape['answers']} | {rate:,.0f} | {ratio:.1f} | {cpu:.2f} | {passed} |")
    return "\n".join(lines) + (
        f"\n\nBefore, pass@1 was {measured['pass_at_1_before']:.3f}. The same model, batch,"
        f" objective and rewards, {measured['steps']} steps. On processors TRL samples with transformers, we with vLLM."
        f" Measured on {measured['machine']}."
    )


def packing_table(measured: dict[str, Any]) -> str:
    names = {
        "fixed, padded": "as many sequences as fit at their longest, padded",
        "fixed": "the same, one after another without padding",
        "dynamic": "packed by length (AReaL's dynamic micro-batches)",
        "learner": "the learner's rows, with one copy of a prompt for its answers",
    }
    lines = ["| micro-batches | tokens of one | passes | tokens computed | of dynamic |", "|---|---:|---:|---:|---:|"]
    for budget, ways in measured["measured"].items():
        for way, name in names.items():
            passes, tokens = ways[way]["passes"], ways[way]["tokens"]
            share = tokens / ways["dynamic"]["tokens"]
            lines.append(f"| {name} | {int(budget):,} | {passes:.0f} | {tokens:,.0f} | {share:.2f} |")
    small = measured["measured"]["32768"]
    fixed, dynamic = small["fixed"], small["dynamic"]
    pass_tokens = 0.3 * dynamic["tokens"] / (fixed["passes"] - 1.3 * dynamic["passes"])
    return "\n".join(lines) + (
        "\n\nA minibatch of 512 answers of 9,000 tokens on average, at most 27,648, to prompts of 500. Counted, not"
        f" timed: AReaL's 30% would follow at 32,768 tokens if a pass cost as much as {pass_tokens:,.0f} tokens more."
    )


def pipeline_table(measured: dict[str, Any]) -> str:
    lines = [
        "| pipeline | seconds a step | times the longer of sampling and training | trainer idle "
        "| faster than stages | mathematics: seconds a step | faster than stages |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    stages = measured["ways"]["stages"]
    for way, found in measured["ways"].items():
        faster, math_faster = (stages[name] / found[name] for name in ("step_seconds", "math_step_seconds"))
        lines.append(
            f"| {way} | {found['step_seconds']:.2f} | {found['times_the_longer']:.2f} | {found['trainer_idle']:.0%} "
            f"| {faster:.2f} | {found['math_step_seconds']:.2f} | {math_faster:.2f} |"
        )
    return "\n".join(lines) + (
        f"\n\nThe product's own loop with parts that only wait: {measured['sample_seconds']} s of sampling,"
        f" {measured['reward_seconds']} s of rewards, {measured['train_seconds']} s of training, a hundredth of what"
        " DeepCoder's authors report; see timeline.svg. `stages` scores answers only when all are sampled; rewards of"
        " mathematics take no time. DeepCoder's authors report 2x for code and 1.4x for mathematics. Measured on"
        f" {measured['machine']}."
    )


def memory_table(measured: dict[str, Any]) -> str:
    lines = [
        "| all weights of | longest answer | GPUs of one copy | planned GB each | taken | published hardware |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in measured["rows"]:
        lines.append(
            f"| {row['model']} | {row['row']} | {row['gpus']} | {row['planned']:.1f} | {row['measured']:.1f} "
            f"| {row['published']} |"
        )
    return "\n".join(lines) + (
        "\n\nThe learner's weights, gradients, moments and longest row, without CUDA's own memory: by the plan of "
        "`curate train`, and taken by its own forward and backward pass on tensors without data, in FSDP2 over a fake "
        "process group."
    )


def gpu_table(measured: dict[str, Any]) -> str:
    """Return a row for each figure of `benchmarks/gpu.sh` that has a bar."""
    lines = ["| check | figure | measured | bar |", "|---|---|---:|---:|"]
    for row in measured["figures"]:
        if row["value"] is not None and row["bar"] != "-":
            value = row["value"] if isinstance(row["value"], str) else f"{row['value']:,.4g} {row['unit']}".strip()
            lines.append(f"| {row['check']} | {row['figure'].replace('_', ' ')} | {value} | {row['bar']} |")
    gpu = next(row["value"] for row in measured["figures"] if row["figure"] == "gpu")
    return "\n".join(lines) + (
        f"\n\n`benchmarks/gpu.sh` on one {gpu}, with a random model of 1.5B in rows of 20,480 tokens, beside an engine "
        f"in vLLM on the same GPU. Measured on {measured['machine']}."
    )


def weights_table(measured: dict[str, Any]) -> str:
    names = {
        "publish": "published to memory, with checksums and digests",
        "fetch_http": "fetched over HTTP on one machine",
        "load": "loaded by vLLM",
        "prove": "proven, by checksums of what was loaded and by fixed tokens",
    }
    sizes = " | ".join(f"{found['bytes'] / 1e6:,.0f} MB" for found in measured["models"].values())
    lines = [f"| new weights in float32, ms | {sizes} |", "|---|" + "---:|" * len(measured["models"])]
    rows = [(label, [found["seconds"][name] for found in measured["models"].values()]) for name, label in names.items()]
    for name, label in (
        ("pause", f"no token is drawn, while {measured['answers']} answers run"),
        ("first_token", "from the manifest to the first token with them"),
    ):
        rows.append((label, [found["while_sampling_seconds"][name] for found in measured["models"].values()]))
    for label, seconds in rows:
        lines.append(f"| {label} | " + " | ".join(f"{1000 * each:,.0f}" for each in seconds) + " |")
    return "\n".join(lines) + (
        "\n\nCPU time of one core, median of six hand-overs. The proof reads back what vLLM has packed for a CPU; on"
        f" GPUs weights lie open. Measured on {measured['machine']}."
    )


def staleness_table(measured: dict[str, Any]) -> str:
    """Return pass@1 at the end, by objective and bound on staleness."""
    results = measured["results"]
    bounds = list(next(iter(results.values())))
    lines = [
        "| held-out pass@1, by bound on staleness | " + " | ".join(bounds) + " |",
        "|---|" + "---:|" * len(bounds),
    ]
    n_seeds = 0
    for objective, by_bound in results.items():
        cells = []
        for by_seed in by_bound.values():
            last = [result["pass@1"][-1][1] for result in by_seed.values()]
            n_seeds = max(n_seeds, len(last))
            cells.append(f"{fmean(last):.3f} ({min(last):.3f} to {max(last):.3f})" if last else "")
        lines.append(f"| {objective} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + (
        f"\n\nAsynchronous `make learn`, {measured['steps']} steps, mean of {n_seeds} seeds (lowest and highest)."
        " The naive objective against the decoupled one, which corrects for stale answers; see staleness.svg."
        f" Measured on {measured['machine']}."
    )


def ingredients_table(measured: dict[str, Any]) -> str:
    """Return the effect of each change of a run: the mean over seeds and its 95% interval, by Student's t."""
    lines = [
        "| change | pass@1 at the end | mean pass@1 | entropy | tokens of an answer |",
        "|---|---:|---:|---:|---:|",
    ]
    for limit, by_name in measured["measured"].items():
        first, *others = by_name.items()
        cells = [f"{fmean(of_seed[value] for of_seed in first[1].values()):.3f}" for value in _EFFECTS]
        cells[-1] = f"{float(cells[-1]):.0f}"
        lines.append(f"| **{limit}, {first[0]}** | {' | '.join(cells)} |")
        for name, by_seed in others:
            cells = []
            for value in _EFFECTS:
                differences = [of_seed[value] - first[1][seed][value] for seed, of_seed in by_seed.items()]
                cells.append(_difference(differences, digits=0 if value == "length" else 3))
            ended = [of_seed["steps"] for of_seed in by_seed.values() if of_seed["steps"] < _STEPS]
            early = f" (ended after {', '.join(map(str, ended))} steps)" if ended else ""
            lines.append(f"| {name}{early} | {' | '.join(cells)} |")
    n_seeds = len(first[1])
    return "\n".join(lines) + (
        f"\n\nProblems that take thinking aloud, {_STEPS} steps; a run ends early if no answer is right any more. Bold:"
        " the run as it is, with at most 32 tokens (tight) or 96 (roomy). Below it: what a change adds, the mean of"
        f" {n_seeds} seeds and its 95% interval, bold if zero is not in it. Mean pass@1 is of the evaluations after"
        f" every fifth step, entropy that of the last ten steps. Measured on {measured['machine']}."
    )


def _difference(values: list[float], digits: int) -> str:
    half = _T[len(values)] * stdev(values) / len(values) ** 0.5
    text = f"{fmean(values):+.{digits}f} ± {half:.{digits}f}"
    return f"**{text}**" if abs(fmean(values)) > half else text


def asynchrony_tables(measured: dict[str, Any]) -> str:
    """Return the tables of real and simulated runs that have been measured."""
    real = [_real_table(measured["real"])] if "real" in measured else []
    return "\n\n".join([*real, _simulated_tables(measured), _published_table(measured["published"])])


def _real_table(real: dict[str, Any]) -> str:
    lines = [
        "| pipeline | s per step | simulated | steps to the goal | s to the goal | idle learner | idle engine |"
        " staleness |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, run in real["runs"].items():
        goal = "|" if run["seconds_to_goal"] is None else f"{run['steps_to_goal']} | {run['seconds_to_goal']:.0f}"
        lines.append(
            f"| {name} | {run['step_seconds']:.2f} | {run['predicted_step_seconds']:.2f} | {goal}"
            f" | {run['learner_idle_share']:.0%} | {run['engine_idle_share']:.0%} | {run['staleness_mean']:.1f} |"
        )
    return "\n".join(lines) + (
        f"\n\nReal runs of `make learn`'s model, learner and engine on one core each; the engine sleeps"
        f" {1000 * real['sleep_seconds']:.0f} ms after each token. The goal is a held-out pass@1 of {real['goal']}."
        f" Measured on {real['machine']}."
    )


def _simulated_tables(measured: dict[str, Any]) -> str:
    """Return the speed of each pipeline against the synchronous one, by model and number of GPUs, then by length."""
    of_model: dict[str, dict[tuple[str, str], float]] = {}  # seconds by column and pipeline
    for name, found in measured["simulated"].items():
        if found is not None:
            model, column, way = name.split(", ", 2)
            if way.startswith("mean "):
                length, way = way.split(", ", 1)
                model, column = f"{model}, {column}", f"{length} tokens"
            of_model.setdefault(model, {})[column, way] = found["outcome"]["step_seconds"]
    return "\n\n".join(_speeds(model, seconds) for model, seconds in of_model.items()) + (
        "\n\nSimulated with the product's controller: seconds of a synchronous step, and the speed of the others"
        " compared with it, for batches of 2,048 answers. Steps are measured until they are known to 5%. The GPUs are"
        " H100; benchmarks/asynchrony/simulated.py has all assumptions."
    )


def _published_table(published: dict[str, Any]) -> str:
    """Return AReaL's published numbers and the simulated ones for its batches."""
    lines = ["| AReaL, table 1 | GPUs | bound | s/step, sync and async | simulated |", "|---|---:|---:|---:|---:|"]
    for name, found in published.items():
        if name.startswith("table 1, "):
            cells = [name.removeprefix("table 1, "), str(found["gpus"]), str(found["bound"])]
            for before, after in (found["published_seconds"], found["simulated_seconds"]):
                cells.append(f"{before:.0f}, {after:.0f} ({before / after:.2f}x)")
            lines.append(f"| {' | '.join(cells)} |")
    intellect = published["INTELLECT-2"]
    minutes = ", ".join(f"{intellect['step_minutes'][bound]:.0f} with {bound}" for bound in ("0", "1", "2"))
    return "\n".join(lines) + (
        "\n\nAReaL's batch has 512 x 16 answers. Their lengths are not published, and guessed here; the GPUs are H800,"
        " and H100 in the simulation. So seconds agree worse than ratios. For the 32B, a quarter of the GPUs is too"
        " small a learner in the simulation. Minutes of a step of INTELLECT-2 by bound of staleness, simulated:"
        f" {minutes}. Published: the trainer never waits with 2, and a step takes 22."
    )


def _speeds(model: str, seconds: dict[tuple[str, str], float]) -> str:
    """Return a table with a row for each pipeline and a column for each number of GPUs, or each length."""
    columns = [column for column in dict.fromkeys(column for column, _ in seconds) if (column, "sync") in seconds]
    lines = [f"| {model} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for way in dict.fromkeys(way for _, way in seconds):
        cells = []
        for column in columns:
            base, own = seconds[column, "sync"], seconds.get((column, way))
            cells.append(f"{base:.0f} s" if way == "sync" else f"{base / own:.2f}" if own else "")
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def broadcast_tables(measured: dict[str, Any]) -> str:
    """Return the speed of weights through throttled relays, and through chains of them."""
    lines = [
        "| 256 MB from relays of 20, 40 and 80 MB/s | ideal, s | median, s | share of ideal |",
        "|---|---:|---:|---:|",
    ]
    for relays, by_client in measured["three"].items():
        for client, found in by_client.items():
            name = f"{client.replace('ours', 'curate-code')}, {relays.replace('honest', 'all honest')}"
            if "failed" in found:
                lines.append(f"| {name} | | failed {found['failed']} times of {found['of']} | |")
                continue
            lines.append(
                f"| {name} | {measured['megabytes'] / found['ideal']:.2f} | {found['median_seconds']:.2f}"
                f" | {found['share_of_ideal']:.0%} |"
            )
    chain = measured["chain"]
    hops = "; ".join(
        f"{n}: {found['median_seconds']:.2f} s ({found['predicted_seconds']:.2f})" for n, found in chain["hops"].items()
    )
    return "\n".join(lines) + (
        f"\n\nMedians of {measured['rounds']} rounds. {chain['megabytes']:.0f} MB through a chain of relays of"
        f" {chain['megabytes_per_second']} MB/s, in shards of 1 MiB, by the number of relays, and in brackets"
        f" size / bandwidth + (relays - 1) x shard / bandwidth: {hops}. Measured on {measured['machine']}."
    )


def delta_table(measured: dict[str, Any]) -> str:
    """Return the size of differences between versions, by learning rate."""
    lines = [
        "| learning rate | weights that change | bytes sent | minutes for INTELLECT-2's 65.6 GB | made, MB/s |"
        " put together, MB/s |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for rate, found in measured["learning_rates"].items():
        lines.append(
            f"| {rate} | {found['changed_share']:.1%} | {found['bytes_share']:.1%}"
            f" | {found['minutes_at_intellect_2']:.1f} | {found['make_megabytes_per_second']:,.0f}"
            f" | {found['apply_megabytes_per_second']:,.0f} |"
        )
    return "\n".join(lines) + (
        f"\n\nA model of {measured['weights']:,} weights that is really trained, {measured['updates_per_version']}"
        " updates of Adam for each version, compared in bfloat16. Whole versions would take"
        f" {measured['whole_minutes_at_intellect_2']:.1f} minutes at 590 Mb/s; above 35% of the bytes a version is sent"
        f" whole. One core. Measured on {measured['machine']}."
    )


def overlap_table(measured: dict[str, Any]) -> str:
    """Return the idle time of a swarm's trainer, by bound on staleness, with whole broadcasts and with deltas."""
    cases = measured["cases"]
    bounds = list(next(iter(cases.values()))["whole"]["bounds"])
    columns = [f"{way}, bound {bound}" for way in ("whole", "deltas") for bound in bounds]
    lines = [f"| share of time in which the trainer waits | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    alike = cases["nodes alike"]
    for name, of_case in (("by the formula", alike), *cases.items()):
        value = "formula_idle" if name == "by the formula" else "trainer_idle"
        shares = (of_case[way]["bounds"][bound][value] for way in ("whole", "deltas") for bound in bounds)
        lines.append(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    ring, swarm = alike["whole"]["ring"], cases["100 nodes, a usual group takes 22 min"]["whole"]["swarm"]
    return "\n".join(lines) + (
        f"\n\nINTELLECT-2's outer ring on a simulated clock: broadcasts of {ring['broadcast'] / 60:.0f} min, or"
        f" {alike['deltas']['ring']['broadcast']:.0f} s with deltas; {ring['upload'] / 60:.0f} min each to upload and"
        f" to verify a file; steps of {ring['step'] / 60:.0f} min. Where nodes are not alike, their speeds are"
        f" log-normal (sigma {swarm['speed_sigma']}), a group is given to another node after twice the time of a"
        f" usual one, and {swarm['churn']:.0%} of the nodes vanish in an hour. Means of {measured['seeds']} seeds;"
        " benchmarks/swarm/overlap.py has all assumptions."
    )


def verification_tables(measured: dict[str, Any]) -> str:
    """Return the rejected leases, and the undetected changes within the thresholds, by the precision of both sides."""
    pairs = measured["pairs"]
    heads = ("rejected", "banned", "wrong of 1,000")
    lines = [
        "| leases, both sides in | " + " | ".join(f"{pair}: {head}" for pair in pairs for head in heads) + " |",
        "|---|" + "---:|" * (len(heads) * len(pairs)),
    ]
    for case in next(iter(pairs.values()))["cases"]:
        cells = [cell for pair in pairs.values() for cell in _outcomes(pair["cases"][case], is_honest=case == "honest")]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    sizes = next(iter(pairs.values()))["turns"]
    lines += [
        "",
        "| of 1,000 tokens, both sides in | that rounding turns | limit of a margin, nats | nearer ties |"
        + "".join(f" a cheat turns, {size} |" for size in sizes),
        "|---|" + "---:|" * (3 + len(sizes)),
    ]
    for name, pair in pairs.items():
        cells = [f"{pair['honest_turns']:.2g}", f"{pair['bars']['margins']['limit']:.2g}", f"{pair['near_ties']:.3g}"]
        lines.append(f"| {name} | " + " | ".join([*cells, *(f"{pair['turns'][size]:.2g}" for size in sizes)]) + " |")
    costs = measured["costs"]
    shares = ", ".join(f"{pair['verification_share']:.0%} in {name}" for name, pair in pairs.items())
    modelled = ", ".join(f"{of['verification_share']:.0%} for {name}" for name, of in measured["modelled"].items())
    spread = next(iter(pairs.values()))["spread"]
    return "\n".join(lines) + (
        f"\n\nA random model of width 256, whose mean of 1 - Σp² is {spread:.2f}; leases of {measured['lease']}, drawn"
        f" by vLLM and verified by transformers, at bars from {measured['calibration_leases']} other leases. Wrong are"
        " honest leases that are rejected, and others that are accepted: at most so many, with a confidence of 95%."
        " Weights that are one step old are as good as right ones if the step was small. A cheat that knows the bars"
        " takes the second best token where it is nearest to the best one, in leases of so many answers x tokens. A"
        f" commitment takes {costs['commit_us']:.0f} µs and {costs['bytes_a_token']:.1f} bytes a token (width 5,120),"
        f" comparing it {costs['compare_us']:.0f} µs, noise for 152,000 tokens {costs['noise_us'] / 1000:.1f} ms on one"
        f" core of a CPU. Verifying these answers took {shares} of the time of drawing them, because a CPU does not"
        f" draw more slowly than it reads. By the data sheet of a GPU it takes {modelled}."
        f" Measured on {measured['machine']}."
    )


def _outcomes(case: dict[str, Any], *, is_honest: bool) -> Iterator[str]:
    """Yield the cells of a case."""
    yield f"{case['rejected']} of {case['leases']}"
    yield f"{case['banned']}"
    at_most = case["rejected_at_most" if is_honest else "accepted_at_most"]
    yield f"≤ {at_most:,.{0 if at_most >= 10 else 1}f}"


Tables = tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]

_JUDGE: Tables = (
    ("sandbox", sandbox_table),
    ("supervisor", supervisor_table),
    ("calls", calls_table),
    ("docker", docker_table),
    ("ray", ray_table),
    ("service", service_line),
    ("front_ends", front_ends_table),
    ("soak", soak_line),
)
_CURATION: Tables = (
    ("build", build_tables),
    ("strength", strength_table),
    ("dedup", dedup_table),
)


def coordinator_line(measured: dict[str, Any]) -> str:
    beats, leases, alone = measured["beats"], measured["leases"], measured["cryptography"]
    return (
        f"One coordinator with {measured['nodes']:,} nodes: {measured['fastest']['per_second']:,.0f} signed requests"
        f" per second over {measured['connections']} connections (signatures alone allow"
        f" {alone['checked_per_second']:,.0f} on a core); {beats['per_second']:.0f} beats per second, which is what so"
        f" many nodes send, take {beats['share_of_a_core']:.0%} of a core, median {beats['median_ms']:.1f} ms, p99"
        f" {beats['p99_ms']:.0f} ms; {leases['per_second']:.0f} leases per second from the request to the verdict, with"
        f" files of {leases['file_bytes'] / 1000:.0f} KB and the ledger on the disk. Measured on {measured['machine']}."
    )


_SWARM: Tables = (
    ("overlap", overlap_table),
    ("broadcast", broadcast_tables),
    ("delta", delta_table),
    ("verification", verification_tables),
    ("coordinator", coordinator_line),
)
_TRAINING: Tables = (
    ("learn", learn_table),
    ("trl", trl_table),
    ("memory", memory_table),
    ("gpu", gpu_table),
    ("packing", packing_table),
    ("pipeline", pipeline_table),
    ("asynchrony", asynchrony_tables),
    ("ablation", staleness_table),
    ("ingredients", ingredients_table),
    ("weights", weights_table),
)


def all_numbers() -> Iterator[str]:
    """Yield the parts of docs/numbers.md for which there are results."""
    for heading, tables in (
        ("The judge", _JUDGE),
        ("Curation", _CURATION),
        ("Training", _TRAINING),
        ("The swarm", _SWARM),
    ):
        yield f"## {heading}"
        for name, render in tables:
            if (path := RESULTS / f"{name}.json").exists():
                yield render(json.loads(path.read_text()))


def chosen_numbers() -> Iterator[str]:
    """Yield the README's table. All its results must exist."""
    judge, soak, strength, dedup, learn, asynchrony = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("sandbox", "soak", "strength", "dedup", "learn", "asynchrony")
    )
    milliseconds = judge["milliseconds"]
    mistakes = sum(len(soak[part]["mistakes"]) for part in ("steady", "deaths", "restarts"))
    kills = sum(sum(soak[part]["kills"].values()) for part in ("deaths", "restarts"))
    unseen = strength["wrong_programs"]["unseen"]["failing"]
    statements = max(dedup, key=int)
    duplicates = dedup[statements]["ours"]
    curve = learn["curves"]["grpo_plus"]["0"]
    real = asynchrony["real"]
    to_goal = {name: real["runs"][name]["seconds_to_goal"] for name in ("sync", "async-2")}
    rows = (
        (
            "one test of a trivial program, fully isolated",
            f"{milliseconds['suite']['p50']:.1f} ms (a bare `python -I`: {milliseconds['subprocess']['p50']:.0f} ms)",
            judge,
        ),
        (f"false, lost or doubled verdicts in {soak['steady']['runs']:,} runs and {kills} kills", f"{mistakes}", soak),
        (
            f"of {unseen['wrong_programs']:,} wrong programs, let through by the 8 strongest tests of a problem",
            f"{unseen['let_through']['strongest']['8']:.0f} (by its 8 longest: "
            f"{unseen['let_through']['longest']['8']:.0f})",
            strength,
        ),
        (
            f"recall and precision of near-duplicates among {int(statements):,} statements",
            f"{duplicates['recall']:.4f} and {duplicates['precision']:.4f}",
            duplicates,
        ),
        (
            f"held-out pass@1 before and after {curve[-1][0]} steps of `make learn`",
            f"{curve[0][1]:.2f} and {curve[-1][1]:.2f}",
            learn,
        ),
        (
            f"time until that is {real['goal']}, with an engine that sleeps {1000 * real['sleep_seconds']:.0f} ms for"
            " each token",
            f"synchronous {to_goal['sync']:.0f} s, asynchronous {to_goal['async-2']:.0f} s",
            real,
        ),
    )
    lines = ["| what | measured | on 2 cores, date |", "|---|---|---|"]
    for what, measured, result in rows:
        processor, *_, date = result["machine"].removeprefix("2 cores of ").split(", ")
        lines.append(f"| {what} | {measured} | {processor.replace('(R)', '').replace(' Processor', '')}, {date} |")
    yield "\n".join(lines)


def coverage_tables() -> Iterator[str]:
    """Yield the tables of the coverage of intervals, and of false significance between equal models."""
    measured = json.loads((RESULTS / "intervals.json").read_text())
    lines = [
        "| problems | samples of each | pass@1: mean | lowest | usual interval, lowest | difference: mean | lowest |"
        " usual interval, lowest |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for problems, by_samples in measured["single"].items():
        for samples, single in by_samples.items():
            cells = [problems, samples]
            for found in (single, measured["paired"][problems][samples]):
                cells += [f"{found['mean']:.1%}", f"{found['min']:.1%}", f"{found['usual']['min']:.1%}"]
            lines.append(f"| {' | '.join(cells)} |")
    settings = [measured[kind][problems]["8"]["settings"] for kind in ("single", "paired")]
    yield "\n".join(lines) + (
        f"\n\nHow often 95% intervals hold: mean and lowest share over {settings[0]} settings of one model and"
        f" {settings[1]} of two; {measured['repeats']:,} evaluations of each setting."
    )
    lines = ["| models | 100 problems, one sample | 30 problems, 8 samples |", "|---|---:|---:|"]
    for name, by_samples in measured["selection"].items():
        lines.append(f"| {name} | {by_samples['1']['false']:.1%} | {by_samples['8']['false']:.1%} |")
    yield "\n".join(lines) + (
        "\n\nHow often one of the best models is significantly worse than the one that came out best."
        f" Measured on {measured['machine']}."
    )


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": chosen_numbers,
    "docs/numbers.md": all_numbers,
    "docs/concepts/errors-of-evaluations.md": coverage_tables,
}


def rendered(page: str, parts: Callable[[], Iterator[str]]) -> str:
    """Return the text of the page, with these parts between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + f"{BEGIN}\n" + "\n\n".join(parts()) + f"\n{END}" + rest.partition(END)[2]


def main() -> None:
    for name, parts in PAGES.items():
        page = HERE.parent / name
        page.write_text(rendered(page.read_text(), parts))


if __name__ == "__main__":
    main()
