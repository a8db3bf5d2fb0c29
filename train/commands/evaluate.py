"""`curate evaluate`"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from curate.commands.extras import require_data
from sandbox.commands import options
from sandbox.commands.frame import Progress


@click.command("evaluate")
@click.option("--model", required=True, metavar="NAME", help="Its folder or Hub id, or its name at the server.")
@click.option(
    "--data",
    required=True,
    metavar="DATASET",
    help="Folder of a dataset, or a file, folder or Hub id of LiveCodeBench or HumanEval in their own form.",
)
@click.option("--k", type=click.IntRange(min=1), default=8, show_default=True, help="Samples of each problem.")
@click.option("--window", default="", metavar="FROM..TO", help="Only contests of these days: 2024-08-01..2025-02-01.")
@click.option("--problems", type=click.IntRange(min=1), help="Only so many problems, always the same.  [default: all]")
@click.option("--base-url", metavar="URL", help="Ask an OpenAI-compatible server instead of running vLLM here.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.6, show_default=True)
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=0.95, show_default=True)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=16384, show_default=True, help="Most tokens of an answer."
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Of the samples.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file for the figures and the counts of each problem. Samples go to OUT.samples.jsonl as they come.",
)
@options.workers
@options.isolation
@options.ray
def command(
    model: str,
    data: str,
    k: int,
    window: str,
    problems: int | None,
    base_url: str | None,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
    out: Path | None,
    workers: int | None,
    isolation: str,
    ray: str | None,
) -> None:
    """Evaluate a model: pass@1 over k samples of each problem, with a 95% confidence interval, and pass@k.

    With --out, the same command continues after an interruption and samples nothing twice.
    """
    require_data()
    from contextlib import ExitStack, closing
    from functools import partial

    from curate.dataset.journal import Journal
    from curate.dataset.workspace import write_whole
    from curate.errors import CurateError
    from sandbox import Sandbox, SandboxError
    from train.evaluation.evaluate import evaluate
    from train.evaluation.exercises import exercises
    from train.evaluation.result_file import contents, identity
    from train.sampling.open_sampler import open_sampler
    from train.sampling.protocol import SamplerError, Sampling

    samples = out and out.with_name(out.name + ".samples.jsonl")
    where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
    progress = Progress(" samples")
    try:
        sampling = Sampling(temperature, top_p, max_tokens)
        asked = exercises(data, window, problems or 0)
        with ExitStack() as opened:
            if samples:
                samples.parent.mkdir(parents=True, exist_ok=True)
            journal = opened.enter_context(Journal(samples)) if samples else None
            sampler = opened.enter_context(closing(open_sampler(model, base_url)))
            box = opened.enter_context(Sandbox(workers, isolation=isolation, **where))
            found = evaluate(
                asked,
                partial(sampler.sample, sampling=sampling),
                box,
                k=k,
                seed=seed,
                journal=journal,
                settings=[identity(model), asdict(sampling)],
                report=progress,
            )
        if out:
            said = contents(found, model=model, data=data, window=window, sampling=sampling, seed=seed, exercises=asked)
            write_whole(out, json.dumps(said, indent=1) + "\n")
    except (CurateError, SamplerError, SandboxError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        saved = f"; the samples are in {samples}, the same command continues" if samples else "; give --out to continue"
        raise click.ClickException(f"interrupted{saved}") from None
    finally:
        progress.close()
    at_k = "-" if found.pass_at_k is None else f"{found.pass_at_k:.3f}"
    numbers = {
        "problems": str(found.n_problems),
        "samples": str(found.n_samples),
        "pass@1": f"{found.pass_at_1:.3f}",
        "95% interval": f"{found.low:.3f}-{found.high:.3f}",
        f"pass@{k}": at_k,
        "cut off": str(found.n_truncated),
        "no code": str(found.n_no_code),
        "tokens": f"{found.mean_tokens:.0f}",
    }
    click.echo("  ".join(f"{name:>{max(len(name), len(number))}}" for name, number in numbers.items()))
    click.echo("  ".join(f"{number:>{max(len(name), len(number))}}" for name, number in numbers.items()))
    if found.n_unscored:
        click.echo(f"Warning: {found.n_unscored} samples have no verdict and are left out, see above", err=True)
    sys.exit(0 if found.n_samples else 1)
