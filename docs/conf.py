"""Sphinx configuration; ``make docs`` builds docs/_build/html."""

import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import numpydoc.xref
import sphinx.ext.autosummary
from sphinx.util.inspect import stringify_signature

import bayesgp_mf

# the first sentence of a docstring, which stands in the tables of the reference, does not end after these
sphinx.ext.autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", "eqs.", "app.")

project = "bayesgp_mf"
author = "The bayesgp_mf developers"
copyright = author
version = release = bayesgp_mf.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "package_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "thumbnail_texts",
]
exclude_patterns = [
    "_build",
    "case_studies",
    "gallery",
    "pictures",
    "performance_tables.md",
]  # the last is included by a page
templates_path = ["_templates"]

html_theme = "furo"
html_title = f"bayesgp_mf {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_extra_path = ["llms.txt"]  # for programs that read documentation
html_copy_source = False
html_math_renderer = "mathml"

# prompts are hidden by pages.css; the button copies what stands behind them, or, without any, everything
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "case_studies", "pictures"],
    "gallery_dirs": ["auto_gallery", "auto_case_studies", "auto_pictures"],
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", "figure_style.prepare"),
    "show_signature": False,
    "write_computation_times": False,
}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "tasklist"]
myst_heading_anchors = 3

# a name in single backticks of a docstring is a link where there is something to link to
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = True
# file systems that ignore case would put a class and the function of its name into one file
autosummary_filename_map = {"bayesgp_mf.Posterior": "bayesgp_mf.Posterior.class"}
numpydoc_show_class_members = False
# in the types of parameters and results, these words and no others are links; numpydoc's own links lead to the
# inventories of Python and NumPy, which the build does not download
numpydoc.xref.DEFAULT_LINKS.clear()
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    name.split(".")[-1]: f"bayesgp_mf.{name}"
    for name in (
        "Control",
        "Posterior",
        "Problem",
        "Solution",
        "Status",
        "datasets.Dataset",
        "datasets.Toy",
        "diagnostics.CalibrationTable",
        "hyper.HyperResult",
        "hyper.Prior",
        "hyper.Strategy",
        "hyper.Target",
        "kernels.Kernel",
        "likelihoods.Likelihood",
        "matrices.matrix.Correction",
        "matrices.sites.SiteCorrection",
        "processes.process.Draws",
        "processes.process.Part",
        "processes.process.Process",
        "inference.solution.Cavity",
        "inference.solution.Evidence",
        "inference.solution.Info",
        "inference.solution.LeaveOneOut",
        "inference.solver.Solver",
        "solvers.rules.Rule",
        "types.Derivs",
    )
}


def _skip_tuple_fields(app, what, name, obj, skip, options):
    """Leave out 'Alias for field number 0': the section Attributes of the docstring describes the fields."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _skip_requests(app, what, name, obj, skip, options):
    """Leave out what scikit-learn makes for its metadata routing, which is documented there, with links of its own."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _close_fences(app, docname, source):
    """Drop the empty line that ends the expected output of a doctest before the fence is closed."""
    source[0] = re.sub(r"\n\n( *```)\n", r"\n\1\n", source[0])


def _open_one_branch(app, pagename, templatename, context, doctree):
    """Show in the sidebar what is below the branch of the page alone: as many links as pages on each page are slow."""
    toctree = context.get("toctree")
    if toctree is not None:
        context["toctree"] = lambda **options: toctree(**(options | {"collapse": True}))


def _show_arguments(app, what, name, obj, options, signature, returned):
    """Show the arguments of ``__init__``: autodoc takes those of the ``__new__`` of `NamingAbsent`, which are any."""
    if what != "class" or signature != "(*args, **options)":
        return None
    shown = stringify_signature(inspect.signature(obj), show_annotation=False, show_return_annotation=False)
    return "" if shown == signature else shown, None  # an abstract class has none


def setup(app):
    app.connect("html-page-context", _open_one_branch, priority=400)  # before the theme asks
    app.connect("source-read", _close_fences)
    app.connect("autodoc-process-signature", _show_arguments)
    app.connect("autodoc-skip-member", _skip_tuple_fields)
    app.connect("autodoc-skip-member", _skip_requests)
