"""Utilities for threads and processes, for all packages.

thread_map      apply a function to many items in threads, reading a few ahead
prefetch        run an iterator ahead of its consumer
timeouts        call code that may hang, in a daemon thread, with a time limit
cancellation    cancel a request from another thread
single_flight   compute each result once for all threads
sockets         interrupt HTTP requests from another thread
file_lock       flock on a file, between processes
"""
