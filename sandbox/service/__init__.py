"""A Sandbox over HTTP: what `curate serve` runs.

    settings.py       what the operator chooses
    server.py         the process: its socket, its signals, its end
    http_protocol.py  bounds of time and size that the HTTP server does not set
    app.py            paths, the token, and what is said of the service itself
    hosts.py          by which names it may be called, and by pages of which sites
    request_body.py   a request: its body, and whether its client is still there
    pace.py           what a client costs before it has a turn
    admission.py      who waits for a worker, and who is turned away
    executor.py       the Sandbox, shared by all requests
    translation.py    from JSON to what the Sandbox is asked, and back
    helpers.py        the processes that do this where it takes long
    judge_routes.py   POST /judge: records as `curate judge` reads them
    run_routes.py     POST /run_code, /run and /judge_suite
    sandboxfusion.py  SandboxFusion's words, for /run_code
    bounds.py         how much may be asked for
    sending.py        answers, and clients that do not read them
    refusals.py       what is answered where there is no verdict
    prometheus.py     GET /metrics
    openapi.py        GET /openapi.json

There are no globals: everything belongs to one app, made from a Sandbox and Settings. One process serves some hundred
runs a second; for more, start more of them.
"""
