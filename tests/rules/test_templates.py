"""Which texts of alerts are templates that Prometheus can read; the answers are those of `promtool check rules`, which a test asks where it is there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.exporters.rules.templates import template_fault

INSTALL = "apt-get install prometheus"
RIGHT = [
    "a", "{{ $labels.x }}", "{{ if $labels.a }}x{{ else if 1 }}y{{ end }}", '{{ "}}" }}', "{{/* it's a }} */}}", "}} a", '{{ "{{" }}', "{ {a}}",
    "{{- /* x */ -}}", "{{ `}}` }}", "{{ with $labels.a }}{{ . }}{{ end }}",
]  # fmt: skip
WRONG = ["{{ $labels.x", "{{}}", "{{- if 1 -}}x", '{{ "a }}', "{{ end }}", "{{a} }", "{{{ $labels.a }}}"]


@pytest.mark.parametrize("text", [*RIGHT, *WRONG])
def test_a_template_that_prometheus_refuses_is_a_fault(text: str) -> None:
    """Open braces, empty actions and blocks without an end are told; quoted braces, comments and braces outside of actions are right."""
    assert (template_fault(text) is None) == (text in RIGHT)


@pytest.mark.service
def test_promtool_is_of_the_same_mind(required_program: Callable[..., str], tmp_path: Path) -> None:
    """Prometheus itself takes the right ones together and refuses each of the wrong ones."""
    promtool = required_program("promtool", INSTALL)

    def taken(texts: list[str]) -> bool:
        rules = [{"alert": f"a{n}", "expr": "up == 0", "annotations": {"s": text}} for n, text in enumerate(texts)]
        file = tmp_path / "rules.yml"
        file.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
        return subprocess.run([promtool, "check", "rules", file], capture_output=True, check=False).returncode == 0

    assert taken(RIGHT)
    assert not any(taken([text]) for text in WRONG)
