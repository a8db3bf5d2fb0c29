"""Install small packages for tests, without pip."""

import csv
import io
from pathlib import Path


def install(
    folder: Path, name: str, files: dict[str, str], *, version: str = "1.0", needs: tuple[str, ...] = ()
) -> None:
    """Install a package in the way of pip: its files, and a .dist-info folder that lists them."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    contents = {**files, f"{info}/METADATA": metadata, f"{info}/direct_url.json": f'{{"url": "file://{folder}"}}'}
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    rows = io.StringIO()
    csv.writer(rows).writerows([*((path, "", "") for path in contents), (f"{info}/RECORD", "", "")])
    (folder / info / "RECORD").write_text(rows.getvalue())
