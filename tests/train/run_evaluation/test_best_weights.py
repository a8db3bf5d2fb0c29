"""The best weights are whole at any time, and give way only to better ones of the same suite."""

import pytest

from train.run.evaluation_scheduler import finish_interrupted_replace, is_better, read_best_record, replace_best


def note(step, share, **changes):
    return {"suite": "lcb", "step": step, "pass@1": share, "exercises_sha256": "x", "temperature": 0.6, "top_p": 0.95,
            **changes}  # fmt: skip


def model(run, name):
    folder = run / "evaluations" / name
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text(name)
    return folder


def held(run):
    return (run / "best" / "model.safetensors").read_text(), read_best_record(run)["step"]


def test_equal_weights_do_not_take_the_place_of_earlier_ones():
    assert is_better(note(0, 0.0), None)
    assert is_better(note(2, 0.6), note(1, 0.5))
    assert not is_better(note(2, 0.5), note(1, 0.5))
    assert not is_better(note(2, None), None)  # no sample has a verdict


@pytest.mark.parametrize("change", [{"suite": "humaneval"}, {"exercises_sha256": "y"}, {"temperature": 0.0}])
def test_what_cannot_be_compared_gives_way(change):
    assert is_better(note(2, 0.1), note(1, 0.5, **change))


def test_a_model_takes_the_place_of_the_one_before(tmp_path):
    for step in (1, 2):
        replace_best(tmp_path, model(tmp_path, f"step {step}"), note(step, step / 4))
        assert held(tmp_path) == (f"step {step}", step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "evaluations"]


@pytest.mark.parametrize("calls", range(1, 4))
def test_a_kill_between_any_two_renames_loses_nothing(calls, tmp_path, monkeypatch):
    replace_best(tmp_path, model(tmp_path, "step 1"), note(1, 0.25))
    better = model(tmp_path, "step 2")
    renamed, original = [], type(better).rename

    def rename(path, target):
        renamed.append(path)
        if len(renamed) == calls:
            raise KeyboardInterrupt
        return original(path, target)

    monkeypatch.setattr(type(better), "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        replace_best(tmp_path, better, note(2, 0.5))
    monkeypatch.undo()
    finish_interrupted_replace(tmp_path)
    assert held(tmp_path) == (("step 1", 1) if calls == 1 else ("step 2", 2))
    assert not list(tmp_path.glob(".best*"))


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_note_gives_way(text, tmp_path):
    replace_best(tmp_path, model(tmp_path, "step 1"), note(1, 0.25))
    (tmp_path / "best" / "best.json").write_text(text)
    assert is_better(note(2, 0.0), read_best_record(tmp_path))
