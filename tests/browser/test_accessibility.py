"""axe finds nothing, and the keyboard reaches everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Visitor

Open = Callable[..., Visitor]
QUERY = "?layer=2b&frame=30&rows=value,value~4a"


def violations(visitor: Visitor, axe: str) -> list[str]:
    visitor.page.evaluate(axe)
    found = visitor.page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations)")
    return [f"{rule['id']} ({rule['impact']}): {node['html'][:160]}" for rule in found for node in rule["nodes"][:3]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_passes_the_axe_accessibility_checks(synthetic: Path, open_page: Open, axe: str, scheme: str) -> None:
    visitor = open_page(synthetic, QUERY, color_scheme=scheme, reduced_motion="reduce")
    visitor.click("more-options")
    visitor.by("totals-over-time").first.check()
    assert violations(visitor, axe) == []
    for key in ("f", "n", "t", "e", "?"):
        visitor.press(key)
        visitor.by("drawer").wait_for()
        if key == "f":
            visitor.click("find-go")
            visitor.by("find-results").wait_for()
        assert violations(visitor, axe) == [], f"with the panel of {key}"
    visitor.by("legend-1").locator(".card").click()
    visitor.click("tab-place")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    assert violations(visitor, axe) == []


@pytest.mark.parametrize("width", [1024, 390])
def test_the_page_passes_axe_accessibility_checks_in_narrow_windows(
    synthetic: Path, open_page: Open, axe: str, width: int
) -> None:
    visitor = open_page(synthetic, "?frame=30", toured=False, viewport={"width": width, "height": 800})
    visitor.by("tour").wait_for()
    assert violations(visitor, axe) == []


def test_the_keyboard_reaches_every_control_with_a_visible_focus(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, QUERY)
    visitor.click("more-options")
    controls = visitor.page.evaluate(
        """() => [...document.querySelectorAll('button, a[href], input, select, textarea, summary')]
          .filter((e) => !e.disabled && e.offsetParent !== null).length"""
    )
    visitor.page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    reached = set()
    for _ in range(controls + 5):
        visitor.press("Tab")
        reached.add(
            visitor.page.evaluate(
                """() => {
                  const e = document.activeElement;
                  window.__ids ??= new Map();
                  if (!window.__ids.has(e)) window.__ids.set(e, window.__ids.size);
                  const { outlineStyle, outlineWidth } = getComputedStyle(e);
                  return e === document.body ? "body" : `${window.__ids.get(e)} ${outlineStyle} ${outlineWidth}`;
                }"""
            )
        )
    focused = [place for place in reached if place != "body"]
    assert len({place.split()[0] for place in focused}) == controls
    assert all(" none " not in place for place in focused), "focus is visible"


def test_the_feature_grid_can_be_used_by_keyboard(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=4a&frame=30")
    visitor.by("legend-1").locator(".card").focus()
    visitor.press("Enter")
    visitor.click("tab-place")
    visitor.page.wait_for_selector('[data-testid=feature-grid][data-loaded="1"]')
    visitor.by("feature-grid").locator("..").focus()
    visitor.press("ArrowRight", "ArrowDown", "Enter")
    expect(visitor.by("whole-observation")).to_be_visible()
    assert visitor.frame() == 30, "arrows move in the grid, not in time"
    visitor.press("Escape")
    expect(visitor.by("drawer")).to_have_count(0)
    assert visitor.page.evaluate("document.activeElement.className").startswith("card"), "focus returns"


def test_controls_announce_names_and_values(synthetic: Path, open_page: Open) -> None:
    visitor = open_page(synthetic, "?layer=2b&frame=30")
    slider = visitor.page.get_by_role("slider", name="Frame")
    assert slider.input_value() == "30"
    slider.focus()
    visitor.press("ArrowRight")
    assert visitor.frame() == 31
    expect(visitor.page.get_by_role("button", name="2b", exact=True, pressed=True)).to_have_count(1)
    expect(visitor.page.get_by_role("img", name="Positive attribution, layer 2b, frame 31")).to_have_count(1)
    expect(visitor.page.get_by_role("img", name="Advantage: ")).to_have_count(1)


@pytest.mark.parametrize("width", [1366, 390])
def test_clickable_targets_are_at_least_24_pixels_large(synthetic: Path, open_page: Open, width: int) -> None:
    visitor = open_page(synthetic, QUERY, viewport={"width": width, "height": 800})
    visitor.click("more-options")
    for key in ("", "f", "n", "t", "e", "?", "l", "feature"):
        if key == "feature":
            visitor.click("table-feature-1")
            visitor.by("example").first.wait_for()
        elif key:
            visitor.press(key)
            visitor.by("drawer").wait_for()
        small = visitor.page.evaluate(
            """() => [...document.querySelectorAll('button, a[href], input, select, textarea')]
              .filter((e) => e.offsetParent && getComputedStyle(e).clipPath === 'none')
              .map((e) => [e, (e.matches('[type=checkbox]') ? e.closest('label') ?? e : e).getBoundingClientRect()])
              .filter(([, { width, height }]) => width && Math.min(width, height) < 23.9)
              .map(([e]) => e.outerHTML.slice(0, 120))"""
        )
        assert small == [], f"with the panel of {key!r}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_border_lines_have_a_contrast_of_three_to_one(synthetic: Path, open_page: Open, scheme: str) -> None:
    visitor = open_page(synthetic, color_scheme=scheme)
    names = ("line-2", "surface", "canvas", "raised", "well")
    line, *grounds = (
        visitor.page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
        for name in names
    )
    for ground in grounds:
        low, high = sorted((luminance(line), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3, (line, ground)


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
