"""The section "Training"."""

from statistics import fmean, stdev
from typing import Any

from benchmarks.render.table import render_table

LEARN_LABELS = {"grpo_plus": "GRPO+", "grpo": "plain GRPO", "random": "GRPO+, random rewards"}
_INGREDIENT_STEPS = 30
_INGREDIENT_METRICS = ("last", "mean", "entropy", "length")
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}  # quantiles of 97.5% of Student's t, by number of values


def render_learn(measured: dict[str, Any]) -> str:
    """Return a table with a row for each run and a column for each step at which it was evaluated."""
    curves = measured["curves"]
    steps = sorted({step for by_seed in curves.values() for curve in by_seed.values() for step, _ in curve})
    rows = []
    for name, label in LEARN_LABELS.items():
        for seed, curve in curves.get(name, {}).items():
            values = dict(map(tuple, curve))
            rows.append([f"{label}, seed {seed}", *(f"{values[step]:.3f}" if step in values else "" for step in steps)])
    whole = [found for found in measured["models"].values() if len(found) == 2]
    minutes = " and ".join(f"{found['wall'] / 60:.1f}" for found in measured["seconds"].values())
    models = ", ".join(f"{found['before']:.3f} before and {found['after']:.3f} after" for found in whole)
    return render_table("lr", ["held-out pass@1 after steps", *map(str, steps)], rows) + (
        "\n\n`make learn`: a model of 850 thousand parameters, 256 completions per step,"
        " vLLM and sandbox included; 200 problems held out from warm-up and training, one completion each."
        + (f" With eight completions each: {models}." if models else "")
        + (f" A seed took {minutes} min, model and dataset included." if minutes else "")
        + f" Measured on {measured['machine']}."
    )


def render_trl(measured: dict[str, Any]) -> str:
    labels = {
        "curate": "`curate train`",
        "async": "`curate train`, asynchronous",
        "trl": f"TRL {measured['trl_version']}, GRPOTrainer",
    }
    rows = []
    for name, label in labels.items():
        found = measured[name]
        rate, cpu = found["tokens_per_second"], f"{found['cpu_seconds_per_step']:.2f}"
        ratio = f"{rate / measured['trl']['tokens_per_second']:.1f}"
        rows.append((label, measured["completions"], f"{rate:,.0f}", ratio, cpu, f"{found['pass_at_1']:.3f}"))
    heads = (
        "whole training steps", "completions per batch", "completion tokens per second", "times TRL",
        "CPU seconds a step", "held-out pass@1",
    )  # fmt: skip
    return render_table("lr", heads, rows) + (
        f"\n\nBefore, pass@1 was {measured['pass_at_1_before']:.3f}. The same model, batch, objective and rewards,"
        f" {measured['steps']} steps. On CPUs, TRL samples with transformers, `curate train` with vLLM. Measured on"
        f" {measured['machine']}."
    )


def render_memory(measured: dict[str, Any]) -> str:
    heads = ("all weights of", "longest completion", "GPUs per copy", "planned GB each", "taken", "published hardware")
    rows = (
        (row["model"], row["row"], row["gpus"], f"{row['planned']:.1f}", f"{row['measured']:.1f}", row["published"])
        for row in measured["rows"]
    )
    return render_table("lrrrrl", heads, rows) + (
        "\n\nMemory of the learner's weights, gradients, moments and longest row, without CUDA's own memory: as"
        " `curate train` plans it, and as its forward and backward pass allocate it on fake tensors, in FSDP2 over a"
        " fake process group."
    )


def render_gpu(measured: dict[str, Any]) -> str:
    """Return a row for each figure of `benchmarks/gpu.sh` that has a threshold."""
    rows = []
    for row in measured["figures"]:
        if row["value"] is not None and row["threshold"] != "-":
            value = row["value"] if isinstance(row["value"], str) else f"{row['value']:,.4g} {row['unit']}".strip()
            rows.append((row["check"], row["figure"].replace("_", " "), value, row["threshold"]))
    gpu = next(row["value"] for row in measured["figures"] if row["figure"] == "gpu")
    return render_table("llr", ("check", "figure", "measured", "threshold"), rows) + (
        f"\n\n`benchmarks/gpu.sh` on one {gpu}, with a random model of 1.5B in rows of 20,480 tokens, beside an engine "
        f"in vLLM on the same GPU. Measured on {measured['machine']}."
    )


def render_packing(measured: dict[str, Any]) -> str:
    labels = {
        "fixed, padded": "as many sequences as fit at their longest, padded",
        "fixed": "the same, one after another without padding",
        "dynamic": "packed by length (AReaL's dynamic micro-batches)",
        "learner": "the learner's rows, with one copy of each prompt",
    }
    rows = []
    for budget, found in measured["measured"].items():
        for name, label in labels.items():
            passes, tokens = found[name]["passes"], found[name]["tokens"]
            share = tokens / found["dynamic"]["tokens"]
            rows.append((label, f"{int(budget):,}", f"{passes:.0f}", f"{tokens:,.0f}", f"{share:.2f}"))
    small = measured["measured"]["32768"]
    fixed, dynamic = small["fixed"], small["dynamic"]
    pass_tokens = 0.3 * dynamic["tokens"] / (fixed["passes"] - 1.3 * dynamic["passes"])
    return render_table("lr", ("micro-batches", "token budget", "passes", "tokens computed", "of dynamic"), rows) + (
        "\n\nA minibatch has 512 completions of 9,000 tokens on average and at most 27,648, and prompts of 500"
        " tokens. Passes and tokens are counted, not timed: AReaL's gain of 30% would follow at 32,768 tokens if the"
        f" overhead of a pass were {pass_tokens:,.0f} tokens."
    )


def render_pipeline(measured: dict[str, Any]) -> str:
    stages, rows = measured["ways"]["stages"], []
    for name, found in measured["ways"].items():
        faster, math_faster = (stages[metric] / found[metric] for metric in ("step_seconds", "math_step_seconds"))
        rows.append((
            name, f"{found['step_seconds']:.2f}", f"{found['times_the_longer']:.2f}", f"{found['trainer_idle']:.0%}",
            f"{faster:.2f}", f"{found['math_step_seconds']:.2f}", f"{math_faster:.2f}",
        ))  # fmt: skip
    heads = (
        "pipeline", "seconds a step", "times the longer of sampling and training", "trainer idle",
        "faster than stages", "mathematics: seconds a step", "faster than stages",
    )  # fmt: skip
    return render_table("lr", heads, rows) + (
        "\n\nThe training loop of `curate train`, with an engine, rewards and a learner that only sleep:"
        f" {measured['sample_seconds']} s of sampling, {measured['reward_seconds']} s of rewards,"
        f" {measured['train_seconds']} s of training, a hundredth of the times that DeepCoder's authors report; see"
        " timeline.svg. `stages` scores completions only when all are sampled; rewards of mathematics take no time."
        f" DeepCoder's authors report 2x for code and 1.4x for mathematics. Measured on {measured['machine']}."
    )


def render_asynchrony(measured: dict[str, Any]) -> str:
    parts = (_render_real(measured["real"]), _render_simulated(measured), _render_published(measured["published"]))
    return "\n\n".join(parts)


def _render_real(real: dict[str, Any]) -> str:
    rows = []
    for name, run in real["runs"].items():
        seconds = run["seconds_to_goal"]
        goal = ("–", "–") if seconds is None else (run["steps_to_goal"], f"{seconds:.0f}")
        shares = (f"{run[share]:.0%}" for share in ("learner_idle_share", "engine_idle_share"))
        rows.append((
            name, f"{run['step_seconds']:.2f}", f"{run['predicted_step_seconds']:.2f}", *goal, *shares,
            f"{run['staleness_mean']:.1f}",
        ))  # fmt: skip
    heads = (
        "pipeline", "s per step", "simulated", "steps to the goal", "s to the goal", "idle learner", "idle engine",
        "staleness",
    )  # fmt: skip
    return render_table("lr", heads, rows) + (
        f"\n\nReal runs of `make learn`'s model, learner and engine on one core each; the engine sleeps"
        f" {1000 * real['sleep_seconds']:.0f} ms after each token. The goal is a held-out pass@1 of {real['goal']}."
        f" Measured on {real['machine']}."
    )


def _render_simulated(measured: dict[str, Any]) -> str:
    """Return the speed of each pipeline against the synchronous one, by model and number of GPUs, then by length."""
    by_model: dict[str, dict[tuple[str, str], float]] = {}  # model -> column, pipeline -> seconds of a step
    for name, found in measured["simulated"].items():
        if found is not None:
            model, column, pipeline = name.split(", ", 2)
            if pipeline.startswith("mean "):
                length, pipeline = pipeline.split(", ", 1)
                model, column = f"{model}, {column}", f"{length} tokens"
            by_model.setdefault(model, {})[column, pipeline] = found["outcome"]["step_seconds"]
    return "\n\n".join(_render_speeds(model, seconds) for model, seconds in by_model.items()) + (
        "\n\nSimulated with the controller of `curate train`, for batches of 2,048 completions on H100 GPUs: seconds"
        " of a synchronous step, and the speedup of the other pipelines. Steps are simulated until the error of their"
        " mean is below 5%; benchmarks/asynchrony/simulated.py has all assumptions."
    )


def _render_speeds(model: str, seconds: dict[tuple[str, str], float]) -> str:
    """Return a table with a row for each pipeline and a column for each number of GPUs, or each length."""
    columns = [column for column in dict.fromkeys(column for column, _ in seconds) if (column, "sync") in seconds]
    rows = []
    for pipeline in dict.fromkeys(pipeline for _, pipeline in seconds):
        rows.append([pipeline])
        for column in columns:
            base, own = seconds[column, "sync"], seconds.get((column, pipeline))
            rows[-1].append(f"{base:.0f} s" if pipeline == "sync" else f"{base / own:.2f}" if own else "")
    return render_table("lr", [model, *columns], rows)


def _render_published(published: dict[str, Any]) -> str:
    """Return AReaL's published numbers and the simulated ones for its batches."""
    rows = []
    for name, found in published.items():
        pairs = (found["published_seconds"], found["simulated_seconds"])
        seconds = (f"{sync:.0f}, {asynchronous:.0f} ({sync / asynchronous:.2f}x)" for sync, asynchronous in pairs)
        rows.append((name.removeprefix("table 1, "), found["gpus"], found["bound"], *seconds))
    return render_table("lr", ("AReaL, table 1", "GPUs", "bound", "s/step, sync and async", "simulated"), rows) + (
        "\n\nAReaL's batch has 512 x 16 completions. AReaL does not publish their lengths, so the simulation assumes"
        " them; AReaL's GPUs are H800, the simulated ones H100. So seconds agree worse than ratios. For the 32B, a"
        " quarter of the GPUs is too small a learner in the simulation."
    )


def render_ablation(measured: dict[str, Any]) -> str:
    """Return pass@1 at the end, by objective and bound on staleness."""
    results = measured["results"]
    rows, n_seeds = [], 0
    for objective, by_bound in results.items():
        rows.append([objective])
        for by_seed in by_bound.values():
            last = [result["pass@1"][-1][1] for result in by_seed.values()]
            n_seeds = max(n_seeds, len(last))
            rows[-1].append(f"{fmean(last):.3f} ({min(last):.3f} to {max(last):.3f})" if last else "")
    heads = ["held-out pass@1, by bound on staleness", *next(iter(results.values()))]
    return render_table("lr", heads, rows) + (
        f"\n\nAsynchronous `make learn`, {measured['steps']} steps, mean of {n_seeds} seeds (lowest and highest)."
        " The decoupled objective corrects for stale completions, the naive one does not; see staleness.svg."
        f" Measured on {measured['machine']}."
    )


def render_ingredients(measured: dict[str, Any]) -> str:
    """Return the effect of each change of a run: the mean over seeds and its 95% interval, by Student's t."""
    rows = []
    for limit, (base, *others) in ((limit, by_name.items()) for limit, by_name in measured["measured"].items()):
        name, base_by_seed = base
        means = [fmean(run[metric] for run in base_by_seed.values()) for metric in _INGREDIENT_METRICS]
        rows.append([f"**{limit}, {name}**", *(f"{mean:.3f}" for mean in means[:-1]), f"{means[-1]:.0f}"])
        for name, by_seed in others:
            ended = [run["steps"] for run in by_seed.values() if run["steps"] < _INGREDIENT_STEPS]
            rows.append([f"{name} (ended after {', '.join(map(str, ended))} steps)" if ended else name])
            for metric in _INGREDIENT_METRICS:
                differences = [run[metric] - base_by_seed[seed][metric] for seed, run in by_seed.items()]
                rows[-1].append(_render_difference(differences, digits=0 if metric == "length" else 3))
    heads = ("change", "pass@1 at the end", "mean pass@1", "entropy", "tokens per completion")
    return render_table("lr", heads, rows) + (
        f"\n\nProblems that need a chain of thought, {_INGREDIENT_STEPS} steps; a run ends early if no completion is"
        " right. Bold rows: the baselines, with at most 32 tokens (tight) or 96 (roomy). Rows below: the difference"
        f" that a change makes, as the mean of {len(base_by_seed)} seeds with its 95% interval, bold if the interval"
        " excludes zero. Mean pass@1 averages the evaluations after every fifth step, entropy the last ten steps."
        f" Measured on {measured['machine']}."
    )


def _render_difference(values: list[float], digits: int) -> str:
    half = _T[len(values)] * stdev(values) / len(values) ** 0.5
    text = f"{fmean(values):+.{digits}f} ± {half:.{digits}f}"
    return f"**{text}**" if abs(fmean(values)) > half else text


def render_weights(measured: dict[str, Any]) -> str:
    models = measured["models"].values()
    labels = {
        ("seconds", "publish"): "publish to memory, with checksums and digests",
        ("seconds", "fetch_http"): "fetch over HTTP on one machine",
        ("seconds", "load"): "load into vLLM",
        ("seconds", "prove"): "verify, by checksums of the loaded weights and by fixed tokens",
        ("while_sampling_seconds", "pause"): f"pause in sampling, with {measured['completions']} completions in flight",
        ("while_sampling_seconds", "first_token"): "from the manifest to the first token of the new weights",
    }
    rows = (
        (label, *(f"{1000 * found[part][name]:,.0f}" for found in models)) for (part, name), label in labels.items()
    )
    sizes = (f"{found['bytes'] / 1e6:,.0f} MB" for found in models)
    return render_table("lr", ["new weights in float32, ms", *sizes], rows) + (
        "\n\nCPU time of one core, median of six transfers. Verification unpacks the weights, because vLLM packs them"
        f" on CPUs, not on GPUs. Measured on {measured['machine']}."
    )


RENDERERS = {
    "learn": render_learn,
    "trl": render_trl,
    "memory": render_memory,
    "gpu": render_gpu,
    "packing": render_packing,
    "pipeline": render_pipeline,
    "asynchrony": render_asynchrony,
    "ablation": render_ablation,
    "ingredients": render_ingredients,
    "weights": render_weights,
}
