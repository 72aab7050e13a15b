"""Calls `module:function` with the invocation read from standard input and prints what it returns as JSON: the child of a `code` rubric.

What the function itself prints goes to standard error. It may return the JSON object of the kind, true or false, or a score from 0 to 1.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """One call."""
    out = os.dup(1)
    os.dup2(2, 1)
    sys.path[0] = str(Path.cwd())
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    said = verdict(function(json.load(sys.stdin)))
    os.write(out, json.dumps(said).encode())


def verdict(returned: Any) -> Any:
    """What was returned as the JSON object of the kind."""
    if isinstance(returned, bool):
        return {"verdict": "pass" if returned else "fail"}
    if isinstance(returned, (int, float)):
        return {"score": returned}
    return returned


if __name__ == "__main__":
    main()
