"""How Sphinx builds the pages; see "Build these pages" in docs/index.md."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from making import outward, write
from sphinx.application import Sphinx

import imharness

os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}  # of what commands print in the tutorials

project = "image-privacy-harness"
author = "The image-privacy-harness authors"
copyright = author
release = imharness.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "notebooks"]
myst_heading_anchors = 3
highlight_language = "text"
suppress_warnings = ["myst-nb.lexer"]  # of notebooks that are not run
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"exclude-members": "model_config, model_post_init, call, kind"}

html_theme = "furo"
html_title = "image-privacy-harness"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = []


def _linked(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn links to files outside of docs/ into links to their pages here, or into plain paths."""
    if not docname.startswith("generated/"):
        source[0] = outward(source[0], Path("docs") / f"{docname}.md")


def setup(app: Sphinx) -> None:
    """Write the generated pages before Sphinx looks for pages."""
    app.connect("config-inited", lambda app, config: write(Path(app.srcdir) / "generated"))
    app.connect("source-read", _linked)
