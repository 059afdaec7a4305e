import matplotlib.axes
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.spec.scores import RMSE
from tff_fair.experiments.training import plots


@pytest.fixture
def axes(monkeypatch):
  """Returns the list of the axes of the last figure that was written."""
  found: list[matplotlib.axes.Axes] = []
  savefig = matplotlib.figure.Figure.savefig

  def remember(figure, *args, **kwargs):
    found[:] = figure.axes
    savefig(figure, *args, **kwargs)

  monkeypatch.setattr(matplotlib.figure.Figure, "savefig", remember)
  return found


@pytest.mark.parametrize("num_clients", [1, 11, 1000])
def test_the_distribution_shows_every_client(axes, tmp_path, num_clients):
  accuracies = np.random.default_rng(0).permutation(
    np.linspace(0, 1, num_clients)
  )
  plots.draw_distribution(accuracies, tmp_path / "plot.png")
  histogram, ordered = axes
  counts = [bar.get_height() for bar in histogram.patches]
  assert sum(counts) == num_clients
  everybody, worst = (stairs.get_data().values for stairs in ordered.patches)
  np.testing.assert_allclose(everybody, 100 * np.sort(accuracies))
  np.testing.assert_array_equal(
    worst, everybody[: int(np.ceil(num_clients / 10))]
  )
  assert (tmp_path / "plot.png").stat().st_size > 0


@pytest.mark.parametrize(
  ("num_evaluations", "first_loss"), [(1, 2), (2, 2), (50, 2), (2, -1)]
)
def test_the_curves_show_every_evaluation(
  axes, tmp_path, num_evaluations, first_loss
):
  rounds = 10 * np.arange(1, num_evaluations + 1)
  names = ("mean", "std", "worst_10", "best_10")
  table = pd.DataFrame(
    {
      "round": rounds,
      **{
        f"accuracy/{n}": np.linspace(0, i / 4, num_evaluations)
        for i, n in enumerate(names)
      },
      "loss/mean": np.linspace(first_loss, 1, num_evaluations),
      # The plot must not fail for a model that diverges.
      "loss/max": [np.inf, *np.ones(num_evaluations - 1)],
    }
  )
  plots.draw_curves(table, tmp_path / "curves.png")
  lines = {
    (axis.get_title().split()[0], line.get_label()): line.get_ydata()
    for axis in axes
    for line in axis.lines
  }
  assert {key: len(values) for key, values in lines.items()} == dict.fromkeys(
    [
      ("Test", "best 10 %"),
      ("Test", "mean"),
      ("Test", "worst 10 %"),
      ("Spread", "standard deviation"),
      ("Test", "worst client"),
    ],
    num_evaluations,
  )
  np.testing.assert_allclose(
    lines["Spread", "standard deviation"], 100 * table["accuracy/std"]
  )
  bottom = axes[-1].get_ylim()[0]
  assert bottom == 0 if first_loss > 0 else bottom < first_loss


def test_errors_are_drawn_from_the_largest_down(axes, tmp_path):
  errors = [3.0, np.inf, 1200.0, 40.0]
  plots.draw_distribution(errors, tmp_path / "plot.png", RMSE)
  histogram, ordered = axes
  assert sum(bar.get_height() for bar in histogram.patches) == 3
  assert histogram.get_xlim()[1] > 1200
  everybody, worst = (stairs.get_data().values for stairs in ordered.patches)
  assert everybody.tolist() == [1200, 40, 3]
  assert worst.tolist() == [1200]
  assert ordered.get_ylim()[1] > 1200
  labels = {axis.get_xlabel() for axis in axes} | {ordered.get_ylabel()}
  assert labels == {"test RMSE", "client, in order of RMSE"}
