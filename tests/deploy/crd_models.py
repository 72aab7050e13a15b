"""Run by the validators' own Python: checks ServiceMonitor and PrometheusRule objects, given as JSON on stdin, against models of their CRDs.

The models accept keys that they do not know, so those are looked for besides. Prints every fault, and then the number of objects that the models took.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def unknown(given: Any, understood: Any, place: str) -> Iterator[str]:
    """Places whose keys the model did not take over."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for key, value in given.items():
            if key not in understood:
                yield f"{place}.{key}: unknown key"
            else:
                yield from unknown(value, understood[key], f"{place}.{key}")
    elif isinstance(given, list) and isinstance(understood, list):
        for index, (one, other) in enumerate(zip(given, understood, strict=False)):
            yield from unknown(one, other, f"{place}[{index}]")


def main() -> int:
    """1 with any fault."""
    from cloudcoil.models.prometheus_operator import v1

    faults, checked = [], 0
    for thing in json.load(sys.stdin):
        model = {"ServiceMonitor": v1.ServiceMonitor, "PrometheusRule": v1.PrometheusRule}[thing["kind"]]
        try:
            found = model.model_validate(thing)
        except ValueError as error:
            faults.append(str(error))
            continue
        checked += 1
        understood = json.loads(found.model_dump_json(by_alias=True, exclude_unset=True))
        faults += unknown(thing["spec"], understood["spec"], f"{thing['kind']}.spec")
    sys.stdout.write("\n".join([*faults, str(checked)]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
