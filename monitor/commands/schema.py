"""`rubricd schema`: JSON Schema of configuration and rubric files, for editors."""

from __future__ import annotations

import argparse
import json
from typing import Any

from monitor.commands.exits import Exit
from monitor.commands.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which of the two."""
    parser.epilog = "example: rubricd schema > rubricd.schema.json"
    parser.add_argument(
        "what", nargs="?", choices=("configuration", "rubrics"), help="default: both, as one schema with `$defs`"
    )


def command(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    say(json.dumps(schema(arguments.what), indent=2, ensure_ascii=False, sort_keys=True))
    return Exit.DONE


def schema(what: str | None = None) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of configuration files, rubric files, or a file of either."""
    from monitor.rubrics.files import rubric_schema

    configuration, rubrics = _configuration(), rubric_schema()
    if what is not None:
        return {"configuration": configuration, "rubrics": rubrics}[what]
    # With an identifier of its own each resolves its `#/$defs/…` within itself.
    configuration, rubrics = (
        {"$id": "urn:rubricd:configuration", **configuration},
        {"$id": "urn:rubricd:rubrics", **rubrics},
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rubricd",
        "anyOf": [{"$ref": "#/$defs/configuration"}, {"$ref": "#/$defs/rubrics"}],
        "$defs": {"configuration": configuration, "rubrics": rubrics},
    }


def _configuration() -> dict[str, Any]:
    from monitor.settings.tree import Settings

    tree = _as_written(Settings.model_json_schema(mode="validation"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | dict(tree)


def _as_written(node: Any) -> Any:
    """Defaults of durations and sizes as people write them: the tree holds seconds and bytes."""
    from monitor.settings.units import duration_text, size_text

    if isinstance(node, list):
        return [_as_written(item) for item in node]
    if not isinstance(node, dict):
        return node
    written = {key: _as_written(value) for key, value in node.items()}
    default, examples = node.get("default"), node.get("examples", ())
    if isinstance(default, float) and "30s" in examples:
        written["default"] = duration_text(default)
    elif isinstance(default, int) and "8GiB" in examples:
        written["default"] = size_text(default)
    elif isinstance(default, dict):
        del written["default"]  # the section's own keys have theirs
    return written
