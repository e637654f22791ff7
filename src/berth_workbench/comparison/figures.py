"""Figures of a comparison as people read them, the same in tables, pictures and on the page."""

SHARES = ("utilisation", "packing", "fragmentation")


def shown_figure(name: str, value: float | None) -> str:
    """Return a figure as people read it: shares in percent, whole numbers whole, others with three digits."""
    if value is None:
        return "?"
    if name.split(".")[0] in SHARES:
        return f"{value + 0.0:.1%}".replace("-0.0%", "0.0%")
    return (
        f"{value:.0f}"
        if value == int(value) and abs(value) < 1e15
        else f"{value:.3g}"
        if abs(value) < 1000
        else f"{value:,.0f}"
    )
