"""`curate decontaminate`"""

import sys
from pathlib import Path

import click

from curate.commands.against import against
from curate.commands.counts import print_contamination
from curate.commands.extras import require_data
from sandbox.commands.frame import Progress


@click.command("decontaminate")
@click.argument("dataset")
@against(required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the cleaned dataset.")
@click.option("--text", metavar="COLUMN", help="Column of DATASET that holds the problems.  [default: the usual names]")
@click.option("--overwrite", is_flag=True, help="Replace another dataset in the folder.")
def command(dataset: str, against: tuple[str, ...], out: Path, text: str | None, overwrite: bool) -> None:
    """Copy DATASET without the rows that hold evaluation items.

    DATASET is a folder of build-dataset, or any file or folder of Parquet or JSON Lines. Rows that went are in
    rejected/; every hit, with its score and the words in common, is in contamination/.
    """
    require_data()
    from curate.decontamination.copy_without import clean
    from curate.errors import CurateError

    progress = Progress()
    try:
        manifest = clean(dataset, against, out, text=text, overwrite=overwrite, report=progress)
    except (CurateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; {dataset} is as it was, the same command starts again") from None
    finally:
        progress.close()
    print_contamination(manifest["decontamination"])
    kept = sum(count["kept"] for count in manifest["counts"].values())
    click.echo(f"\n{kept} rows in {out}; every hit is in {out / 'contamination'}")
    click.echo(f"content hash {manifest['content_hash']}")
    sys.exit(0 if kept else 1)
