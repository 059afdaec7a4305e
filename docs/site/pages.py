"""MkDocs hook that collects the site's files: documents and API pages.

The site has the same folders as the repository, so that links between documents
work on a code host and on the site.
"""

import pathlib

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tff_fair import declared, methods

ROOT = pathlib.Path(__file__).parents[2]
# The documents, and the files that they show or link to.
DOCUMENTS = (
  *(
    "*.md",
    "*.cff",
    "LICENSE",
    "docs/*.*",
    "docs/reproduction/*.*",
    "docs/site/*.css",
  ),
  "examples/*.*",
)
# The modules that get an API page, besides the modules of methods.
MODULES = (
  "tff_fair",
  "tff_fair.algorithms",
  "tff_fair.aggregators",
  "tff_fair.types",
  "tff_fair.client_works",
  "tff_fair.rounds",
  "tff_fair.evaluation",
  "tff_fair.experiments",
  "tff_fair.finalizers",
  "tff_fair.declared",
  "tff_fair.metrics",
  "tff_fair.optimizers",
  "tff_fair.privacy",
  "tff_fair.programs",
  "tff_fair.runtime",
  "tff_fair.summing",
  "tasks",
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
  """Adds the pages of the API to the navigation."""
  for item in config.nav or []:
    if "API" in item:
      item["API"] = [{name: _uri(name)} for name in MODULES]
      item["API"].append(
        {"tff_fair.methods": [_uri(module) for module in method_modules()]}
      )
  return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
  """Returns the documents, at their repository paths, and the API pages."""
  kept = [file for file in files if file.src_dir != config.docs_dir]
  for pattern in DOCUMENTS:
    for path in sorted(ROOT.glob(pattern)):
      uri = path.relative_to(ROOT).as_posix()
      kept.append(File.generated(config, uri, abs_src_path=str(path)))
  pages = {name: f"# {name}\n\n::: {name}\n" for name in MODULES}
  pages["tff_fair.algorithms"] += _links("build_{0.name}")
  pages["tff_fair.aggregators"] += _links("{0.factory}")
  pages |= {module: method_page(module) for module in method_modules()}
  kept += [
    File.generated(config, _uri(name), content=text)
    for name, text in pages.items()
  ]
  return Files(kept)


def method_page(module: str) -> str:
  """Returns a method module's API page, as Markdown text.

  A builder gets its keyword arguments at run time, so griffe cannot read them
  from the source; the page takes them from the registry.
  """
  builders = [
    builder_text(method.name)
    for method in methods.METHODS.values()
    if method.module == module
  ]
  title = f"# {module.rpartition('.')[2]}"
  return "\n\n".join([title, *builders, f"::: {module}"])


def builder_text(name: str) -> str:
  """Returns Markdown about a method's builder and its hyperparameters."""
  hparams = methods.hyperparameters(name).values()
  keywords = "".join(f", {h.name}={h.default!r}" for h in hparams)
  lines = [
    f"## build_{name}",
    "",
    "```python",
    f"tff_fair.algorithms.build_{name}(",
    f"  model_fn, *, client_optimizer{keywords}, **options",
    ")",
    "```",
    "",
    f"Builds the learning process of `{name}`, as does",
    f'`tff_fair.algorithms.build("{name}", ...)`. The options are those of',
    "[`compose`][tff_fair.rounds.compose].",
  ]
  if hparams:
    lines += ["", "| hyperparameter | value | default | meaning |"]
    lines += ["|---|---|---|---|"]
  for h in hparams:
    kind = declared.describe(h.annotation)
    within = f", in {h.interval}" if h.interval else ""
    default = declared.as_text(h.default)
    lines.append(f"| `{h.name}` | {kind}{within} | {default} | {h.meaning} |")
  return "\n".join(lines)


def _links(form: str) -> str:
  """Returns Markdown links to a package's re-exported builders or factories."""
  names = {form.format(m): m.module for m in methods.METHODS.values()}
  links = [f"[`{n}`]({m}.md)" for n, m in names.items() if n != "None"]
  return f"\nFurther: {', '.join(links)}.\n"


def method_modules() -> list[str]:
  """Returns the names of the modules that define methods, each once."""
  return list(dict.fromkeys(m.module for m in methods.METHODS.values()))


def _uri(name: str) -> str:
  return f"api/{name}.md"
