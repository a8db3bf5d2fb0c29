"""What all pictures of runs share: the choice of runs, the style and the colours, and the way they are saved."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from train.errors import NoRunError

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.edgecolor": "none",
    "svg.hashsalt": "curate",  # the same metrics make the same file
    "svg.fonttype": "none",  # text in the picture can be searched and selected
}

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # by Okabe and Ito, for people with any colour vision


@dataclass(frozen=True, slots=True)
class PlottedRun:
    """A run's folder and its label in a picture."""

    label: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "PlottedRun":
        """Read FOLDER or LABEL=FOLDER."""
        label, equals, folder = text.partition("=")
        if equals and label and not Path(text).is_dir():
            return cls(label, Path(folder))
        return cls(Path(text).resolve().name, Path(text))


def save(figure: Figure, out: Path) -> None:
    """Write the picture in the format of the file's extension. Raises NoRunError for an unknown extension."""
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=150, metadata={"Date": None} if out.suffix == ".svg" else None)
    except ValueError as error:  # an unknown extension
        raise NoRunError(f"{out}: {error}. Give a name that ends in .svg, .png or .pdf.") from error
