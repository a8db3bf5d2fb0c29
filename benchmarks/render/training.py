"""The section "Training", and the tables of docs/concepts/errors-of-evaluations.md."""

from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any

from benchmarks.render.table import join_cells, render_table

LEARN_LABELS = {"grpo_plus": "GRPO+", "grpo": "plain GRPO", "random": "GRPO+, random rewards"}
_INGREDIENT_STEPS = 30
_INGREDIENT_DIGITS = {"last": 3, "mean": 3, "entropy": 3, "length": 0}  # by metric
_T = 4.303  # quantile of 97.5% of Student's t with three seeds


def render_learn(measured: dict[str, Any]) -> Iterator[str]:
    """Yield a table with a row for each run and a column for each step at which it was evaluated."""
    rows = [
        join_cells(f"{label}, seed {seed}", *(f"{passed:.3f}" for _, passed in curve))
        for name, label in LEARN_LABELS.items()
        for seed, curve in measured["curves"][name].items()
    ]
    steps = (step for step, _ in measured["curves"]["grpo_plus"]["0"])
    minutes = " and ".join(f"{seconds['wall'] / 60:.1f}" for seconds in measured["seconds"].values())
    models = ", ".join(
        f"{found['before']:.3f} before and {found['after']:.3f} after" for found in measured["models"].values()
    )
    yield render_table(join_cells("held-out pass@1 after steps", *steps), rows)
    yield (
        "`make learn`: a model of 850 thousand parameters, 256 completions per step,"
        " vLLM and sandbox included; 200 problems held out from warm-up and training, one completion each."
        f" With eight completions each: {models}. A seed took {minutes} min, model and dataset included."
    )


def render_trl(measured: dict[str, Any]) -> Iterator[str]:
    labels = {
        "curate": "`curate train`",
        "async": "`curate train`, asynchronous",
        "trl": f"TRL {measured['trl_version']}, GRPOTrainer",
    }
    rows = []
    for name, label in labels.items():
        found, rate = measured[name], measured[name]["tokens_per_second"]
        ratio = rate / measured["trl"]["tokens_per_second"]
        rows.append(
            f"{label} | {measured['completions']} | {rate:,.0f} | {ratio:.1f} | {found['cpu_seconds_per_step']:.2f} |"
            f" {found['pass_at_1']:.3f}"
        )
    heads = (
        "whole training steps | completions per batch | completion tokens per second | times TRL | CPU seconds a step |"
        " held-out pass@1"
    )
    yield render_table(heads, rows)
    yield (
        f"Before, pass@1 was {measured['pass_at_1_before']:.3f}. The same model, batch, objective and rewards,"
        f" {measured['steps']} steps. On CPUs, TRL samples with transformers, `curate train` with vLLM."
    )


def render_memory(measured: dict[str, Any]) -> Iterator[str]:
    heads = "all weights of | longest completion | GPUs per copy | planned GB each | taken | published hardware"
    rows = (
        f"{row['model']} | {row['row']} | {row['gpus']} | {row['planned']:.1f} | {row['measured']:.1f} |"
        f" {row['published']}"
        for row in measured["rows"]
    )
    yield render_table(heads, rows, "lrrrrl")
    yield (
        "Memory of the learner's weights, gradients, moments and longest row, without CUDA's own memory: as"
        " `curate train` plans it, and as its forward and backward pass allocate it on fake tensors, in FSDP2 over a"
        " fake process group."
    )


def render_gpu(measured: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each figure of `benchmarks/gpu.sh` that has a threshold."""
    rows = []
    for row in measured["figures"]:
        if row["value"] is not None and row["threshold"] != "-":
            value = row["value"] if isinstance(row["value"], str) else f"{row['value']:,.4g} {row['unit']}".strip()
            rows.append(f"{row['check']} | {row['figure'].replace('_', ' ')} | {value} | {row['threshold']}")
    gpu = next(row["value"] for row in measured["figures"] if row["figure"] == "gpu")
    yield render_table("check | figure | measured | threshold", rows, "llr")
    yield (
        f"`benchmarks/gpu.sh` on one {gpu}, with a random model of 1.5B in rows of 20,480 tokens, with an engine in"
        " vLLM on the same GPU."
    )


def render_packing(measured: dict[str, Any]) -> Iterator[str]:
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
            rows.append(f"{label} | {int(budget):,} | {passes:.0f} | {tokens:,.0f} | {share:.2f}")
    fixed, dynamic = (measured["measured"]["32768"][name] for name in ("fixed", "dynamic"))
    pass_tokens = 0.3 * dynamic["tokens"] / (fixed["passes"] - 1.3 * dynamic["passes"])
    yield render_table("micro-batches | token budget | passes | tokens computed | of dynamic", rows)
    yield (
        "A minibatch has 512 completions of 9,000 tokens on average and at most 27,648, and prompts of 500"
        " tokens. Passes and tokens are counted, not timed: AReaL's gain of 30% would follow at 32,768 tokens if the"
        f" overhead of a pass were {pass_tokens:,.0f} tokens."
    )


def render_pipeline(measured: dict[str, Any]) -> Iterator[str]:
    stages, rows = measured["ways"]["stages"], []
    for name, found in measured["ways"].items():
        faster, math_faster = (stages[metric] / found[metric] for metric in ("step_seconds", "math_step_seconds"))
        rows.append(
            f"{name} | {found['step_seconds']:.2f} | {found['times_the_longer']:.2f} | {found['trainer_idle']:.0%} |"
            f" {faster:.2f} | {found['math_step_seconds']:.2f} | {math_faster:.2f}"
        )
    heads = (
        "pipeline | seconds a step | times the longer of sampling and training | trainer idle | faster than stages |"
        " mathematics: seconds a step | faster than stages"
    )
    yield render_table(heads, rows)
    yield (
        "The training loop of `curate train`, with an engine, rewards and a learner that only sleep:"
        f" {measured['sample_seconds']} s of sampling, {measured['reward_seconds']} s of rewards,"
        f" {measured['train_seconds']} s of training, a hundredth of the times that DeepCoder's authors report; see"
        " timeline.svg. `stages` scores completions only when all are sampled; rewards of mathematics take no time."
        " DeepCoder's authors report 2x for code and 1.4x for mathematics."
    )


def render_asynchrony(measured: dict[str, Any]) -> Iterator[str]:
    yield from _render_real(measured["real"])
    yield from _render_simulated(measured["simulated"])
    yield from _render_published(measured["published"])


def _render_real(real: dict[str, Any]) -> Iterator[str]:
    rows = []
    for name, run in real["runs"].items():
        seconds = run["seconds_to_goal"]
        goal = "– | –" if seconds is None else f"{run['steps_to_goal']} | {seconds:.0f}"
        rows.append(
            f"{name} | {run['step_seconds']:.2f} | {run['predicted_step_seconds']:.2f} | {goal} |"
            f" {run['learner_idle_share']:.0%} | {run['engine_idle_share']:.0%} | {run['staleness_mean']:.1f}"
        )
    heads = (
        "pipeline | s per step | simulated | steps to the goal | s to the goal | idle learner | idle engine | staleness"
    )
    yield render_table(heads, rows)
    yield (
        "Real runs of `make learn`'s model, learner and engine on one core each; the engine sleeps"
        f" {1000 * real['sleep_seconds']:.0f} ms after each token. The goal is a held-out pass@1 of {real['goal']}."
        f" Measured on {real['machine']}."
    )


def _render_simulated(simulated: dict[str, Any]) -> Iterator[str]:
    """Yield the speed of each pipeline against the synchronous one, by model and number of GPUs, then by length."""
    by_model: dict[str, dict[str, dict[str, float]]] = {}  # seconds of a step, by model, pipeline and column
    for name, found in simulated.items():
        model, column, pipeline = name.split(", ", 2)
        if pipeline.startswith("mean "):
            length, pipeline = pipeline.split(", ", 1)
            model, column = f"{model}, {column}", f"{length} tokens"
        by_model.setdefault(model, {}).setdefault(pipeline, {})[column] = found["outcome"]["step_seconds"]
    for model, by_pipeline in by_model.items():
        sync = by_pipeline.pop("sync")
        rows = [join_cells("sync", *(f"{seconds:.0f} s" for seconds in sync.values()))]
        for pipeline, by_column in by_pipeline.items():
            rows.append(
                join_cells(pipeline, *(f"{sync[column] / seconds:.2f}" for column, seconds in by_column.items()))
            )
        yield render_table(join_cells(model, *sync), rows)
    yield (
        "Simulated with the controller of `curate train`, for batches of 2,048 completions on H100 GPUs: seconds"
        " of a synchronous step, and the speedup of the other pipelines. Steps are simulated until the error of their"
        " mean is below 5%; benchmarks/asynchrony/simulated.py has all assumptions."
    )


def _render_published(published: dict[str, Any]) -> Iterator[str]:
    """Yield AReaL's published numbers and the simulated ones for its batches."""
    rows = []
    for name, found in published.items():
        pairs = (found["published_seconds"], found["simulated_seconds"])
        seconds = (f"{sync:.0f}, {asynchronous:.0f} ({sync / asynchronous:.2f}x)" for sync, asynchronous in pairs)
        rows.append(join_cells(name.removeprefix("table 1, "), found["gpus"], found["bound"], *seconds))
    yield render_table("AReaL, table 1 | GPUs | bound | s/step, sync and async | simulated", rows)
    yield (
        "AReaL's batch has 512 x 16 completions. AReaL does not publish their lengths, so the simulation assumes"
        " them; AReaL's GPUs are H800, the simulated ones H100. So seconds agree worse than ratios. For the 32B, a"
        " quarter of the GPUs is too small a learner in the simulation."
    )


def render_ablation(measured: dict[str, Any]) -> Iterator[str]:
    """Yield pass@1 at the end, by objective and bound on staleness."""
    rows = []
    for objective, by_bound in measured["results"].items():
        last = [[curve[-1][1] for curve in by_seed.values()] for by_seed in by_bound.values()]
        rows.append(
            join_cells(objective, *(f"{fmean(ends):.3f} ({min(ends):.3f} to {max(ends):.3f})" for ends in last))
        )
    yield render_table(join_cells("held-out pass@1, by bound on staleness", *by_bound), rows)
    yield (
        f"Asynchronous `make learn`, {measured['steps']} steps, mean of {len(last[0])} seeds (lowest and highest)."
        " The decoupled objective corrects for stale completions, the naive one does not; see staleness.svg."
    )


def render_ingredients(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the effect of each change of a run: the mean over seeds and its 95% interval, by Student's t."""
    rows = []
    for limit, by_name in measured["measured"].items():
        (name, base), *others = by_name.items()
        rows.append(f"**{limit}, {name}**")
        for metric, digits in _INGREDIENT_DIGITS.items():
            rows[-1] += f" | {fmean(run[metric] for run in base.values()):.{digits}f}"
        for name, by_seed in others:
            ended = [str(run["steps"]) for run in by_seed.values() if run["steps"] < _INGREDIENT_STEPS]
            rows.append(f"{name} (ended after {', '.join(ended)} steps)" if ended else name)
            for metric, digits in _INGREDIENT_DIGITS.items():
                differences = [run[metric] - base[seed][metric] for seed, run in by_seed.items()]
                mean, half = fmean(differences), _T * stdev(differences) / len(base) ** 0.5
                mark = "**" * (abs(mean) > half)
                rows[-1] += f" | {mark}{mean:+.{digits}f} ± {half:.{digits}f}{mark}"
    yield render_table("change | pass@1 at the end | mean pass@1 | entropy | tokens per completion", rows)
    yield (
        f"Problems that need a chain of thought, {_INGREDIENT_STEPS} steps; a run ends early if no completion is"
        " right. Bold rows: the baselines, with at most 32 tokens (tight) or 96 (roomy). Rows below: the difference"
        f" that a change makes, as the mean of {len(base)} seeds with its 95% interval, bold if the interval"
        " excludes zero. Mean pass@1 averages the evaluations after every fifth step, entropy the last ten steps."
    )


def render_coverage(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the coverage of intervals, and the rate of false significance between equal models."""
    rows = []
    for problems, by_samples in measured["single"].items():
        for samples, single in by_samples.items():
            kinds = (single, measured["paired"][problems][samples])
            shares = (share for kind in kinds for share in (kind["mean"], kind["min"], kind["usual"]["min"]))
            rows.append(join_cells(problems, samples, *(f"{share:.1%}" for share in shares)))
    columns = "mean | lowest | usual interval, lowest"
    settings = [measured[kind][problems]["8"]["settings"] for kind in ("single", "paired")]
    yield render_table(f"problems | samples of each | pass@1: {columns} | difference: {columns}", rows, "r")
    yield (
        f"How often 95% intervals hold: mean and lowest share over {settings[0]} settings of one model and"
        f" {settings[1]} of two; {measured['repeats']:,} evaluations of each setting."
    )
    falses = (
        f"{name} | {found['1']['false']:.1%} | {found['8']['false']:.1%}"
        for name, found in measured["selection"].items()
    )
    yield render_table("models | 100 problems, one sample | 30 problems, 8 samples", falses)
    yield "How often one of the best models is significantly worse than the one that came out best."


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
}
