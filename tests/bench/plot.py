"""Plots as SVG, written by hand: labelled rows, and for each of some columns a bar or a dot beside its figure."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, LABELS, RIGHT = 860, 214, 8
ROW, GROUP, HEAD, FOOT = 21, 27, 46, 26
# Of a letter, about; and between a bar and its figure.
LETTER, GAP = 7.4, 9
SCHEMES = {
    "light": {"ink": "#1f2328", "faint": "#656d76", "line": "#d0d7de", "ours": "#0a58ca", "other": "#868f99", "floor": "#57606a"},
    "dark": {"ink": "#e6edf3", "faint": "#8d96a0", "line": "#30363d", "ours": "#58a6ff", "other": "#6e7681", "floor": "#b1bac4"},
}


@dataclass(frozen=True)
class Column:
    heading: str
    # How a figure is written, as "{:.0f} µs".
    form: str
    # What takes the whole column; without it that is the largest value.
    whole: float = 0
    # And one below ten, where that is another way.
    small: str = ""

    def words(self, value):
        return (self.small if self.small and value < 10 else self.form).format(value)


@dataclass(frozen=True)
class Bar:
    """A row: `kind` is `ours`, `other` or `floor`; a value of None was not measured, or there is no such thing."""

    label: str
    kind: str
    values: tuple


@dataclass(frozen=True)
class Plot:
    name: str
    title: str
    # In words what is seen, for who does not see it.
    description: str
    columns: tuple
    # Headings with their bars.
    groups: tuple
    # Dots on one scale of powers of ten, common to all columns, where values lie far apart.
    log: bool = False

    def values(self, column=None):
        return [value for _, bars in self.groups for bar in bars for number, value in enumerate(bar.values)
                if value is not None and column in (None, number)]


def svg(plot, scheme):
    colours = SCHEMES[scheme]
    height = HEAD + sum(GROUP * bool(heading) + ROW * len(bars) for heading, bars in plot.groups) + FOOT
    width = (WIDTH - LABELS - RIGHT) / len(plot.columns)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
             'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12.5">',
             f"<title>{escape(plot.title)}</title>", f"<desc>{escape(plot.description)}</desc>",
             text(0, 16, plot.title, colours["ink"], weight=600, size=14)]
    for number, column in enumerate(plot.columns):
        left = LABELS + number * width
        parts.append(text(left, 38, column.heading, colours["faint"]))
        parts.append(f'<line x1="{left:.1f}" y1="{HEAD}" x2="{left:.1f}" y2="{height - FOOT}" stroke="{colours["line"]}"/>')
    top = HEAD
    for heading, bars in plot.groups:
        if heading:
            parts.append(text(0, top + 18, heading, colours["ink"], weight=600))
            top += GROUP
        for bar in bars:
            ink = colours["ink"] if bar.kind == "ours" else colours["faint"]
            parts.append(text(LABELS - 10, top + 15, bar.label, ink, anchor="end", weight=600 if bar.kind == "ours" else 400))
            for number, (column, value) in enumerate(zip(plot.columns, bar.values)):
                left = LABELS + number * width
                if value is None:
                    parts.append(text(left + 6, top + 15, "–", colours["faint"]))
                    continue
                length = (width - room(plot, number)) * share(plot, number, value)
                parts.append(dot(left, top, length, colours[bar.kind]) if plot.log else
                             block(left, top, length, colours[bar.kind], bar.kind == "floor"))
                parts.append(text(left + length + (GAP if plot.log else GAP / 2), top + 15, column.words(value), ink))
            top += ROW
    parts += [*legend(plot, height - 8, colours), "</svg>", ""]
    return "\n".join(parts)


def room(plot, column):
    """For the figures behind the bars of a column; on a common scale the same in all columns."""
    columns = range(len(plot.columns)) if plot.log else (column,)
    return GAP + 4 + LETTER * max(len(plot.columns[each].words(value)) for each in columns for value in plot.values(each))


def share(plot, column, value):
    """How much of its column a value takes, from 0 to 1."""
    if not plot.log:
        return value / (plot.columns[column].whole or max(plot.values(column)) or 1)
    low, high = (math.log10(max(edge, 1e-9)) for edge in (min(plot.values()), max(plot.values())))
    # The least keeps off the line.
    return 0.04 + 0.96 * (math.log10(max(value, 1e-9)) - low) / ((high - low) or 1)


def text(x, y, words, colour, *, anchor="start", weight=400, size=None):
    more = (f' text-anchor="{anchor}"' if anchor != "start" else "") + (f' font-weight="{weight}"' if weight != 400 else "") + (
        f' font-size="{size}"' if size else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{escape(words)}</text>'


def block(left, top, length, colour, hollow):
    shape = f'x="{left:.1f}" y="{top + 4}" width="{max(length, 1):.1f}" height="{ROW - 7}"'
    return f'<rect {shape} fill="none" stroke="{colour}"/>' if hollow else f'<rect {shape} fill="{colour}"/>'


def dot(left, top, length, colour):
    return f'<circle cx="{left + length:.1f}" cy="{top + ROW / 2:.1f}" r="4.5" fill="{colour}"/>'


def legend(plot, y, colours):
    kinds = {bar.kind for _, bars in plot.groups for bar in bars}
    x = LABELS
    for kind, word in (("ours", "Quorlock"), ("other", "others"), ("floor", "written by hand")):
        if kind in kinds:
            yield block(x, y - 15, 12, colours[kind], kind == "floor")
            yield text(x + 18, y, word, colours["faint"])
            x += 34 + 7 * len(word)
