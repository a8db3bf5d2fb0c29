"""The simulated engine adds up what a loop over single steps would."""

import random

import pytest

from train.planning.engine import EngineTimings, SimulatedEngine, SimulatedSample

RATES = EngineTimings(
    step_seconds=0.01,
    step_seconds_per_completion=0.002,
    step_seconds_per_context_token=0.0001,
    prefill_seconds_per_token=0.003,
    prefill_seconds_per_pair=0.0001,
    load_seconds=0.5,
    cache_tokens=1e9,
    max_concurrent=8,
)


def prefill_seconds(tokens: float) -> float:
    return tokens * RATES.prefill_seconds_per_token + tokens**2 / 2 * RATES.prefill_seconds_per_pair


def finished_at(answers: list[tuple[int, int]]) -> list[float]:
    """Return when answers of (prompt tokens, tokens) finish, drawn token by token; all begin at 0."""
    now = sum(prefill_seconds(prompt) for prompt, _ in answers)
    context = float(sum(prompt for prompt, _ in answers))
    left = {number: tokens for number, (_, tokens) in enumerate(answers)}
    ends = [0.0] * len(answers)
    while left:
        # The mean of the context before and after the step, which is what the closed form integrates.
        now += (
            RATES.step_seconds
            + len(left) * RATES.step_seconds_per_completion
            + context * RATES.step_seconds_per_context_token
        )
        context += len(left)
        for number in list(left):
            left[number] -= 1
            if not left[number]:
                del left[number]
                context -= sum(answers[number])
                ends[number] = now
    return ends


def test_answers_finish_when_a_loop_over_tokens_says() -> None:
    rng = random.Random(0)
    answers = [(rng.randint(1, 20), rng.randint(1, 300)) for _ in range(8)]
    engine = SimulatedEngine(RATES)
    for number, (prompt, tokens) in enumerate(answers):
        engine.add(SimulatedSample((number, 0), prompt, tokens))
    ends: dict[int, float] = {}
    while engine.n_pending:
        now = engine.find_next_event()
        ends |= {drawing.key[0]: now for drawing in engine.advance(now)}
    assert [ends[number] for number in range(8)] == pytest.approx(finished_at(answers), rel=0.03)
    assert engine.busy_seconds == pytest.approx(max(ends.values()))


def test_looking_in_between_changes_nothing() -> None:
    rng = random.Random(1)
    answers = [(5, rng.randint(1, 300)) for _ in range(12)]  # more than it draws at once

    def ends(looks: list[float]) -> dict[int, float]:
        engine, found = SimulatedEngine(RATES), {}
        for number, (prompt, tokens) in enumerate(answers):
            engine.add(SimulatedSample((number, 0), prompt, tokens))
        looks = list(looks)
        while engine.n_pending:
            now = engine.find_next_event()
            if looks and looks[0] < now:
                now = looks.pop(0)
            found |= {drawing.key[0]: now for drawing in engine.advance(now)}
        return found

    looked = ends(sorted(rng.uniform(0, 8) for _ in range(50)))
    assert looked == pytest.approx(ends([]))


def test_new_weights_cost_their_loading_and_the_cache_that_is_computed_again() -> None:
    engine = SimulatedEngine(RATES)
    answers = [SimulatedSample((0, 0), 10, 100), SimulatedSample((0, 1), 10, 200)]
    for answer in answers:
        engine.add(answer)
    undisturbed = engine.find_next_event()
    engine.advance(1.4)
    engine.load_weights(1)
    lost = engine.find_next_event() - undisturbed
    assert engine.advance(engine.find_next_event()) == answers[:1]
    (_, began), (version, drawn) = answers[0].versions
    assert (began, version) == (0, 1)
    assert 20 < drawn < 80
    assert lost == pytest.approx(RATES.load_seconds + 2 * prefill_seconds(10 + drawn), rel=0.02)


def test_a_cache_that_is_full_makes_the_youngest_answer_wait_and_be_computed_again() -> None:
    rates = EngineTimings(1.0, 0.0, 0.0, 0.01, load_seconds=0.0, cache_tokens=150)
    engine = SimulatedEngine(rates)
    old, young = (SimulatedSample((0, place), 0, 100) for place in (0, 1))
    engine.add(old)
    engine.add(young)
    assert engine.advance(80.0) == []
    engine.load_weights(1)
    assert engine.advance(100.0 + 80 * 0.01) == [old]  # 80 of its tokens are computed again
    end = 100 + 0.8 + 75 * 0.01 + 25  # the other one stopped at 75, when both filled the cache
    assert engine.find_next_event() == pytest.approx(end)
    assert engine.advance(end) == [young]
    assert [old.versions, young.versions] == [[(0, 0), (1, 80)], [(0, 0), (1, 75)]]


def test_a_single_answer_may_be_longer_than_the_cache() -> None:
    engine = SimulatedEngine(EngineTimings(1.0, 0.0, 0.0, 0.0, load_seconds=0.0, cache_tokens=50))
    engine.add(SimulatedSample((0, 0), 0, 100))
    engine.add(SimulatedSample((0, 1), 0, 100))
    assert len(engine.advance(200.0)) == 2
