"""How Sphinx makes the site: `docs/build`."""

project = "Isomer"
author = "The Isomer authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Isomer"
html_extra_path = ["llms.txt"]
html_show_sphinx = False
# Links to files of the repository outside of `docs` become downloads; links to its folders do not
# resolve on the site. `tests/docs/check` holds them all.
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
