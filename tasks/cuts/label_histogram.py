"""The distribution of labels over clients: counts, and a plot of them."""

import pathlib
from collections.abc import Sequence

import numpy as np

from tasks.formats import data_files

# With more clients, their names do not fit under the bars.
_MAX_NAMES = 40


def draw(
  counts: np.ndarray,
  path: pathlib.Path,
  *,
  client_names: Sequence[str] | None = None,
  class_names: Sequence[str] | None = None,
) -> None:
  """Draws a stacked bar for each client's labels, int[clients, classes], into a
  new PNG file.
  """
  # Imported late: it takes a second. No pyplot: it would look for a display.
  import matplotlib as mpl  # noqa: PLC0415
  from matplotlib import figure  # noqa: PLC0415

  num_clients, num_classes = counts.shape
  drawing = figure.Figure(
    figsize=(min(4.5 + 0.15 * num_clients, 16), 4), layout="constrained"
  )
  axis = drawing.subplots()
  few = num_classes <= 10
  colors = (
    mpl.colormaps["tab10"](range(num_classes))
    if few
    else mpl.colormaps["turbo"](np.linspace(0, 1, num_classes))
  )
  ends = np.cumsum(counts, axis=1)
  edges = np.arange(num_clients + 1) - 0.5
  for label, (name, color) in enumerate(
    zip(class_names or range(num_classes), colors, strict=True)
  ):
    top = ends[:, label]
    base = top - counts[:, label]
    kind = {"color": color, "label": name}
    if num_clients <= _MAX_NAMES:
      axis.bar(range(num_clients), counts[:, label], bottom=base, **kind)
    else:
      # One shape for all clients; a bar for each would take a minute.
      axis.stairs(top, edges, baseline=base, fill=True, **kind)
  axis.set(
    title=f"Labels of {num_clients:,} clients",
    xlabel="client",
    ylabel="examples",
    xlim=(-0.5, num_clients - 0.5),
  )
  if num_clients <= _MAX_NAMES:
    names = list(client_names or range(num_clients))
    axis.set_xticks(range(num_clients), names, rotation=90, fontsize=7)
  axis.spines[["top", "right"]].set_visible(False)
  if few:
    axis.legend(
      title="label", loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8
    )
  else:
    scale = mpl.cm.ScalarMappable(
      mpl.colors.Normalize(0, num_classes - 1), "turbo"
    )
    drawing.colorbar(scale, ax=axis, label="label")
  with data_files.replacement(path) as staged:
    drawing.savefig(staged, dpi=150, format="png")
