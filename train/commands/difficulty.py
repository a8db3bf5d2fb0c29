"""`curate difficulty`"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from curate.commands.extras import require_data
from sandbox.commands import options
from sandbox.commands.frame import Progress


@click.command("difficulty")
@click.argument("dataset", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="A model to sample: its folder or Hub id, or its name at the server. Repeatable: they stand side by side.",
)
@click.option("--base-url", metavar="URL", help="Ask an OpenAI-compatible server instead of running vLLM here.")
@click.option("--k", type=click.IntRange(min=1), help="Of pass@k.  [default: 8]")
@click.option("--n", type=click.IntRange(min=1), help="Samples of each problem.  [default: k]")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Of the samples.  [default: 0.6]")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the samples.  [default: 0.95]")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of an answer.  [default: 16384]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Of the samples.  [default: 0]")
@click.option("--resample", is_flag=True, help="Drop the samples of the named models that are there, and draw anew.")
@options.workers
@options.isolation
@options.ray
@click.option(
    "--solve-rate",
    metavar="LEAST:MOST",
    help="Copy to --out the problems of which this share of samples is right, bounds included: 0.125:0.5, or 0.125:.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the copy.")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder --out.")
def command(
    dataset: Path,
    models: tuple[str, ...],
    base_url: str | None,
    resample: bool,
    workers: int | None,
    isolation: str,
    ray: str | None,
    solve_rate: str | None,
    out: Path | None,
    overwrite: bool,
    **chosen: Any,
) -> None:
    """Measure how often models solve the problems of DATASET, and keep those of a band.

    The counts go to difficulty/ in DATASET. Options of sampling that are not given are as they were when the model was
    sampled before. What is there is not sampled again; after an interruption the same command continues. Without
    --model, --solve-rate goes by all models that were sampled, and each of those it goes by must agree.
    """
    require_data()
    from contextlib import closing
    from functools import partial

    from curate.difficulty import table
    from curate.difficulty.band import Band
    from curate.difficulty.keep_band import refilter
    from curate.errors import CurateError
    from sandbox import Sandbox, SandboxError
    from train.evaluation.difficulty import Sample, Settings, measure
    from train.sampling.open_sampler import open_sampler
    from train.sampling.protocol import SamplerError, Sampling

    if not models and solve_rate is None:
        raise click.UsageError("give a --model to sample, a --solve-rate to filter by, or both")
    if (solve_rate is None) != (out is None):
        raise click.UsageError("--solve-rate and --out belong together: the band, and the folder of what lies in it")

    @contextmanager
    def opened(settings: Settings) -> Iterator[Sample]:
        sampling = Sampling(settings.temperature, settings.top_p, settings.max_tokens)
        with closing(open_sampler(settings.model, base_url)) as sampler:
            yield partial(sampler.sample, sampling=sampling)

    where: dict[str, Any] = {"backend": "ray", "address": ray} if ray else {}
    machine = partial(Sandbox, workers, isolation=isolation, **where)
    asked = {name: value for name, value in chosen.items() if value is not None}
    progress = Progress(" samples")
    try:
        band = Band.parse(solve_rate) if solve_rate is not None else None
        for model in models:
            measured = measure(dataset, model, asked, opened, machine, resample=resample, report=progress)
            for number, what in ((measured.n_unscored, "could not be judged"), (measured.n_refused, "were refused")):
                if number:
                    click.echo(f"Warning: {model}: {number} samples {what}; the same command tries again", err=True)
        progress.close()
        rows = table.read(dataset)
        if rows:
            _print_solve_rates(rows, models)
        if band is None or out is None:
            return
        manifest = refilter(dataset, out, band, models, overwrite=overwrite)
    except (CurateError, SamplerError, SandboxError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; the samples are in {dataset}, the same command continues") from None
    finally:
        progress.close()
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} problems in {out}; the others are in the config `rejected`")
    if manifest["solve_rate"]["warning"]:
        click.echo(f"Warning: {manifest['solve_rate']['warning']}", err=True)
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)


def _print_solve_rates(rows: list[dict[str, Any]], models: Sequence[str]) -> None:
    """A line for each model, then how many problems have how many correct samples."""
    click.echo(f"{'model':<40}{'problems':>9}{'samples':>9}{'pass@1':>8}{'pass@k':>8}{'cut off':>9}{'no code':>9}")
    for model in models or sorted({row["model"] for row in rows}):
        known = [row for row in rows if row["model"] == model and row["n"]]
        estimated = ([row[name] for row in known if row[name] is not None] for name in ("pass_at_1", "pass_at_k"))
        means = "".join(f"{fmean(values):>8.3f}" if values else f"{'-':>8}" for values in estimated)
        n, cut, bare = (sum(row[name] for row in known) for name in ("n", "n_truncated", "n_no_code"))
        click.echo(f"{model:<40}{len(known):>9}{n:>9}{means}{cut:>9}{bare:>9}")
        spread = Counter((row["n_correct"], row["n"]) for row in known)
        click.echo("  " + ", ".join(f"{correct} of {n}: {number}" for (correct, n), number in sorted(spread.items())))
