"""The rubric kinds by name. A new kind is one module and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.rubrics.kinds.check import Check
from monitor.rubrics.kinds.claims import Claims
from monitor.rubrics.kinds.code import Code
from monitor.rubrics.kinds.graded import Graded
from monitor.rubrics.kinds.kind import Kind
from monitor.rubrics.kinds.properties import Properties
from monitor.rubrics.kinds.weighted import Weighted

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (Weighted(), Properties(), Graded(), Claims(), Check(), Code())
}
