"""What all pictures have in common: the library behind them, their look, and the files they are written to.

A module of this package makes a figure of a result: `draw(result, figure)`. `write_picture` is what a command calls.
SVG and PNG are the picture; HTML is a page of its own with the SVG and its description in it, which needs nothing from
outside.
"""

import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.api.user_error import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".html")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#525252")
"""Colours that people with any colour vision tell apart (Okabe and Ito, 2008), the strongest first."""

_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "svg.fonttype": "none",  # text stays text: smaller, found by searches, read by screen readers
    "svg.hashsalt": "berth",
    "text.parse_math": False,  # a name with dollar signs is a name, not a formula
    "figure.constrained_layout.use": True,
}


class PictureError(UserError, ValueError):
    """A picture that cannot be drawn; the message is one line that says why, and what to do."""


def check_picture(path: str | Path) -> None:
    """Raise `PictureError` where no picture can be written to a file of this name: best asked before the work."""
    if Path(path).suffix not in FORMATS:
        raise PictureError(f"--plot {path}: a picture's name ends in {', '.join(FORMATS)}")
    if not Path(path).absolute().parent.is_dir():
        raise PictureError(f"--plot {path}: there is no directory {Path(path).absolute().parent}")
    try:
        import matplotlib.figure  # noqa: F401 - whether it is there is the question
    except ImportError:
        raise PictureError("--plot needs matplotlib: pip install 'berth-scheduler[plot]'") from None


def write_picture(
    path: str | Path,
    draw: Callable[["Figure"], Any],
    *,
    title: str,
    description: str,
    size: tuple[float, float] = (8.0, 4.5),
) -> None:
    """Have `draw` fill a figure of this size in inches, and write it; the same result gives the same file.

    `description` says in words what the picture shows, for those who cannot see it. Raises `PictureError`.
    """
    check_picture(path)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        figure.suptitle(title)
        draw(figure)
        suffix = Path(path).suffix
        content = io.BytesIO()
        kind = "png" if suffix == ".png" else "svg"
        extra: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 144}
        figure.savefig(content, format=kind, **extra)
    written = content.getvalue()
    if suffix == ".html":
        written = _page(written.decode(), title, description).encode()
    try:
        Path(path).write_bytes(written)
    except OSError as error:
        raise PictureError(f"--plot {path}: cannot be written: {error.strerror}") from None


def _page(svg: str, title: str, description: str) -> str:
    drawn = svg[svg.index("<svg") :]
    told = html.escape(description)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        "<style>body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "svg{max-width:100%;height:auto;background:#fff}</style></head>\n"
        f'<body><figure role="img" aria-label="{html.escape(title, quote=True)}">{drawn}'
        f"<figcaption>{told}</figcaption></figure></body></html>\n"
    )
