"""Tools for threads and processes that all packages share.

thread_map      apply a function to many items in threads, reading a few ahead
prefetch        run an iterator ahead of its consumer
timeouts        call code that may hang, with a time limit
cancellation    cancel a request from another thread
single_flight   compute each result once for all threads
sockets         end calls that wait for a response over HTTP
file_lock       let one process at a time write to a file or a folder
"""
