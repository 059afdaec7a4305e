"""Tests of the page as a whole, without a browser."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from tests.experiments import report_runs, run_folders
from tests.experiments.presenting.report.page_parts import words
from tff_fair.experiments.presenting.report import page, task_runs
from tff_fair.experiments.runs.discovery import find
from tff_fair.experiments.spec.scores import RMSE

pytestmark = pytest.mark.program

HOSTILE = "<script>alert(1)</script>"


def build(folder, **settings):
  """Returns the page about the runs in a folder, both as text and parsed."""
  text = page.build(task_runs.arrange(find([folder])), **settings)
  doctype, body = text.split("\n", 1)
  assert doctype == "<!DOCTYPE html>"
  return text, ET.fromstring(body)


def headings(root, level="h3"):
  """Returns the titles of the sections below the first screen."""
  first = ("decision", "researchers")
  return [
    words(title)
    for title in root.iter(level)
    if title.get("class") not in first
  ]


# Maps a section's title to the reason for which a page without further data
# leaves the section out, or to None.
SECTIONS = {
  "Verdict": None,
  "All measures": None,
  "Is joining worth it": "no run has a baseline without a federation",
  "Each client": None,
  "Curves": None,
  "Accuracy and fairness": None,
  "Mean and worst clients": "there is only one method",
  "Accuracy over clients": None,
  "Improved clients": "no run has measured them (improved_share in "
  "metrics.csv)",
  "Pareto stationarity": "no run has measured it "
  "(aggregator/pareto_stationarity in metrics.csv)",
  "Losses of two clients": "no two clients of the first round have losses in "
  "a later one (loss_before or loss in cohorts.csv)",
  "Length of the direction": "no run has measured it "
  "(aggregator/direction_norm in metrics.csv)",
  "Coefficients over rounds": "no run has recorded them (coefficient in "
  "cohorts.csv)",
  "Labels of the split": "no run has recorded them (labels.csv)",
}
ALL = [*SECTIONS, "Runs"]


def test_with_all_data_there_are_all_sections(tmp_path):
  report_runs.make_methods(tmp_path, {"fedavg": 0.0, "afl": 0.0})
  text, root = build(tmp_path)
  assert headings(root) == ALL
  assert headings(root, "h2") == ["digits"]
  # The table of contents links to all sections.
  links = {words(a): a.get("href")[1:] for a in root.findall(".//nav//a")}
  assert list(links) == ALL
  places = {e.get("id"): e for e in root.iter("section")}
  for title, identifier in links.items():
    assert words(places[identifier].find("h3")) == title
  # Three radio buttons choose an axis; three choose one method or both.
  assert len(root.findall(".//input[@type='radio']")) == 3 + 3
  assert len(root.findall(".//input[@type='checkbox']")) == 2
  # The page loads nothing from elsewhere. Its security policy allows only its
  # own style and script, and would refuse style attributes.
  elsewhere = r"(?:src|href)=\"(?!#|data:,)|url\(|@import|https?://"
  assert not re.search(elsewhere, text)
  policy = root.find(".//meta[@http-equiv]").get("content")
  assert policy.startswith("default-src 'none';")
  assert "unsafe" not in policy
  assert policy.count("'sha256-") == 2
  assert not re.search(r"<[^>]* (style|on\w+)=", text)


def test_what_is_not_there_is_left_out_with_a_reason(tmp_path):
  report_runs.make(tmp_path / "run", extras=False)
  _, root = build(tmp_path)
  assert headings(root) == [
    *(title for title, absence in SECTIONS.items() if absence is None),
    "Left out",
    "Runs",
  ]
  assert [words(item) for item in root.findall(".//ul[@class='note']/li")] == [
    f"{title}: {absence}." for title, absence in SECTIONS.items() if absence
  ]
  # A single method leaves nothing to choose from.
  assert root.findall(".//input") == []
  assert "Not offered: bytes communicated and local operations" in words(root)


def test_methods_without_some_data_are_named_where_they_are_missing(tmp_path):
  report_runs.make(tmp_path / "a", algorithm="afl")
  report_runs.make(tmp_path / "b", algorithm="term", extras=False)
  _, root = build(tmp_path)
  assert headings(root) == ALL
  notes = [words(note) for note in root.findall(".//p[@class='note']")]
  start = "Left out: TERM; "
  assert {n.removeprefix(start) for n in notes if n.startswith(start)} == {
    "no bytes communicated were counted.",
    "no local operations were counted.",
    "their runs have no aggregator/pareto_stationarity in metrics.csv.",
    "their runs have no coefficients in cohorts.csv.",
    "their runs have no finite aggregator/direction_norm.",
    "their runs have no improved_share in metrics.csv.",
    "their runs have no such losses in cohorts.csv.",
    "they have no baseline.",
  }


def test_clients_see_whether_joining_is_worth_it(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=6)
  _, root = build(tmp_path)
  first, section = (
    next(s for s in root.iter("section") if words(s[0]) == title)
    for title in ("Do we join?", "Is joining worth it")
  )
  assert "3 of 6 clients gain from joining" in words(first)
  methods, clients = (
    [[words(cell) for cell in row] for row in of.iter("tr")]
    for of in (first, section)
  )
  shown = dict(zip(*methods, strict=True))
  assert shown["Gain"] == "3 of 6"
  assert shown["Undecided"] == "3 of 6"
  assert shown["Mean gain"] == "+4.00"
  assert len(clients) == 1 + 6
  assert clients[1][5:] == ["−2.00", "−7.00 to 3.00", "1"]
  # Fine-tuning changes nothing here.
  assert shown["Fine-tuned"] == shown["In the federation"]
  assert clients[0][4] == "Fine-tuned"
  assert clients[1][4] == clients[1][1]


def first_screen(folder):
  """Returns the first screen's answers by question, and its table's rows."""
  _, root = build(folder)
  (section,) = (
    e for e in root.iter() if e.get("class") == "decision" and len(e)
  )
  questions = [words(e) for e in section.iter("dt")]
  answers = [words(e) for e in section.iter("dd")]
  rows = [[words(cell) for cell in row] for row in section.iter("tr")]
  return dict(zip(questions, answers, strict=True)), rows


def test_the_first_screen_says_who_gains_how_sure_that_is_and_what_next(
  tmp_path,
):
  for seed in (0, 1):
    report_runs.make(tmp_path / f"a{seed}", seed=seed, num_clients=6)
  report_runs.make(tmp_path / "b", algorithm="afl", num_clients=6)
  answers, (heads, *rows) = first_screen(tmp_path)
  assert {*answers} == {"Who gains?", "How sure?", "What next?"}
  # The answer is the same for both methods and is given once.
  assert answers["Who gains?"] == (
    "With each method, client_01, client_03, client_05 gain in the first run."
  )
  assert "95 %" in answers["How sure?"]
  assert "1 to 2 runs with other seeds" in answers["How sure?"]
  assert "seeds" in answers["What next?"]
  assert [row[0] for row in rows] == ["FedAvg", "AFL"]
  assert {row[heads.index("Gain")] for row in rows} == {"3 of 6"}
  shown = float(rows[0][heads.index("Alone")].split()[0])
  local = [
    run.of_summary("joining")["local"]
    for run in find([tmp_path])
    if run.algorithm == "fedavg"
  ]
  assert shown == pytest.approx(100 * np.mean(local), abs=0.005)


def test_without_baselines_the_first_screen_says_how_to_get_them(tmp_path):
  path = report_runs.make(tmp_path / "a", extras=False) / "summary.json"
  scores = {"test_accuracy": {"mean": 0.5, "min": 0.25}}
  path.write_text(json.dumps({**json.loads(path.read_text()), **scores}))
  answers, rows = first_screen(tmp_path)
  assert "--local_baseline" in answers["What next?"]
  assert rows == []


@pytest.mark.parametrize(
  ("is_finished", "seconds", "duration"),
  [(True, "4000", "1 h 7 min"), (False, "inf", "unknown")],
)
def test_the_smallest_run(tmp_path, is_finished, seconds, duration):
  run_folders.make(tmp_path / "run", [(1, (0.5,))], is_finished=is_finished)
  (tmp_path / "run" / "metrics.csv").write_text("round,x\n1,1\n")
  timing = f"round,round_seconds\n1,{seconds}\n"
  (tmp_path / "run" / "timing.csv").write_text(timing)
  _, root = build(tmp_path)
  assert ("Verdict" in headings(root)) == is_finished
  if is_finished:
    assert "Curves: each run was evaluated once" in words(root)
  assert headings(root)[-1] == "Runs"
  assert duration in words(root)


def test_without_a_finished_run_the_page_says_what_there_is(tmp_path):
  for seed in range(2):
    report_runs.make(tmp_path / f"{seed}", seed=seed, is_finished=False)
  _, root = build(tmp_path)
  assert "2 unfinished" in words(root.find(".//header"))
  assert "Left out: 2 unfinished runs, listed at the end." in words(root)
  assert headings(root) == ["Runs"]
  assert root.findall(".//svg") == []


def test_unfinished_runs_take_no_part_in_means(tmp_path):
  report_runs.make(tmp_path / "a")
  _, alone = build(tmp_path)
  report_runs.make(tmp_path / "b", seed=1, is_finished=False)
  _, both = build(tmp_path)
  first, second = (words(r.find(".//table/tbody")) for r in (alone, both))
  assert first == second
  assert "20 of 20" in words(both)


def test_names_are_text_wherever_they_are_shown(tmp_path):
  report_runs.make(tmp_path / HOSTILE.replace("/", ""), method=HOSTILE)
  path = report_runs.make(tmp_path / "b", algorithm="afl")
  config = json.loads((path / "config.json").read_text())
  config["resolved"]["task_options"] = {"x": HOSTILE}
  config["command"]["line"] = config["data"]["description"] = HOSTILE
  config["resolved"]["hparams"] = {HOSTILE: "\x1b]]>", "]]>": "\"'&"}
  (path / "config.json").write_text(json.dumps(config))
  clients = pd.read_csv(path / "clients.csv").iloc[:3]
  clients["client"] = [HOSTILE, "&", "'"]
  clients.to_csv(path / "clients.csv", index=False)
  text, root = build(tmp_path, title=HOSTILE)
  assert len(list(root.iter("script"))) == 1
  assert text.count("<script") == text.count("</script") == 1
  assert words(root.find(".//title")) == HOSTILE
  assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20


def test_tasks_are_sections_of_their_own(tmp_path):
  linear = {"model": "logistic_regression"}
  pixels = {"pixels": "standardized"}
  for task, options in (
    *(("digits", {}), ("digits", linear)),
    *(("digits", {**linear, "num_clients": 9}), ("mnist", pixels)),
  ):
    path = tmp_path / f"{task}{len(options)}"
    report_runs.make(path, task=task, task_options=options, num_rounds=3)
  _, root = build(tmp_path)
  titles = [
    "digits",
    "digits, model=logistic_regression",
    "digits, model=logistic_regression, num_clients=9",
    "mnist",
  ]
  assert headings(root, "h2") == titles
  assert headings(root, "h1") == ["Fairness on digits, mnist"]
  links = root.findall(".//nav/div/a")
  assert [words(link) for link in links] == titles
  sections = {section.get("id") for section in root.findall(".//main/section")}
  assert {link.get("href")[1:] for link in links} == sections
  names = [e.get("id") for e in root.iter() if e.get("id")]
  assert len(names) == len(set(names))
  for task in ("synthetic", "sent140"):  # Titles count many tasks.
    report_runs.make(tmp_path / task, task=task, num_rounds=1)
  assert headings(build(tmp_path)[1], "h1") == ["Fairness on 6 tasks"]


def test_curves_begin_where_the_evaluations_do(tmp_path):
  first, last = (0, (0.1, 0.2)), (4, (0.5, 0.7))
  costs = pd.DataFrame({"round": range(1, 5), "bytes_down": 5, "bytes_up": 5})
  for name, evaluations in (("fedavg", [first, last]), ("afl", [last])):
    path = tmp_path / name
    run_folders.make(path, evaluations, algorithm=name)
    (path / "metrics.csv").write_text("round,x\n4,1\n")
    costs.to_csv(path / "costs.csv", index=False)
  _, root = build(tmp_path)
  assert "Curves" in headings(root)  # One method was evaluated twice.
  tips = [words(title) for title in root.findall(".//figure//title")]
  assert "FedAvg, round 0: 15.00 %" in tips
  assert "FedAvg, bytes down and up B 0: 15.00 %" in tips
  assert "AFL, round 4: 60.00 %" in tips
  assert not any("AFL, round 0" in tip for tip in tips)
  # The verdict is about the last evaluation.
  means = [row[2].get("data-value") for row in root.find(".//tbody")]
  assert [float(mean) for mean in means] == pytest.approx([60, 60])


def test_other_measures_fold(tmp_path):
  report_runs.make(tmp_path / "run", num_clients=3)
  _, root = build(tmp_path)
  folds = root.findall(".//details")
  assert [words(fold.find("summary")) for fold in folds] == [
    *("Worst and best clients", "Percentiles and variance"),
    *("Uniformity and loss", "By examples", "Error"),
    *("The clients of FedAvg", "Table of the clients"),
    *("More curves, against rounds", "Error and its relative spread"),
    "All settings that the runs share",
  ]
  assert [words(f.find("summary")) for f in folds if f.get("open")] == [
    "Table of the clients"
  ]
  assert "10 %: 1 of 3 clients" in words(folds[0].find(".//caption"))


def test_unfinished_runs_take_part_on_request(tmp_path):
  report_runs.make(tmp_path / "a")
  report_runs.make(tmp_path / "b", seed=1, is_finished=False)
  run_folders.make(tmp_path / "c", [(0, (0.5,))], is_finished=False, seed=2)
  (task,) = task_runs.arrange(find([tmp_path]), unfinished=True)
  assert [run.seed for run in task.runs] == [0, 1]
  # The third run has only the evaluation before training.
  assert [run.seed for run in task.unfinished] == [2]
  text = page.build([task])
  assert f"Not finished: {tmp_path / 'b'}, after round 20." in text
  assert "1 finished run, 2 unfinished" in text


def test_a_file_of_the_user_names_the_page(tmp_path):
  for name in ("hospitals", "banks"):
    options = {"file": f"data/{name}.csv", "client": "who", "label": "what"}
    report_runs.make(tmp_path / name, task="table", task_options=options)
  _, root = build(tmp_path)
  assert headings(root, "h1") == ["Fairness on banks.csv, hospitals.csv"]
  assert headings(root, "h2") == ["banks.csv", "hospitals.csv"]
  assert headings(build(tmp_path, title="Mine")[1], "h1") == ["Mine"]


def test_a_method_looks_the_same_in_all_tasks(tmp_path):
  for task, algorithms in {
    "digits": ("adafed", "fedmgda_plus", "fedavg"),
    "mnist": ("fedmgda_plus", "fedavg", "semi_vred"),
  }.items():
    for name in algorithms:
      report_runs.make(tmp_path / task / name, task=task, algorithm=name)
  _, root = build(tmp_path)
  looks = {}
  for legend in root.iter("fieldset"):
    names = []
    for label in legend.findall("span/label"):
      names.append(words(label))
      marker = label.find("svg/path[@class='marker']").get("d")
      look = (label.find("svg").get("class"), marker)
      looks.setdefault(words(label), set()).add(look)
    # The baseline comes first.
    assert names[0] == "FedAvg"
  assert list(looks) == ["FedAvg", "AdaFed", "FedMGDA+", "Semi-VRed"]
  assert all(len(found) == 1 for found in looks.values())
  assert len(set().union(*looks.values())) == 4
  # The registry's names of methods appear only in the settings.
  tables = words(root).partition("Runs")[0]
  assert "fedmgda_plus" not in tables


def test_the_foot_says_when_and_by_what_the_page_was_written(tmp_path):
  report_runs.make(tmp_path / "run", num_rounds=1)
  for command, ending in ((None, ""), ("report <x>", " with report <x>")):
    _, root = build(tmp_path, command=command)
    assert re.fullmatch(
      rf"Written on \d{{4}}-\d\d-\d\d by tff-fair \d+\.\S+?{ending}\.",
      words(root.find(".//footer")),
    )


def test_settings_are_shown_where_they_are_the_same(tmp_path):
  for number, (rate, seed) in enumerate([(0.1, 0), (0.1, 1), (0.5, 0)]):
    path = tmp_path / f"{number}"
    report_runs.make(path, client_learning_rate=rate, seed=seed)
  config = tmp_path / "1" / "config.json"
  config.write_text(config.read_text().replace("3.11.7", "3.11.9"))
  _, root = build(tmp_path)
  *_, fold = root.iter("details")
  assert "algorithm=fedavg" in words(fold)
  assert "server_learning_rate=none" in words(fold)
  assert "learning_rate=0.1" not in words(fold)
  # Above the fold are differing settings, then those that are not defaults.
  differing = root.find(".//dl[@class='verdict differing']")
  assert [words(e) for e in differing] == [
    *("FedAvg, client_learning_rate=0.1", "client_learning_rate=0.1"),
    "FedAvg, client_learning_rate=0.5",
    "client_learning_rate=0.5python=3.11.7",
  ]
  lists = root.findall(".//ul[@class='settings']")
  assert lists[2] is not fold.find("ul")
  assert "total_rounds=20" in words(lists[2])
  assert "server_learning_rate" not in words(lists[2])
  assert lists[3] is fold.find("ul")
  bodies = root.findall(".//table[@class='runs']/tbody")
  assert [words(body.find("tr/th")) for body in bodies] == [
    "FedAvg, client_learning_rate=0.1",
    "FedAvg, client_learning_rate=0.5",
  ]
  assert "python=3.11.9" in words(bodies[0].findall("tr")[2])
  assert "train.py --algorithm=fedavg --seed=1" in words(bodies[0])


def test_a_run_that_diverged_is_shown(tmp_path):
  report_runs.make(tmp_path / "a")
  path = report_runs.make(tmp_path / "b", seed=1)
  table = pd.read_csv(path / "evaluations.csv")
  table.loc[5:, ["loss/mean", "loss/max"]] = np.inf
  table.loc[10:, ["loss/mean", "loss/max"]] = np.nan
  table.to_csv(path / "evaluations.csv", index=False)
  text, _ = build(tmp_path)
  assert not re.search(r'(d|x|y|transform)="[^"]*(nan|inf)', text)


def test_clients_that_differ_between_seeds_are_not_shown_one_by_one(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=3)
  captions = "Test accuracy of each client (%)"
  assert captions in words(build(tmp_path)[1])
  report_runs.make(tmp_path / "b", seed=1, num_clients=4)
  _, root = build(tmp_path)
  assert captions not in words(root)
  assert "Each client: not all runs have the same clients." in words(root)
  assert "Accuracy over clients" in headings(root)


def test_a_large_page_stays_small(tmp_path):
  # These are more clients and rounds than fit side by side.
  size = {"num_clients": 210, "num_rounds": 110, "rounds_per_evaluation": 10}
  for number in range(12):
    report_runs.make(tmp_path / f"{number}", method=f"m_{number}", **size)
  text, root = build(tmp_path)
  assert len(text) < 2_000_000
  assert len(root.findall(".//figure")) > 40


def test_a_page_of_a_regression_knows_no_accuracy(tmp_path):
  skills = {"fedavg": 0.0, "afl": 0.5, "term": 1.0}
  report_runs.make_methods(tmp_path, skills, score=RMSE, num_clients=6)
  text, root = build(tmp_path)
  assert "accura" not in text.lower()
  assert [h.replace("RMSE", "Accuracy") for h in headings(root)] == ALL
  # The page has the tables of clients' errors and of their R².
  assert "Test RMSE of each client" in text
  for title in ("Mean R²", "Median R²", "Lowest R²"):
    assert title in text
  # The mean is in units of the label, without a percent sign.
  mean = np.mean(
    [
      run.evaluations["rmse/mean"].iloc[-1]
      for run in find([tmp_path])
      if run.algorithm == "term"
    ]
  )
  assert f"{mean:.2f}. " in text
  assert "better down and left" in text
  assert "largest RMSE to the smallest" in text
  # If another task has accuracies, each task's titles name its own score.
  report_runs.make(tmp_path / "a", task="synthetic")
  _, root = build(tmp_path)
  assert {"Accuracy and fairness", "RMSE and fairness"} <= set(headings(root))


def test_runs_that_diverged_have_no_place_in_charts(tmp_path):
  report_runs.make(tmp_path / "a", score=RMSE, extras=False)
  evaluations = [(n, [np.inf] * 12) for n in range(1, 21)]
  settings = {"algorithm": "afl", "score": RMSE, "total_rounds": 20}
  run_folders.make(tmp_path / "b", evaluations, **settings)
  (tmp_path / "b" / "metrics.csv").write_text("round\n1\n")
  text, _ = build(tmp_path)
  assert "Left out: AFL; they have infinite RMSEs." in text


def replays(rule, harmed):
  """Returns rows like those of a replay: ten rounds of four clients."""
  return pd.DataFrame(
    {
      "rule": rule,
      "round": np.repeat(np.arange(1, 11), 4),
      "client_id": np.tile(np.arange(4), 10),
      "coefficient": 0.25,
      "slope": 1.0,
      "cosine": np.tile([-0.1, 0.2, 0.3, 0.4], 10),
      "harmed": np.tile([harmed, False, False, False], 10),
      "conflicts": 1,
      "loss_change": np.nan,
      "angle": np.linspace(0, 9, 10).repeat(4),
    }
  )


def test_rules_are_compared_on_the_same_rounds(tmp_path):
  path = report_runs.make(tmp_path / "run")
  rows = [replays("fedavg", True), replays("fedmgda", False)]
  pd.concat(rows).to_csv(path / "replay.csv", index=False)
  _, root = build(tmp_path)
  (table,) = [
    t for t in root.iter("table") if "Rules on the rounds of run" in words(t)
  ]
  assert [[words(c) for c in row] for row in table.iter("tr")] == [
    ["Rule", "Harmed (%)", "Worst cosine", "Angle (°)"],
    ["fedavg", "25.0", "−0.100", "4.5 [2.4, 6.6]"],
    ["fedmgda", "0.0", "−0.100", "4.5 [2.4, 6.6]"],
  ]
  damaged = {
    "loss_change": (2.0, "x", "row 1 has no number"),
    "harmed": (True, "1e9", "has other values than True and False"),
  }
  for column, (value, wrong, problem) in damaged.items():
    replay = replays("fedavg", True).astype({column: object})
    replay[column] = [wrong, *[value] * (len(replay) - 1)]
    replay.to_csv(path / "replay.csv", index=False)
    text, _ = build(tmp_path)
    assert f"replay.csv: {problem}" in text
    assert "A replay is left out, because it is damaged" in text
