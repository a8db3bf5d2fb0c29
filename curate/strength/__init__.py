"""Measure how many wrong programs the tests of a problem reject."""
