"""The operator's page is shown by a real browser, and what nodes call themselves does nothing on it."""

from pathlib import Path

import urllib3
from browser import Browser
from swarms import World

from train.swarm.client import join
from train.swarm.coordinator.status import SECURITY_HEADERS, render_status_page
from train.swarm.messages import NodeStatus, SwarmStatus

HOSTILE = [
    "<script>document.title = 'owned'; fetch('/owned')</script>",
    "<img src=/owned onerror=\"document.title='owned'\">",
    "</td></table><h1>owned</h1><style>*{display:none}</style>",
    "' onmouseover='alert(1)' x='",
    "&lt;b&gt; &amp;",
    "\u202eexe.stekcit\u202c",
    "\0\r\n\x1b[31m",
    "x" * 10_000,
    "<meta http-equiv=refresh content='0;url=/owned'>",
    "javascript:alert(1)",
]


def node(number: int, words: str) -> NodeStatus:
    return NodeStatus(
        bytes([number]) * 32, "healthy", words, words, 3, 4.0, 5.0, 1, 9, 8, 0.9, 700, 100, {words: 2},  # type: ignore[dict-item]
    )  # fmt: skip


def hostile_status() -> SwarmStatus:
    nodes = tuple(node(number, words) for number, words in enumerate(HOSTILE))
    counts = dict.fromkeys(HOSTILE, 1)
    return SwarmStatus("run", 3, b"l" * 32, 12, nodes, counts, counts, counts, 1)  # type: ignore[arg-type]


def test_hostile_words_are_only_words(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(render_status_page(hostile_status()))
    address = (tmp_path / "page.html").as_uri()
    browser.open(address, width=1280, height=900)
    assert browser.value("document.title") == "Swarm run"
    assert browser.value("document.scripts.length") == 0
    assert browser.value("document.querySelectorAll('h1, img, [onmouseover]').length") == 1
    assert browser.value("document.querySelectorAll('meta[http-equiv]').length") == 1
    assert browser.value("document.querySelectorAll('table').length") == 4
    shown = browser.value("document.body.innerText")
    assert "<script>" in shown
    assert "&lt;b&gt;" in shown
    assert "\u202e" not in shown
    assert "x" * 100 not in shown
    assert [asked for asked in browser.asked if asked not in (address, "data:,")] == []
    assert browser.said == []


def test_no_row_hides_another(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(render_status_page(hostile_status()))
    for width in (1280, 500):
        browser.open((tmp_path / "page.html").as_uri(), width=width, height=900)
        assert browser.value("document.querySelector('table').tBodies[0].rows.length") == len(HOSTILE)
        assert browser.value("[...document.querySelectorAll('td')].every(cell => cell.offsetHeight > 0)")


def test_the_page_of_a_running_swarm_is_shown(browser: Browser, tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.coordinator():
        member = world.member()
        join(member.client, engine="transformers 5.0", hardware=HOSTILE[0])
        reply = urllib3.request("GET", world.page)
        assert {name: reply.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
        browser.said.clear()
        browser.open(world.page, width=1280, height=900)
        assert browser.value("document.title") == "Swarm a-run"
        shown = browser.value("document.body.innerText")
        assert member.client.node.hex()[:16] in shown
        assert "<script>" in shown
        assert browser.said == []
    world.close()


def test_an_empty_swarm_has_a_page() -> None:
    empty = SwarmStatus("run", -1, bytes(32), 0, (), {}, {}, {}, 0)
    assert "<h2>Nodes</h2>" in render_status_page(empty)
