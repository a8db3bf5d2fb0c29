"""A Sandbox over HTTP: what `curate serve` runs.

    settings.py        what the operator chooses
    server.py          the process: its socket, its signals, its end
    bounded_http.py    limits on time and size that the HTTP server itself does not set
    app.py             the paths, the token, and what the service says about itself
    allowed_hosts.py   the host names and web pages from which requests are accepted
    request_body.py    one request: its body, and whether its client is still connected
    rate_limit.py      what a client costs before it gets a worker
    byte_budget.py     how many bytes are held for each client
    fair_queue.py      who waits for a worker, and who is turned away
    executor.py        the Sandbox, shared by all requests
    request_codec.py   from JSON to requests for the Sandbox, and from its results to JSON
    json_processes.py  the processes that translate large bodies and answers
    judge_routes.py    POST /judge: records as `curate judge` reads them
    run_routes.py      POST /run_code, /run and /judge_suite
    sandboxfusion.py   the requests and responses of SandboxFusion, for /run_code
    request_bounds.py  how much a request may ask for
    responses.py       answers, and clients that do not read them
    service_errors.py  what is answered when there is no verdict
    prometheus.py      GET /metrics
    openapi.py         GET /openapi.json

There are no globals: everything belongs to one app, made from a Sandbox and Settings. One process serves a few hundred
runs a second; for more, start more processes.
"""
