"""A Sandbox over HTTP: what `curate serve` runs.

    settings.py       what the operator chooses
    server.py         the process: its socket, its signals, its end
    http_protocol.py  limits on time and size that the HTTP server itself does not set
    app.py            the paths, the token, and what the service says about itself
    hosts.py          the host names and web pages from which requests are accepted
    request_body.py   one request: its body, and whether its client is still connected
    pace.py           what a client costs before it gets a worker
    held_bytes.py     how many bytes are held for each client
    admission.py      who waits for a worker, and who is turned away
    executor.py       the Sandbox, shared by all requests
    translation.py    from JSON to requests for the Sandbox, and from its results to JSON
    helpers.py        the processes that translate large bodies and answers
    judge_routes.py   POST /judge: records as `curate judge` reads them
    run_routes.py     POST /run_code, /run and /judge_suite
    sandboxfusion.py  the requests and responses of SandboxFusion, for /run_code
    bounds.py         how much a request may ask for
    sending.py        answers, and clients that do not read them
    refusals.py       what is answered when there is no verdict
    prometheus.py     GET /metrics
    openapi.py        GET /openapi.json

There are no globals: everything belongs to one app, made from a Sandbox and Settings. One process serves a few hundred
runs a second; for more, start more processes.
"""
