"""Write the card of a dataset that curate did not build, and from which it only removed rows."""

from pathlib import Path

from curate.dataset import card
from curate.manifest import Manifest


def write(manifest: Manifest, folder: Path) -> None:
    """Write the card of the dataset in `folder`, which must already contain the other files."""
    lines = [
        "---",
        *card.config_lines(manifest, folder),
        "---",
        "",
        "# A dataset without evaluation items",
        "",
        f"{manifest.n_kept} of {manifest.n_read} rows are left. Content hash `{manifest.content_hash}`.",
        "",
        *card.contamination_section(manifest),
    ]
    (folder / "README.md").write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
