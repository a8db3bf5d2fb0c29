"""A Sandbox over HTTP: what `curate serve` runs.

Front ends are processes that speak HTTP. One dispatcher, in the main process, has the queue and the Sandbox; it never
sees JSON.

    settings.py           the operator's settings
    server.py             the main process: starts and replaces front ends, and drains
    dispatcher.py         the Sandbox and its queue, shared by all front ends
    fair_queue.py         the order of waiting requests, and the rejection of others
    prometheus.py         GET /metrics
    link.py               the connection between the dispatcher and a front end
    dispatcher_client.py  a front end's connection to the dispatcher
    front_end.py          a process that speaks HTTP
    listener.py           the sockets that clients connect to
    app.py                the paths, the token, the description of the service, and POST /run_code, /run and
                          /judge_suite
    allowed_hosts.py      the host names and web pages from which requests are accepted
    request_body.py       one request: its body, and whether its client is still connected
    rate_limit.py         the processor time of a front end per client
    request_bounds.py     the bounds of a request
    request_codec.py      from JSON to requests for the Sandbox, and from its results to JSON
    judge_routes.py       POST /judge: records as `curate judge` reads them
    sandboxfusion.py      the requests and responses of SandboxFusion, for /run_code
    responses.py          responses in JSON and JSON Lines
    service_errors.py     the error responses
    openapi.py            GET /openapi.json

A proxy must shield it from clients that send or read slowly; see docs/guides/serve.md.
"""
