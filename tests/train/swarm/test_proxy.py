"""A coordinator behind nginx, with the configuration of the guide."""

import http.client
import os
from collections.abc import Iterator
from http import HTTPStatus

import nginx
import pytest
import swarms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from train.swarm.client import SignedClient
from train.swarm.requests import create_head, sign_request
from train.swarm.signatures import public_key_bytes


@pytest.fixture
def proxy(world: swarms.World) -> Iterator[int]:
    """Yield the port of nginx before a coordinator."""
    if nginx.find() is None and os.environ.get("CURATE_REQUIRE_NGINX") == "1":
        pytest.fail("CURATE_REQUIRE_NGINX is set and there is no nginx")
    if nginx.find() is None:
        pytest.skip("needs nginx; on Debian: apt-get install nginx-light")
    with world.coordinator(), nginx.run_nginx(int(world.url.rpartition(":")[2]), "swarm.md") as port:
        yield port


def status_of_a_stranger(port: int, address: str, body: bytes = b"nonsense") -> int:
    """Let a stranger at an address send a body to /join, with headers that make sense, and return the status."""
    key = Ed25519PrivateKey.generate()
    headers = sign_request(create_head("/join", swarms.RUN, public_key_bytes(key), body), key)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30, source_address=(address, 0))
    try:
        connection.request("POST", "/join", body, {**headers, "X-Forwarded-For": "192.0.2.1"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_node_works_through_the_proxy(world: swarms.World, proxy: int) -> None:
    invite = swarms.invite(world.place, url=f"http://127.0.0.1:{proxy}")
    node = swarms.Member(SignedClient(invite, Ed25519PrivateKey.generate()))
    node.join()
    [lease] = node.ask(slots=swarms.RULES.completions_per_prompt)
    node.beat()
    assert node.upload(lease) == "taken"


def test_strangers_behind_the_proxy_are_told_apart_by_their_addresses(world: swarms.World, proxy: int) -> None:
    refusals = (status_of_a_stranger(proxy, "127.0.0.2") for _ in range(5_000))
    assert HTTPStatus.TOO_MANY_REQUESTS in refusals
    assert status_of_a_stranger(proxy, "127.0.0.3") != HTTPStatus.TOO_MANY_REQUESTS


def test_the_proxy_refuses_bodies_that_no_lease_allows(world: swarms.World, proxy: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=30)
    connection.putrequest("POST", "/join")
    connection.putheader("content-length", str(65 * 2**20))
    connection.endheaders()
    assert connection.getresponse().status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    connection.close()
