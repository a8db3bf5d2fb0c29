"""A Sandbox over HTTP, for `curate serve`.

Front ends are processes that serve HTTP and parse JSON. The main process runs the dispatcher, with the queue and the
Sandbox.

    settings.py           the operator's settings
    server.py             the main process: starts and replaces front ends, and drains
    dispatcher.py         the Sandbox and its queue, shared by all front ends
    fair_queue.py         the order of queued requests, and rejections if the queue is full
    prometheus.py         GET /metrics
    link.py               the connection between the dispatcher and a front end
    dispatcher_client.py  a front end's connection to the dispatcher
    front_end.py          a process that serves HTTP
    listener.py           listening sockets
    app.py                the routes, the token, and POST /run_code, /run and /judge_suite
    allowed_hosts.py      the accepted values of the headers Host and Origin
    request_body.py       one request: its body, and its client's disconnection
    rate_limit.py         a limit on each client's processor time in a front end
    request_bounds.py     the bounds of a request
    request_codec.py      decoding of requests for the Sandbox, and encoding of its results
    judge_routes.py       POST /judge, for records of `curate judge`
    sandboxfusion.py      the requests and responses of SandboxFusion, for /run_code
    responses.py          responses in JSON and JSON Lines
    service_errors.py     the error responses
    openapi.py            GET /openapi.json

Slow clients require a buffering proxy in front of it; see docs/guides/serve.md.
"""
