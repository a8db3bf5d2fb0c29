"""What MkDocs does with our pages beyond Markdown: it renders reference pages and adapts links.

The pages are also read as files, so a link may lead to any file of the repository. On the site, a link to a page that
the site has under another name leads there, and a link to any other file outside docs/ becomes plain text.
"""

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

sys.path.insert(0, str(Path(__file__).parents[2]))  # the packages that the reference describes

import tables
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_RENDER = re.compile(r"^<!-- render: (\w+) -->$", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ASKED_OF_OTHERS = re.compile(r"""<(?:script|img|iframe)[^>]* src=["']?https?:|<link[^>]* href=["']?https?:""")
_MOVED = {"CONTRIBUTING.md": "docs/contributing.md", "README.md": "docs/index.md"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for name, text in tables.data_cards().items():
        files.append(File.generated(config, f"reference/data-cards/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = page.file.src_uri
    home = "data_cards/" if path.startswith("reference/data-cards/") else f"docs/{PurePosixPath(path).parent}/"
    markdown = _on_site(markdown, home, path)
    return _RENDER.sub(lambda asked: _on_site(tables.PAGES[asked[1]](), "", path), markdown)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    if found := _ASKED_OF_OTHERS.search(output):
        asked = output[found.start() :][:120]
        raise PluginError(f"{page.file.src_uri}: the page needs another host to be read: {asked}")
    return output


def _on_site(markdown: str, home: str, page: str) -> str:
    """Adapt the links in a text of the repository folder `home` to the page of the site that shows it."""
    parts = _FENCED.split(markdown)  # every second part is a fenced block
    parts[::2] = (_LINK.sub(lambda link: _link(link, home, page), part) for part in parts[::2])
    return "".join(parts)


def _link(link: re.Match[str], home: str, page: str) -> str:
    target = link["target"]
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    place = normpath(home + target)
    place = _MOVED.get(place, place)
    if place.startswith("data_cards/"):
        place = f"docs/reference/data-cards/{PurePosixPath(place).name}"
    if not place.startswith("docs/"):
        return link["text"]
    return f"[{link['text']}]({relpath(place, f'docs/{PurePosixPath(page).parent}')}{link['anchor'] or ''})"
