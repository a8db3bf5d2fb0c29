import pytest
from hypothesis import given
from hypothesis import strategies as st

from curate.report.charts import HEIGHT, compute_layout
from curate.report.sections import _build_solve_rate, format_range, locate_on_axis
from curate.text.document import Chart


def test_the_height_of_bars_follows_their_counts_and_stays_below_the_highest_tick():
    chart = compute_layout(Chart(["5", "6–7"], {"": [30, 60]}, "tests"))
    low, high = chart.bars
    assert high.height == pytest.approx(2 * low.height)
    assert low.y + low.height == high.y + high.height == HEIGHT
    assert min(tick.position for tick in chart.y_ticks) == 0 < high.y
    assert [tick.label for tick in chart.x_ticks] == ["5", "6–7"]


def test_bars_stay_within_the_plot_and_do_not_cover_each_other():
    chart = Chart(["0", "1", "2"], {"a": [3, 1, 2], "b": [3, 1, 2]}, "s", ticks=["0", "1", "2", "3"])
    bars = sorted(compute_layout(chart).bars, key=lambda bar: bar.x)
    assert len(bars) == 6
    for bar, following in zip(bars, bars[1:], strict=False):
        assert bar.x + bar.width <= following.x + 1e-9
    assert bars[0].x >= 0
    assert bars[-1].x + bars[-1].width <= 100


def test_a_line_is_drawn_at_its_value_between_the_edges():
    edges = [0.7, 0.8, 1.0]

    def line(value):
        return compute_layout(Chart(["a", "b"], {"": [1, 1]}, "similarity", line=locate_on_axis(value, edges))).line

    assert line(0.75) == pytest.approx(25)
    assert line(0.9) == pytest.approx(75)
    assert line(0.2) is None


def test_a_single_problem_in_a_million_is_still_visible():
    chart = compute_layout(Chart(["5", "6–7"], {"": [1, 1_000_000]}, "tests"))
    assert chart.bars[0].height >= 1


@given(st.integers(0, 10**10))
def test_ticks_are_few_whole_numbers_from_zero(most):
    chart = compute_layout(Chart(["1"], {"": [most]}, "tests"))
    values = [int(tick.label.replace(",", "")) for tick in chart.y_ticks]
    assert values[0] == 0
    assert values[-1] >= most
    assert 2 <= len(values) <= 6
    assert len(set(values)) == len(values)


def test_a_band_without_any_bar_is_not_shaded():
    rates = {"model": "m", "steps": 2, "counts": [1, 1, 1], "band": [0.6, 0.9], "mean": 0.5, "n": 3}
    rates |= {"never": 1, "always": 1, "unknown": 0, "in_band": 0}

    def band(rates):
        (chart,) = _build_solve_rate(rates).blocks
        return compute_layout(chart).band

    assert band(rates) is None
    assert band(rates | {"band": [0.5, 1.0]}) == pytest.approx((100 / 3, 200 / 3))  # its begin and its width


def test_ranges_of_whole_numbers_are_labelled_by_their_ends():
    assert [format_range(5, 6), format_range(6, 8), format_range(1001, None)] == ["5", "6–7", "1,001+"]
