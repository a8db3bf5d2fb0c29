"""A real nginx before a service, with the configuration of the guide."""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager

import nginx
import pytest
from serving import Service


@contextmanager
def behind_nginx(service: Service, **directives: str) -> Iterator[Service]:
    """Yield the service as clients of an nginx see it; skip the test if there is no nginx, or fail where it has to be.

    directives  overrides of the guide's directives: name -> value
    """
    if nginx.find() is None and os.environ.get("CURATE_REQUIRE_NGINX") == "1":
        pytest.fail("CURATE_REQUIRE_NGINX is set and there is no nginx")
    if nginx.find() is None:
        pytest.skip("needs nginx; on Debian: apt-get install nginx-light")
    with nginx.run_nginx(service.port, **directives) as port:
        seen = copy.copy(service)
        seen.port, seen.url = port, f"http://127.0.0.1:{port}"
        yield seen
