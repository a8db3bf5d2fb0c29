"""Pictures show the curves of runs, and it is an error if there is nothing to draw."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from curate_command import curate

pytest.importorskip("matplotlib")
from train.errors import NoRunError
from train.run.metrics_log import MetricsLog, Timeline
from train.run.plots import PlottedRun, plot_curves, plot_timeline

ROOT = Path(__file__).parents[3]
BLUE, VERMILION = "#0072b2", "#d55e00"


def run(folder, steps=5, **figures):
    metrics = MetricsLog(folder)
    metrics.log(0, {"eval/pass@1": 0.3, "eval/pass@1_low": 0.2, "eval/pass@1_high": 0.4})
    for step in range(1, steps + 1):
        metrics.log(step, {"reward": 0.1 * step, "entropy": float("nan")} | figures)
    return folder


def texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


def test_there_is_a_panel_for_each_known_figure(tmp_path):
    out = tmp_path / "curves.svg"
    plot_curves([PlottedRun("one", run(tmp_path / "one", **{"clip_ratio/high_mean": 0.01}))], out)
    assert [text for text in texts(out) if text[:1].isalpha() and text != "step"] == [
        "Reward, mean of a batch",
        "pass@1 on the evaluation set, with its 95% interval",
        "Share of tokens clipped",
    ]


def test_runs_of_one_label_are_one_curve_in_a_band(tmp_path):
    folders = [run(tmp_path / name) for name in ("a", "b", "c")]
    out = tmp_path / "curves.svg"
    plot_curves(
        [PlottedRun("GRPO+", folders[0]), PlottedRun("GRPO+", folders[1]), PlottedRun("random rewards", folders[2])],
        out,
    )
    assert texts(out).count("GRPO+ (2 runs)") == texts(out).count("random rewards") == 1
    assert "Lines are means over runs, bands reach from the lowest to the highest run." in texts(out)
    lines = {colour: len(re.findall(f"fill: none; stroke: {colour}", out.read_text())) for colour in (BLUE, VERMILION)}
    assert lines[BLUE] == lines[VERMILION] > 0
    bands = {colour: len(re.findall(f"fill: {colour}; fill-opacity: 0.2", out.read_text())) for colour in lines}
    assert bands[BLUE] > bands[VERMILION] == 0


def test_a_band_is_drawn_at_the_steps_that_all_runs_have(tmp_path):
    folders = [run(tmp_path / "short", steps=3), run(tmp_path / "long", steps=9), run(tmp_path / "none", steps=0)]
    plot_curves([PlottedRun("same", folder) for folder in folders[:2]], tmp_path / "curves.svg")
    (line,) = re.findall(
        rf'<path d="([^"]*)"[^>]*stroke: {BLUE}; stroke-width: 1.5', (tmp_path / "curves.svg").read_text()
    )[:1]
    assert len(re.findall("[ML]", line)) == 3
    plot_curves(
        [PlottedRun("same", folder) for folder in folders], tmp_path / "curves.svg"
    )  # one of them has no reward yet


def test_a_long_run_is_drawn_as_its_running_mean_before_the_steps_themselves(tmp_path):
    out = tmp_path / "curves.svg"
    plot_curves([PlottedRun("long", run(tmp_path / "long", steps=100))], out)
    assert "stroke-opacity: 0.25" in out.read_text()
    plot_curves([PlottedRun("short", run(tmp_path / "short", steps=20))], out)
    assert "stroke-opacity: 0.25" not in out.read_text()


def test_the_same_figures_make_the_same_file(tmp_path):
    folder = run(tmp_path / "one")
    for name in ("a.svg", "b.svg"):
        plot_curves([PlottedRun("one", folder)], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_timeline_shows_how_much_of_the_time_each_part_was_busy(tmp_path):
    clock = Timeline(tmp_path)
    for step in (1, 2):
        clock.record(step, "sample", 10 * step, 10 * step + 6)
        clock.record(step, "reward", 10 * step + 2, 10 * step + 4)
        clock.record(step, "reward", 10 * step + 3, 10 * step + 5)  # at the same time as the one before
        clock.record(step, "train", 10 * step + 6, 10 * step + 10)
    out = tmp_path / "timeline.svg"
    plot_timeline([PlottedRun("sync", tmp_path)], out)
    assert {"sampling 60%", "rewards awaited 30%", "training 40%"} <= set(texts(out))
    note = "percentages are shares of that time, white is idle, numbers are batches"
    assert f"sync: steps 1 to 2 in 20 s; {note}" in texts(out)


def test_a_timeline_numbers_batches_rather_than_steps(tmp_path):
    clock = Timeline(tmp_path)
    clock.record(1, "sample", 0, 4, batch=1)
    clock.record(1, "sample", 4, 8, batch=2)  # ahead, while the step trains on batch 1
    clock.record(1, "train", 4, 6)
    plot_timeline([PlottedRun("one-off", tmp_path)], tmp_path / "timeline.svg")
    numbers = [text for text in texts(tmp_path / "timeline.svg") if text in ("1", "2")]
    assert numbers[-3:] == ["1", "2", "1"]  # sampling, sampling ahead, training


def test_a_picture_needs_only_matplotlib(tmp_path):
    folder = run(tmp_path / "one")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'vllm', 'pyarrow', 'datasets']))\n"
        f"from cli import main; main(['plot', {str(folder)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "curves.svg").is_file()


def test_the_timeline_of_a_long_run_shows_its_end(tmp_path):
    clock = Timeline(tmp_path)
    for step in range(1, 101):
        clock.record(step, "sample", step, step + 0.9)
    plot_timeline([PlottedRun("run", tmp_path)], tmp_path / "timeline.svg")
    assert any(text.startswith("run: steps 85 to 100 in ") for text in texts(tmp_path / "timeline.svg"))


def test_the_command_draws_into_the_run(tmp_path):
    folder = run(tmp_path / "one")
    done = curate("plot", folder, f"again={folder}", check=True)
    assert done.stdout.strip() == str(folder / "curves.svg")
    assert {"one", "again"} <= set(texts(folder / "curves.svg"))
    done = curate("plot", folder, "--out", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("lines", "words", "said"),
    [
        (None, [], "has no metrics.jsonl. Give the folder of a run that curate train wrote"),
        ([], [], "no step is finished yet"),
        ([{"step": 1, "reward": None}], [], "no step is finished yet"),
        ([{"step": 1, "reward": 0.5}], ["--timeline"], "its timeline.jsonl is missing or empty"),
        ([{"step": 1, "reward": 0.5}], ["--out", "curves.txt"], "Give a name that ends in .svg, .png or .pdf"),
    ],
)
def test_a_mistake_is_explained(tmp_path, lines, words, said):
    if lines is not None:
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = curate("plot", tmp_path, *words)
    assert done.exit_code == 1
    assert said in done.output


def test_a_folder_with_an_equals_sign_in_its_name_can_be_drawn(tmp_path):
    odd = tmp_path / "lr=1e-3"
    odd.mkdir()
    assert PlottedRun.parse(str(odd)).label == "lr=1e-3"
    assert PlottedRun.parse(f"high={tmp_path}") == PlottedRun("high", tmp_path)
    with pytest.raises(NoRunError):
        plot_curves([PlottedRun("", odd)], tmp_path / "curves.svg")
