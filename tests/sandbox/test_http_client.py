"""Requests to a server on loopback: how long they may take, and what the server asks for."""

import threading

import pytest
from loopback_server import answering

from sandbox.http_client import HttpClient, ServerUnreachable


def replying_with(body, **headers):
    def write(handler):
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return lambda *_: write


def get(url, **limits):
    return HttpClient(url).request("GET", "/", read_seconds=60, **limits)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("100000", 300),
        ("-1", 0),
        ("nan", 0),
        ("soon", 0),
        ("Wed, 01 Jan 2070 00:00:00 GMT", 300),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ],
)
def test_a_server_says_in_seconds_or_by_a_date_how_long_it_wants_to_be_left_alone(header, seconds):
    with answering(replying_with(b"", retry_after=header)) as (url, _):
        assert get(url).retry_after_seconds == seconds


def test_a_reply_that_arrives_for_too_long_is_none():
    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while not threading.Event().wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            return

    with (
        answering(lambda *_: trickle) as (url, _),
        pytest.raises(ServerUnreachable, match=r"not complete after 0\.2 s"),
    ):
        get(url, max_seconds=0.2)


def test_a_reply_that_is_too_long_is_none():
    with answering(replying_with(b" " * 200_000)) as (url, _):
        assert len(get(url, max_bytes=200_000).body) == 200_000
        with pytest.raises(ServerUnreachable, match="not complete after 199999 bytes"):
            get(url, max_bytes=199_999)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "busy"}}', "busy"),
        (b'{"error": "busy"}', "busy"),
        (b'{"detail": "busy"}', "busy"),
        (b'{"object": "error", "message": "busy"}', "busy"),
        (b"[1]", "[1]"),
        (b"<html>", "<html>"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(body, words):
    with answering(replying_with(body)) as (url, _):
        assert get(url).get_error_message() == words
