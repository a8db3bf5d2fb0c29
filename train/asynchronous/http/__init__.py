"""The controller over HTTP, for workers in other processes and on other machines.

routes.py  what can be asked
server.py  the server, in a thread of rank 0's process
client.py  the controller, as a worker sees it over HTTP
"""
