"""Verdicts as JUnit XML, as CI systems read it: a suite per rubric, a case per invocation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from monitor.commands.exits import wrong_input
from monitor.model.verdict import Outcome, Verdict


def make_sure_of(file: Path) -> None:
    """End the command for a file that cannot be written, before anything is scored; leaves things as they are."""
    existed = file.exists()
    try:
        with file.open("ab"):
            pass
        if not existed:
            file.unlink()
    except OSError as error:
        raise wrong_input(f"--junit {file}: cannot be written: {error.strerror}") from error


def write_junit(file: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the file. A fail is a failure, a failed evaluation an error, everything without a verdict on the agent is skipped."""
    root = ET.Element("testsuites", name="rubricd")
    suites: dict[str, ET.Element] = {}
    for verdict in verdicts:
        suite = suites.get(verdict.rubric)
        if suite is None:
            suite = suites[verdict.rubric] = ET.SubElement(root, "testsuite", name=verdict.rubric)
        _case(suite, verdict)
    for suite in suites.values():
        suite.set("tests", str(len(suite)))
        for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    try:
        ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise wrong_input(f"--junit {file}: cannot be written: {error.strerror}") from error


def _case(suite: ET.Element, verdict: Verdict) -> None:
    judged = verdict.judgement
    case = ET.SubElement(suite, "testcase", classname=verdict.agent, name=verdict.invocation_id)
    if judged.failure is not None:
        ET.SubElement(case, "error", type=judged.failure.type.value, message=_clean(judged.failure.message))
    elif judged.outcome is Outcome.FAIL:
        ET.SubElement(case, "failure", message=_clean(judged.explanation or f"score {judged.score}"))
    elif judged.outcome is not Outcome.PASS:
        ET.SubElement(case, "skipped", message=_clean(judged.unjudgeable_reason or str(judged.outcome)))


def _clean(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
