"""Programs that pass only some of the tests."""
