"""Draw a learning curve as SVG, readable on white and on black."""

from __future__ import annotations

import math
from collections.abc import Sequence

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 50, 16, 16, 44


LAST_EPISODES = "mean return of the last 100 episodes"


def curve(
    steps: Sequence[int], returns: Sequence[float], *, reference: float, shipped: int, what: str = LAST_EPISODES
) -> str:
    """Draw mean returns against environment steps, with a dashed line for a random policy and a dot for the shipped
    checkpoint. Return the SVG. `what` describes the returns.
    """
    points = [(x, y) for x, y in zip(steps, returns, strict=True) if not math.isnan(y)]
    largest_x, largest_y = max(x for x, _ in points), max(max(y for _, y in points), reference) * 1.08
    lowest_y = min(0.0, min(y for _, y in points))

    def point(x: float, y: float) -> tuple[float, float]:
        column = LEFT + (WIDTH - LEFT - RIGHT) * x / largest_x
        up = (HEIGHT - TOP - BOTTOM) * (y - lowest_y) / (largest_y - lowest_y)
        return round(column, 1), round(HEIGHT - BOTTOM - up, 1)

    parts = []
    across = f'x1="{LEFT}" x2="{WIDTH - RIGHT}"'
    for y in ticks(lowest_y, largest_y):
        row = point(0, y)[1]
        parts.append(f'<line {across} y1="{row}" y2="{row}" stroke="#888" stroke-opacity=".3"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{row + 4}" text-anchor="end">{y:g}</text>')
    for x in ticks(0, largest_x / 1e6):
        column = point(x * 1e6, 0)[0]
        parts.append(f'<text x="{column}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    row = point(0, reference)[1]
    parts.append(
        f'<line {across} y1="{row}" y2="{row}" stroke="#888" stroke-dasharray="5 4"/>'
        f'<text x="{WIDTH - RIGHT - 4}" y="{row - 6}" text-anchor="end">random policy</text>'
    )
    path = " ".join(f"{x},{y}" for x, y in (point(*pair) for pair in points))
    parts.append(f'<polyline points="{path}" fill="none" stroke="#2a7ab8" stroke-width="2"/>')
    x, y = point(*min(points, key=lambda pair: abs(pair[0] - shipped)))
    parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="#2a7ab8"/>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"million environment steps; {what}</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#888">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first = math.ceil(low / step)
    return [round(step * i, 10) for i in range(first, math.floor(high / step) + 1)]
