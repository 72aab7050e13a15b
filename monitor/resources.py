"""Where the shipped data lies: `config/` of a checkout, `monitor/_config` once installed."""

from __future__ import annotations

from pathlib import Path


def config_folder() -> Path:
    """The folder with rubricd.yaml, rubrics/ and demo/."""
    here = Path(__file__).resolve().parent
    installed = here / "_config"
    return installed if installed.is_dir() else here.parent / "config"
