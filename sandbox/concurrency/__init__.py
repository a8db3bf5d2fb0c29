"""What all packages share for work in threads and processes.

thread_map      apply a function to many items, reading them only a little ahead
prefetch        run an iterator ahead of its consumer
timeouts        call code that may hang, with a time limit
cancellation    cancel a request from another thread
single_flight   compute each result once, however many threads ask for it
sockets         end calls that wait for an answer over HTTP
file_lock       let one process at a time write to a file or a folder
"""
