"""Puts a font made for formulas beside the pages: few devices have one, and none is fetched."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NAME = "STIXTwoMath-Regular.ttf"  # SIL Open Font Licence; math.css names it


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the site and the font, which the package ziamath carries."""
    spec = find_spec("ziamath")
    assert spec is not None and spec.origin is not None
    font = Path(spec.origin).parent / "fonts" / NAME
    files.append(File.generated(config, f"assets/{NAME}", abs_src_path=str(font)))
    return files
