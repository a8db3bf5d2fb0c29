from importlib import import_module
from pathlib import Path

import pytest
from curate_command import curate

from curate.pipeline import source_names

CARDS = Path(__file__).parents[3] / "data_cards"


def test_every_source_is_listed_with_what_is_known_about_it():
    result = curate("sources", check=True)
    for name in source_names():
        source = import_module(f"curate.sources.{name}")
        assert f"{name}: {source.TITLE}, {source.SIZE_DESCRIPTION}\n" in result.output
        assert f"Hub id {source.HUB_ID or 'none'}, licence {source.LICENCE}\n" in result.output
        assert f"known defects: {source.DEFECTS}\n" in result.output


@pytest.mark.parametrize("name", source_names())
def test_every_source_has_a_card_with_the_same_facts(name):
    source = import_module(f"curate.sources.{name}")
    card = (CARDS / f"{name}.md").read_text()
    assert card.startswith(f"# {source.TITLE}")
    for fact in (source.HUB_ID, source.SIZE_DESCRIPTION, source.LICENCE, f"`curate/sources/{name}.py`"):
        assert fact.lower() in card.lower()
