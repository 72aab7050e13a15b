"""Microsoft Foundry: a rubric evaluator's definition to a weighted rubric, aliases of older pages included. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.rubrics.importing.imported import Imported, NotImportable, either, name_of, share

_REMARK = (
    "{}: score is the mean over 5 (`of_max`) with a veto on 1, as Foundry's pages print it; its hosted runs may use the other scale: set "
    "`normalisation: min_max` to compare with them"
)


def from_foundry(data: Any) -> Imported:
    """The rubrics of an evaluator, its definition, or a list of either. Raises NotImportable."""
    items = data if isinstance(data, list) else [data]
    documents = [_weighted(item, index) for index, item in enumerate(items, start=1)]
    return Imported(tuple(documents), tuple(_REMARK.format(document["name"]) for document in documents))


def _weighted(item: Any, index: int) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise NotImportable("expected a JSON object with `dimensions`")
    definition = next(
        (
            one
            for one in (item.get("definition"), item.get("rubric"), item)
            if isinstance(one, Mapping) and "dimensions" in one
        ),
        None,
    )
    if definition is None or not isinstance(definition["dimensions"], list) or not definition["dimensions"]:
        raise NotImportable("no `dimensions`: expected a rubric evaluator of Foundry or its definition")
    name = either(item, "name", "evaluator_name", "display_name", "displayName") or f"foundry_rubric_{index}"
    described = item.get("description")
    return {
        "name": name_of(str(name).removeprefix("builtin.")),
        "kind": "weighted",
        **({"description": described} if isinstance(described, str) and described.strip() else {}),
        "threshold": share(either(definition, "pass_threshold", "passThreshold"), 0.5),
        "veto": True,
        "dimensions": [_dimension(one) for one in definition["dimensions"]],
    }


def _dimension(item: Any) -> dict[str, Any]:
    id_ = either(item, "id", "dimension_id", "rubric_id", "dimensionId") if isinstance(item, Mapping) else None
    if not isinstance(id_, str) or not isinstance(item.get("description"), str):
        raise NotImportable("a dimension has no `id` or no `description`")
    weight = item.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight <= 0:
        raise NotImportable(f"dimension {id_!r}: the weight is no number above 0")
    always = either(item, "always_applicable", "alwaysApplicable")
    found = {"id": name_of(id_), "weight": weight, "description": item["description"].strip()}
    return {**found, "always_applicable": True} if always is True else found
