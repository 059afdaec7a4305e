"""Tests of the report's page in a real browser."""

import re

import pytest

from tests import browser
from tests.experiments import report_runs
from tff_fair.experiments.presenting.report.page import report

HOSTILE = "<script>alert(1)</script>"
SKILLS = {"fedavg": 0.0, "adafed": 0.5, "afl": -0.7, HOSTILE: 0.9}
DARK = [{"name": "prefers-color-scheme", "value": "dark"}]

pytestmark = pytest.mark.skipif(
  browser.missing() is not None, reason=str(browser.missing())
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
  """Writes a report of four methods on a task; returns its address.

  The first method has one seed, the others have two.
  """
  folder = tmp_path_factory.mktemp("report")
  for number, (algorithm, skill) in enumerate(SKILLS.items()):
    for seed in (0, 1) if number else (0,):
      report_runs.make(
        folder / "runs" / f"{number}-{seed}",
        seed=seed,
        # A sweep may give a method any name.
        algorithm="term" if algorithm == HOSTILE else algorithm,
        method=HOSTILE if algorithm == HOSTILE else None,
        skill=skill,
        num_clients=20,
      )
  return report(folder, folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def session():
  with browser.started() as found:
    yield found


@pytest.fixture
def shown(session, address):
  """Opens the page anew; afterwards, undoes emulation and resizing."""
  session.open(address)
  yield session
  session.devtools("Emulation.setEmulatedMedia", media="", features=[])
  session.devtools("Emulation.setScriptExecutionDisabled", value=False)
  session.devtools("Emulation.clearDeviceMetricsOverride")
  session.resize(1280, 900)


def each(session, selector, value):
  """Returns a JavaScript value for each element `e` that a selector finds."""
  elements = f'document.querySelectorAll("{selector}")'
  return session.run(f"return Array.from({elements}, (e) => {value})")


def column(session, head, what="textContent"):
  """Returns the column `head` of the verdict's table, from top to bottom."""
  return session.run(
    f"""
    const table = document.querySelector("#t0-verdict table.sortable");
    const heads = Array.from(table.tHead.rows[0].cells);
    const place = heads.findIndex((c) => c.textContent === "{head}");
    return Array.from(table.tBodies[0].rows, (r) => r.cells[place].{what});
    """
  )


def head_of(session, head):
  """Gives a column head of the verdict's table an id; returns its selector."""
  heads = session.run(
    f"""
    document.querySelector("#wanted")?.removeAttribute("id");
    const table = document.querySelector("#t0-verdict table.sortable");
    const heads = Array.from(table.querySelectorAll("th button"));
    const head = heads.find((c) => c.textContent === "{head}");
    if (head) head.id = "wanted";
    return heads.map((c) => c.textContent);
    """
  )
  assert head in heads
  return "#wanted"


def test_the_page_renders_without_a_word_on_the_console(shown):
  assert shown.run("return document.title") == "Fairness on digits"
  figures = shown.find("figure svg")
  assert len(figures) > 20
  assert sum(map(shown.is_shown, figures)) == (
    # The numbers count, in this order: figures of each client; curves,
    # trade-offs, bars; ordered clients, histograms; improved clients,
    # stationarity, losses, directions; coefficients, labels.
    2 + (6 + 2 + 3) + (1 + 4) + (1 + 4 + 1 + 1) + (4 + 1)
  )
  assert len(shown.screenshot()) > 10_000
  # The log would hold all errors and warnings about the page.
  assert shown.log("browser") == []


def test_a_complaint_would_be_noticed(shown):
  shown.run("console.error('a complaint'); fetch('https://example.com')")
  assert len(shown.log("browser")) >= 2


def test_no_request_leaves_the_file(session, address):
  session.requests()
  session.open(address)
  session.click("label[for=t0-bytes]")
  assert session.requests() == [address]


def test_a_hostile_name_is_only_text(shown):
  assert shown.run("return document.scripts.length") == 1
  assert HOSTILE in column(shown, "Method")


def test_a_click_sorts_by_number_the_best_first_then_reversed(shown):
  before = column(shown, "Mean")
  numbers = [float(value) for value in column(shown, "Mean", "dataset.value")]
  assert numbers != sorted(numbers)
  assert sum(" ± " in text for text in before) == 3
  head = head_of(shown, "Mean")
  shown.click(head)
  values = column(shown, "Mean", "dataset.value")
  assert [float(v) for v in values] == sorted(numbers, reverse=True)
  state = "return document.querySelector('#wanted').closest('th').ariaSort"
  assert shown.run(state) == "descending"
  shown.click(head)
  values = column(shown, "Mean", "dataset.value")
  assert [float(v) for v in values] == sorted(numbers)
  assert shown.run(state) == "ascending"
  # Whole rows have moved.
  assert sorted(column(shown, "Mean")) == sorted(before)
  assert column(shown, "Method")[0] == "AFL"
  # A smaller spread is better.
  shown.click(head_of(shown, "Std"))
  spreads = [float(v) for v in column(shown, "Std", "dataset.value")]
  assert spreads == sorted(spreads)
  assert len(shown.find("#t0-verdict [aria-sort]")) == 1


def test_numbers_are_not_sorted_as_text(shown):
  shown.run(
    """
    const table = document.querySelector("#t0-verdict table.sortable");
    const rows = table.tBodies[0].rows;
    ["9.5", "NaN", "100", "-Infinity"].forEach(
      (value, n) => (rows[n].cells[2].dataset.value = value));
    """
  )
  head = head_of(shown, "Mean")
  for order in (
    ["100", "9.5", "-Infinity", "NaN"],
    ["-Infinity", "9.5", "100", "NaN"],
  ):
    shown.click(head)
    assert column(shown, "Mean", "dataset.value") == order


def test_names_are_sorted_as_text(shown):
  shown.click(head_of(shown, "Method"))
  names = column(shown, "Method", "dataset.value")
  assert names == [HOSTILE, "AdaFed", "AFL", "FedAvg"]


@pytest.mark.parametrize("key", [browser.ENTER, browser.SPACE])
def test_tables_are_sorted_with_the_keyboard(shown, key):
  # From the scrolling table, each Tab moves to the next column head.
  shown.run("document.querySelector('#t0-verdict .scrolling').focus()")
  shown.press(browser.TAB * 3)
  assert shown.run("return document.activeElement.textContent") == "Mean"
  shown.press(key)
  values = column(shown, "Mean", "dataset.value")
  assert values == sorted(values, key=float, reverse=True)


def set_screen(session, width, **options):
  """Emulates a screen; one narrower than 500 pixels is a phone's."""
  options = {"width": width, "height": 800, "mobile": width < 500, **options}
  session.devtools("Emulation.setDeviceMetricsOverride", **options)


def panels(session):
  return [
    name
    for name in ("rounds", "bytes", "operations")
    if any(map(session.is_shown, session.find(f".panel.on-{name}")))
  ]


def test_the_axis_is_chosen_with_mouse_and_keyboard(shown):
  assert panels(shown) == ["rounds"]
  shown.click("label[for=t0-bytes]")
  assert panels(shown) == ["bytes"]
  labels = each(shown, ".on-bytes .label", "e.textContent")
  assert set(labels) == {"bytes down and up (MB)"}
  shown.press(browser.RIGHT)
  assert panels(shown) == ["operations"]
  shown.press(browser.RIGHT)
  assert panels(shown) == ["rounds"]


def test_a_method_is_hidden_in_all_charts(shown):
  series = shown.find("figure .m1")
  assert len(series) > 8
  shown.click(".show-m1")
  assert not any(map(shown.is_shown, series))
  assert all(map(shown.is_shown, shown.find(".on-rounds .series.m2")))
  shown.click(".show-m1")
  assert any(map(shown.is_shown, series))


def test_the_band_of_a_chosen_method_is_filled(shown):
  def looks():
    return [
      (
        shown.style(f"#t0-rounds-accuracy-mean .band.m{n}", "fill-opacity"),
        shown.style(f"#t0-rounds-accuracy-mean .series.m{n}", "opacity"),
      )
      for n in (1, 2)
    ]

  assert looks() == [("0", "1")] * 2
  shown.click("label[for=t0-chosen-1]")
  assert looks() == [("0.2", "1"), ("0", "0.15")]
  shown.click("label[for=t0-chosen-none]")
  # The pointer has left the method's name.
  assert looks() == [("0", "1")] * 2


def test_folds_unfold(shown):
  (table,) = shown.find("#t0-all-measures details:first-of-type table")[:1]
  assert not shown.is_shown(table)
  shown.click("#t0-all-measures details:first-of-type summary")
  assert shown.is_shown(table)


def test_without_scripts_all_is_there_but_sorting(shown, address):
  shown.devtools("Emulation.setScriptExecutionDisabled", value=True)
  shown.open(address)
  assert shown.find("thead button") == []
  shown.click("label[for=t0-operations]")
  assert panels(shown) == ["operations"]
  shown.click(".show-m0")
  assert not any(map(shown.is_shown, shown.find(".on-operations .m0")))
  assert shown.log("browser") == []


def brightness(color):
  red, green, blue = map(int, re.findall(r"\d+", color)[:3])
  return red + green + blue


def test_it_is_dark_where_the_reader_wants_that(shown):
  def brightnesses():
    return [
      brightness(shown.style(selector, name))
      for selector, name in (
        ("html", "background-color"),
        ("header p", "color"),
        ("#t0-rounds-accuracy-mean .label", "fill"),
        ("body", "color"),
      )
    ]

  page_color, *_ = light = brightnesses()
  assert page_color > 700
  assert light == sorted(light, reverse=True)
  shown.devtools("Emulation.setEmulatedMedia", features=DARK)
  page_color, *_ = dark = brightnesses()
  assert page_color < 100
  assert dark == sorted(dark)


def test_print_is_light_and_complete(shown):
  shown.click("label[for=t0-bytes]")
  shown.devtools("Emulation.setEmulatedMedia", media="print", features=DARK)
  assert brightness(shown.style("body", "color")) < 150
  assert panels(shown) == ["bytes"]
  shown.resize(700, 900)  # A4 without its margins.
  assert not any(each(shown, ".scrolling", "e.scrollWidth > e.clientWidth"))
  labels = shown.find(".legend .entry label")
  assert [shown.is_shown(label) for label in labels] == [True] * 4
  assert all(map(shown.is_shown, shown.find(".runs code")))
  # Folds are open; controls are hidden.
  assert each(shown, "details table", "e.checkVisibility()") == [True] * 10
  assert not any(map(shown.is_shown, shown.find("summary, nav, .legend input")))
  assert shown.pdf().startswith(b"%PDF")


def test_a_narrow_window_scrolls_later_tables_and_nothing_else(shown):
  shown.resize(500, 800)  # The least width of Chromium's windows.
  width = shown.run("return document.documentElement.scrollWidth")
  assert width <= shown.run("return innerWidth")
  scrolls = each(shown, ".scrolling", "e.scrollWidth > e.clientWidth")
  # The first two tables become cards, which do not scroll.
  assert scrolls[:2] == [False, False]
  assert any(scrolls)


def test_text_of_charts_is_readable_on_a_phone(shown):
  set_screen(shown, width=375, deviceScaleFactor=2)
  sizes = shown.run(
    "return Array.from(document.querySelectorAll('figure text'),"
    " (e) => [e.ownerSVGElement.getScreenCTM()?.a, getComputedStyle(e)])"
    ".filter(([scale]) => scale)"
    ".map(([scale, style]) => scale * parseFloat(style.fontSize))"
  )
  assert len(sizes) > 100
  assert min(sizes) > 10.5
  assert max(sizes) < 17
  # Words below each other, such as names of clients, do not overlap.
  spaces = shown.run(
    "return Array.from(document.querySelectorAll('figure svg'), (svg) => {"
    " const places = {};"
    " for (const e of svg.querySelectorAll('text')) {"
    "  const box = e.getBoundingClientRect();"
    "  if (box.height) (places[Math.round(box.right)] ??= [])"
    "   .push(box.top / box.height);"
    " }"
    " return Object.values(places).flatMap((tops) =>"
    "  tops.sort((a, b) => a - b).slice(1).map((y, k) => y - tops[k]));"
    "}).flat()"
  )
  assert len(spaces) > 100
  assert min(spaces) > 0.72  # Letters take about this share of a line's height.


@pytest.mark.parametrize("width", [390, 1280])
def test_a_link_of_the_contents_leads_to_a_heading_that_is_to_be_seen(
  shown, width
):
  set_screen(shown, width, deviceScaleFactor=1)
  links = each(shown, "nav a", "e.getAttribute('href')")
  for link in links[:: 4 if width < 500 else 1]:
    shown.click(f"nav a[href='{link}']")
    assert shown.run(
      f"const h = document.querySelector('{link} h3');"
      "const {left, top, height} = h.getBoundingClientRect();"
      "return document.elementFromPoint(left + 5, top + height / 2) === h;"
    ), link
    shown.run("scrollTo(0, 0)")
  position = shown.style(".legend", "position")
  assert position == ("static" if width < 500 else "sticky")
