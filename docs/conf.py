"""Configure Sphinx: ``sphinx-build -W docs build/site``. Neither building nor reading the site fetches anything."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions")]

import semiring  # noqa: E402  # the one of this tree

project = "semiring"
author = "the semiring maintainers"
project_copyright = "2026 the semiring maintainers, MIT licence"
version = release = semiring.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
extensions += [
    "code_blocks",
    "docstrings",
    "mathml",
    "names",
    "pictures",
    "tables",
]  # in _extensions
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
smartquotes_action = "D"  # dashes only, because a reader can paste straight quotes

myst_enable_extensions = ["alert", "dollarmath"]  # > [!NOTE] and $x$, as GitHub shows them
html_math_renderer = "mathml"
myst_heading_anchors = 3

default_role = "py:obj"  # `Paths` in a docstring links to it
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures with defaults alone, and of an overloaded function the one that runs
autodoc_default_options = {"members": True}
autodoc_mock_imports = [name for name in ("torch", "jax") if find_spec(name) is None]  # two gigabytes
napoleon_google_docstring = False
napoleon_use_param = False  # names that share a text stay together
napoleon_use_rtype = False
napoleon_use_ivar = True

MONOSPACE = '"DejaVu Sans Mono", Menlo, Consolas, "Noto Sans Mono", "SFMono-Regular", monospace'

html_theme = "furo"
html_title = "semiring"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_permalinks_icon = "#"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        # Fonts first that set the bar of 0̄ over its digit.
        "font-stack--monospace": MONOSPACE,
        "color-brand-primary": "#0b5f93",
        "color-brand-content": "#0b5f93",
        "color-brand-visited": "#5b4a99",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cb8e6",
        "color-brand-content": "#6cb8e6",
        "color-brand-visited": "#b3a5e0",
    },
    "footer_icons": [],
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is copied is what is typed: no prompts, no output
copybutton_prompt_is_regexp = True
