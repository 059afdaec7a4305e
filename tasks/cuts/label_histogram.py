"""How labels are spread over clients: counts, and a plot of them."""

import pathlib
import typing
from collections.abc import Sequence

import numpy as np

from tasks.formats import data_files

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

# With more clients, their names do not fit under the bars.
_MAX_NAMES = 40


def draw(
  counts: np.ndarray,
  path: pathlib.Path,
  *,
  client_names: Sequence[str] | None = None,
  class_names: Sequence[str] | None = None,
) -> None:
  """Draws a stacked bar of labels for each client."""
  counts = np.asarray(counts)
  if counts.ndim != 2 or counts.size == 0:
    raise ValueError(
      "counts must have a row for each client and a column for each class, "
      f"found shape {list(counts.shape)}."
    )
  names = {}
  for axis, (kind, given) in enumerate(
    [("client_names", client_names), ("class_names", class_names)]
  ):
    names[kind] = list(map(str, given or range(counts.shape[axis])))
    if len(names[kind]) != counts.shape[axis]:
      raise ValueError(
        f"{kind} must be {counts.shape[axis]}, found {len(names[kind])}."
      )
  figure = _figure(counts, names["client_names"], names["class_names"])
  with data_files.replacement(path) as staged:
    figure.savefig(staged, dpi=150, format="png")


def _figure(
  counts: np.ndarray, client_names: list[str], class_names: list[str]
) -> "Figure":
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
  bottom = np.zeros(num_clients)
  for label, color in enumerate(colors):
    top = bottom + counts[:, label]
    kind = {"color": color, "label": class_names[label]}
    if num_clients <= _MAX_NAMES:
      axis.bar(range(num_clients), counts[:, label], bottom=bottom, **kind)
    else:
      # One shape for all clients; a bar for each would take a minute.
      edges = np.arange(num_clients + 1) - 0.5
      axis.stairs(top, edges, baseline=bottom, fill=True, **kind)
    bottom = top
  axis.set(
    title=f"Labels of {num_clients:,} clients",
    xlabel="client",
    ylabel="examples",
    xlim=(-0.5, num_clients - 0.5),
  )
  if num_clients <= _MAX_NAMES:
    axis.set_xticks(range(num_clients), client_names, rotation=90, fontsize=7)
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
  return drawing
