"""What all packages share for work in threads.

completed      apply a function to many items, reading them only a little ahead
prefetch       run an iterator ahead of its consumer
deadline       call code that may hang, with a time limit
cancellation   take back a request
once           make each result once, however many threads ask for it
sockets        end calls that wait for an answer over HTTP
"""
