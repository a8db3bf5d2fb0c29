"""A Sandbox over HTTP: what `curate serve` runs.

Front ends are processes that speak HTTP. One dispatcher, in the main process, has the queue and the Sandbox; it never
sees JSON.

    settings.py           what the operator chooses
    server.py             the main process: it starts and replaces front ends, and drains
    dispatcher.py         the Sandbox and the queue before it, shared by all front ends
    fair_queue.py         who waits for a worker, and who is turned away
    prometheus.py         GET /metrics
    link.py               the connection between the dispatcher and a front end
    dispatcher_client.py  the dispatcher as a front end sees it
    front_end.py          a process that speaks HTTP
    listener.py           the sockets that clients connect to
    app.py                the paths, the token, what the service says about itself, and POST /run_code, /run and
                          /judge_suite
    allowed_hosts.py      the host names and web pages from which requests are accepted
    request_body.py       one request: its body, and whether its client is still connected
    rate_limit.py         what a client costs a front end
    request_bounds.py     how much a request may ask for
    request_codec.py      from JSON to requests for the Sandbox, and from its results to JSON
    judge_routes.py       POST /judge: records as `curate judge` reads them
    sandboxfusion.py      the requests and responses of SandboxFusion, for /run_code
    responses.py          answers in JSON and JSON Lines
    service_errors.py     what is answered when there is no verdict
    openapi.py            GET /openapi.json

Clients that trickle heads, bodies or the reading of answers are kept away by a proxy; see docs/guides/serve.md.
"""
