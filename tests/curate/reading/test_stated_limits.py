import pytest

from curate.reading.stated_limits import derive_limits


@pytest.mark.parametrize(
    ("stated", "wall_seconds"),
    [
        pytest.param("2.0 seconds", 10.0, id="five times as long for Python"),
        pytest.param("1 second", 6.0, id="at least six"),
        pytest.param("7 seconds", 12.0, id="at most twelve"),
        pytest.param("1500 ms", 7.5, id="milliseconds"),
        pytest.param(None, 10.0, id="not stated"),
        pytest.param("soon", 10.0, id="not readable"),
    ],
)
def test_wall_seconds_follow_the_stated_time(stated, wall_seconds):
    assert derive_limits(stated, None).wall_seconds == wall_seconds


@pytest.mark.parametrize(
    ("stated", "memory_mb"),
    [
        pytest.param("256.0 megabytes", 512, id="at least 512"),
        pytest.param("768 megabytes", 768, id="as stated"),
        pytest.param("4 gigabytes", 1024, id="at most 1024"),
        pytest.param("65536 KB", 512, id="kilobytes"),
        pytest.param(None, 1024, id="not stated"),
    ],
)
def test_memory_follows_the_stated_memory(stated, memory_mb):
    assert derive_limits(None, stated).memory_mb == memory_mb
