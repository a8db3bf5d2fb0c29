"""Threads that the other rooms share: streams of results, prefetching, deadlines, cancellation."""
