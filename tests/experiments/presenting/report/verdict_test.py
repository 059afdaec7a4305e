"""Tests of the verdict: its sentences, marks and differences."""

import re

import numpy as np
import pytest

from tests.experiments import run_folders
from tests.experiments.presenting.report.page_parts import drawn, texts, words
from tests.refusals import rejected
from tff_fair.experiments.presenting.report import verdict_section
from tff_fair.experiments.runs.discovery import find

NUM_CLIENTS = 12


def make(folder, accuracies, seeds=3, swing=0.0, **settings):
  """Writes runs whose clients' accuracies spread around the method's mean.

  `swing` is added to adafed's accuracies with even seeds, otherwise subtracted.
  """
  for algorithm, mean in accuracies.items():
    for seed in range(seeds):
      # Clients differ in the same way for all methods; there is little noise.
      clients = np.linspace(-0.1, 0.1, NUM_CLIENTS)
      generator = np.random.default_rng([seed, *algorithm.encode()])
      change = swing * (-1) ** seed if algorithm == "adafed" else 0
      noise = generator.normal(0, 0.002, NUM_CLIENTS)
      run_folders.make(
        folder / f"{algorithm}-{seed}",
        [(4, tuple(mean + change + clients + noise))],
        algorithm=algorithm,
        seed=seed,
        **settings.get(algorithm, {}),
      )


def build(folder, **arguments):
  return drawn(verdict_section.build, folder, **arguments)


def sentences(root):
  return texts(root, "dd")


def conclusion(root):
  return words(root.find("p[@class='conclusion']"))


def column(root, head):
  """Returns the cells of the column `head`, by method."""
  heads = texts(root.find(".//thead"), "th")
  rows = root.findall(".//tbody/tr")
  return {words(row[0]): row[heads.index(head)] for row in rows}


def bold(root, head):
  cells = column(root, head).items()
  return {name for name, cell in cells if cell.find("strong") is not None}


def test_bold_is_what_no_method_is_separable_from(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "afl": 0.7, "adafed": 0.7}, 4, 0.02)
  root = build(tmp_path)
  assert bold(root, "Mean") == {"AFL", "AdaFed"}
  assert bold(root, "Worst 10 %") == {"AFL", "AdaFed"}
  assert sentences(root)[0].count("No clear difference to A") == 1
  # The worst of three methods is never called second.
  assert root.findall(".//em") == []


def test_a_method_that_stands_apart_is_named_as_such(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "afl": 0.6, "adafed": 0.7})
  root = build(tmp_path)
  assert bold(root, "Mean") == {"AdaFed"}
  assert sentences(root)[0] == (
    f"AdaFed {words(column(root, 'Mean')['AdaFed'])[:5]} %. All other methods "
    "clearly differ from it."
  )
  assert column(root, "Mean")["AFL"].find("em") is not None
  assert column(root, "Mean")["FedAvg"].find("em") is None


def test_with_one_seed_nothing_is_bold(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "afl": 0.7}, seeds=1)
  root = build(tmp_path)
  assert root.findall(".//strong") == root.findall(".//em") == []
  assert sentences(root) == []
  assert "1 seed: no uncertainty" in words(root.find(".//ul"))
  told = conclusion(root)
  assert told.startswith("AFL is clearly better than FedAvg: Mean, Worst 10 %.")
  assert "1 seed: the interval is only over clients" in told
  # With the question "these_clients", one seed gives no interval.
  told = conclusion(build(tmp_path, question="these_clients"))
  assert told.startswith("No method clearly differs from FedAvg")
  assert "there is no interval" in told


def test_without_a_clear_difference_no_method_wins(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "adafed": 0.5}, 3, 0.02)
  root = build(tmp_path)
  assert conclusion(root).startswith(
    "No method clearly differs from FedAvg in any column: for clients like "
    "these, these runs give no reason for another one."
  )
  assert "question=other_clients; rounds sample" in conclusion(root)
  assert "Bold" not in words(root)
  assert root.findall(".//strong") == []


def test_methods_without_a_common_seed_are_not_compared(tmp_path):
  make(tmp_path, {"fedavg": 0.5}, seeds=1)
  other = {"algorithm": "fedmgda_plus", "seed": 5}
  run_folders.make(tmp_path / "b", [(4, (0.5, 0.7))], **other)
  root = build(tmp_path)
  assert conclusion(root) == "No method has a seed in common with FedAvg."


def test_differences_are_those_of_the_seeds(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "afl": 0.7, "term": 0.5})
  root = build(tmp_path)
  means = {"fedavg": [], "afl": [], "term": []}
  for run in find([tmp_path]):
    means[run.algorithm].append(run.evaluations["accuracy/mean"].iloc[-1])
  cells = column(root, "Δ Mean")
  found = float(cells["AFL"].get("data-value"))
  change = np.mean(means["afl"]) - np.mean(means["fedavg"])
  assert found == pytest.approx(100 * change)
  assert words(cells["AFL"]).startswith(f"+{found:.2f} [+")
  assert cells["AFL"].get("class") == "difference"
  # An uncertain difference has the grey style.
  assert cells["TERM"].get("class") == "difference untold"
  assert words(cells["FedAvg"]) == "baseline"
  record = column(root, "Clients better, same, worse")["AFL"]
  assert [span.text for span in record] == [str(NUM_CLIENTS), "0", "0"]


def test_intervals_are_drawn_to_one_scale_around_0(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "afl": 0.7, "term": 0.4})
  root = build(tmp_path)
  assert "TERM is clearly worse than FedAvg: Mean, W" in conclusion(root)
  cells = column(root, "Δ Mean")
  zeros, places = set(), {}
  for name in ("AFL", "TERM"):
    paths = {p.get("class"): p.get("d") for p in cells[name].iter("path")}
    zeros.add(paths["zero"])
    places[name] = float(paths["estimate"][1:].split()[0])
  (zero,) = zeros
  assert places["TERM"] < float(zero[1:].split()[0]) < places["AFL"]


def test_the_baseline_is_chosen(tmp_path):
  make(tmp_path, {"afl": 0.5, "fedavg": 0.7})
  assert list(column(build(tmp_path), "Δ Std")) == ["FedAvg", "AFL"]
  for name in ("afl", "AFL"):
    cells = column(build(tmp_path, baseline=name), "Δ Std")
    assert list(cells) == ["AFL", "FedAvg"]
    assert words(cells["AFL"]) == "baseline"
  with rejected("baseline", value="term"):
    build(tmp_path, baseline="term")


def test_the_baseline_is_a_label_of_the_page(tmp_path):
  for rate in (0.1, 0.5):
    settings = {"client_learning_rate": rate}
    make(tmp_path / str(rate), {"adafed": 0.5}, adafed=settings)
  root = build(tmp_path, baseline="AdaFed, client_learning_rate=0.5")
  assert list(column(root, "Mean")) == [
    "AdaFed, client_learning_rate=0.5",
    "AdaFed, client_learning_rate=0.1",
  ]
  # Two methods have this name.
  with rejected("baseline", "client_learning_rate=0.1", value="AdaFed"):
    build(tmp_path, baseline="AdaFed")


def test_settings_that_differ_stand_above_the_table(tmp_path):
  settings = {"client_learning_rate": 0.5}
  make(tmp_path, {"fedavg": 0.5, "afl": 0.7}, 2, afl=settings)
  root = build(tmp_path)
  kinds = [child.get("class") or child.tag for child in root]
  assert kinds.index("caution") < kinds.index("scrolling")
  assert "Not the same in all rows: client_learning_rate." in words(root)


@pytest.mark.parametrize("num_clients", [1, 3])
def test_with_few_clients_that_are_all_the_same_nothing_is_told(
  tmp_path, num_clients
):
  seeds = [(0.5, 0.25, 1.0)[:num_clients]] * 2
  run_folders.make_methods(tmp_path, {"fedavg": seeds, "afl": seeds})
  root = build(tmp_path)
  caption = words(root.find(".//caption"))
  assert f"worst 10 %: 1 of {num_clients} clients" in caption
  assert root.findall(".//strong") == []
  cell = column(root, "Δ Mean")["AFL"]
  assert words(cell) == "+0.00"
  assert cell.get("class") == "difference untold"
  assert "nan" not in "".join(path.get("d") for path in root.iter("path"))


def test_a_single_method_is_compared_with_nothing(tmp_path):
  make(tmp_path, {"fedavg": 0.5})
  root = build(tmp_path)
  assert "Δ" not in words(root)
  assert sentences(root) == []
  assert re.fullmatch(
    r"FedAvg reaches a mean accuracy of \d\d\.\d\d %, and 40\.\d\d % for the "
    r"worst 10 % \(2 of 12 clients\)\. There is no other method to compare "
    r"it with\.",
    conclusion(root),
  )


def test_a_verdict_claims_no_more_than_the_marks(tmp_path):
  # With both seeds, the difference of the means is the same by chance, up to
  # rounding in float32.
  correct = [[(5, 7, 10), (4, 6, 9)], [(9, 6, 11), (8, 8, 7)]]
  twelfths = (np.array(correct, np.float32) / np.float32(12)).astype(float)
  methods = dict(zip(("fedavg", "fedfv"), twelfths, strict=True))
  run_folders.make_methods(tmp_path, methods)
  root = build(tmp_path)
  assert bold(root, "Mean") == set()
  assert sentences(root)[0].endswith("No method clearly differs from it.")
  assert not any("All other methods" in text for text in sentences(root))
  assert column(root, "Δ Mean")["FedFV"].get("class") == "difference untold"


def test_a_verdict_is_not_about_methods_that_are_not_compared(tmp_path):
  make(tmp_path, {"fedavg": 0.5, "adafed": 0.7})
  make(tmp_path, {"afl": 0.6}, seeds=1)
  said = sentences(build(tmp_path))[0]
  assert "except AFL" in said
  assert "FedAvg" not in said


def test_a_difference_is_grey_where_its_interval_has_0(tmp_path):
  # Some p-values are below 0.05, the level for one method, but not below 0.017,
  # the level for three methods.
  for gain in (0.01, 0.03, 0.05, 0.07):
    folder = tmp_path / str(gain)
    make(folder, {"fedavg": 0.5, "afl": 0.5 + gain, "term": 0.5}, 3)
    make(folder, {"adafed": 0.5 + gain}, 3, 0.02)
    cells = column(build(folder), "Δ Mean")
    for name in ("AFL", "TERM", "AdaFed"):
      interval = re.search(r"\[(.*?), (.*?)\]", words(cells[name]))
      low, high = (float(end.replace("−", "-")) for end in interval.groups())
      is_clear = cells[name].get("class") == "difference"
      assert is_clear == (low > 0 or high < 0)


def test_the_verdict_is_against_the_better_fedavg(tmp_path):
  make(tmp_path / "a", {"fedavg": 0.5, "adafed": 0.7})
  make(tmp_path / "b", {"fedavg": 0.8}, fedavg={"client_weighting": "uniform"})
  root = build(tmp_path)
  means = column(root, "Mean")
  assert list(means) == ["FedAvg", "FedAvg, equal weights", "AdaFed"]
  said = conclusion(root)
  assert "AdaFed is clearly worse than FedAvg, equal weights: Mean" in said
  cells = column(root, "Δ Mean")
  assert words(cells["FedAvg"]) == words(cells["FedAvg, equal weights"])
  assert words(cells["AdaFed"]).startswith("−")
  parts = root.findall(".//table")[-1]
  heads = texts(parts.find(".//thead"), "th")
  row = parts.find(".//tbody/tr")
  values = [float(words(cell)[:6].replace("−", "-")) for cell in row[-6:-4]]
  assert heads[-6:-4] == ["Mean from weights", "Mean from the rule"]
  assert values == pytest.approx([30, -10], abs=0.5)
