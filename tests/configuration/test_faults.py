"""Faults that show only when a whole configuration is looked at: with its collectors, on the machine that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.cli import main
from monitor.configuration import configure
from monitor.judging import presidio
from monitor.settings.document import ConfigurationError
from monitor.settings.load import parse_settings

JUDGE = "judges: {default: {model: m, base_url: 'http://j/v1', api_key_file: %s}}\n"
MONITOR = "monitors:\n  m:\n    rubrics: [tool_calls_known]\n"


def faults(text: str, folder: Path) -> list[str]:
    """The faults of a configuration, as they are shown, without the folder of its file."""
    try:
        configure(parse_settings(text, str(folder / "r.yaml"), {}))
    except ConfigurationError as error:
        return [str(fault).replace(f"{folder}/", "") for fault in error.faults]
    return []


OTLP = "collectors:\n  otlp:\n    protocols:\n      grpc: {endpoint: '%s'}\n      http: {endpoint: '%s'}\n"

WRONG = [
    (OTLP % ("0.0.0.0:4317", "localhost:4317"), "r.yaml:5: collectors.otlp.protocols.http.endpoint: localhost:4317 is taken by collectors.otlp.protocols.grpc.endpoint (0.0.0.0:4317); give each listener its own port"),
    (OTLP % ("localhost:4317", "localhost:8464"), "r.yaml:5: collectors.otlp.protocols.http.endpoint: localhost:8464 is taken by server.endpoint (localhost:8464)"),
    (OTLP % ("localhost:4317", ":4400") + "server: {endpoint: '[::]:4400'}\n", "r.yaml:5: collectors.otlp.protocols.http.endpoint: :4400 is taken by server.endpoint ([::]:4400)"),
    ("collectors:\n  otlp:\n  otlp/second:\n", "r.yaml:3: collectors.otlp/second.protocols.grpc.endpoint: localhost:4317 is taken by collectors.otlp.protocols.grpc.endpoint"),
    ("server: {endpoint: 'localhost'}\n", "r.yaml:1: server.endpoint: has no port from 0 to 65535: write host:port, like localhost:4317"),
    ("server: {endpoint: 'http://localhost:1'}\n", "r.yaml:1: server.endpoint: is a host and a port, without scheme and path"),
    ("server: {external_url: rubricd.example.org}\n", "r.yaml:1: server.external_url: is no address of a server: write one such as https://"),
    ("server: {external_url: 'https://u:p@rubricd.example.org'}\n", "r.yaml:1: server.external_url: is no address"),
    ("server: {external_url: 'https://rubricd.example.org/?a=1'}\n", "r.yaml:1: server.external_url: is no address"),
    *(
        (f"exporters: {{otlp: {{endpoint: '{wrong}'}}}}\n", "r.yaml:1: exporters.otlp.endpoint: is no address: write host:port")
        for wrong in ("nonsense", "", "collector:http", "ftp://collector:4317", "https://")
    ),
    (MONITOR + "    windows: [1h, 0s]\n", "r.yaml:4: monitors.m.windows[1]: is no length of time: give more than 0s"),
    (MONITOR + "    windows: []\n", "r.yaml:4: monitors.m.windows: should"),
    ("judges: {default: {model: m, timeout: 0s}}\n", "r.yaml:1: judges.default.timeout: is no length of time"),
    (MONITOR + "    trust: {golden: {file: g.jsonl, every: 0s}}\n", "r.yaml:4: monitors.m.trust.golden.every: is no length of time"),
    (MONITOR + "    labels: {my-team: a}\n", "r.yaml:4: monitors.m.labels.my-team: `my-team` is no name of a label: letters, digits and _"),
    (MONITOR + "    labels: {__team: a}\n", "r.yaml:4: monitors.m.labels.__team: `__team` is no name of a label"),
    (MONITOR + "    labels: {job: a}\n", "r.yaml:4: monitors.m.labels.job: `job` is a label of its own in Prometheus or here"),
    (MONITOR + "    labels: {rubric: a}\n", "r.yaml:4: monitors.m.labels.rubric: `rubric` is a label of its own"),
    (MONITOR + "    annotations: {run-book: a}\n", "r.yaml:4: monitors.m.annotations.run-book: `run-book` is no name of an annotation"),
    (MONITOR + "    annotations: {summary: 'a {{ $labels.agent'}\n", "r.yaml:4: monitors.m.annotations.summary: has a {{ without its }}"),
    (MONITOR + "    annotations: {summary: '{{ if $labels.agent }}a'}\n", "r.yaml:4: monitors.m.annotations.summary: has an {{ if … }} without its {{ end }}"),
    ("monitors:\n  ..:\n    rubrics: [tool_calls_known]\n", "r.yaml:2: monitors...: a monitor cannot be called `..`"),
    (MONITOR + "    select: {agent: '[a-'}\n", "r.yaml:4: monitors.m.select.agent: '[a-' has a [ without its ]"),
    (MONITOR + "    select: {tool: [a, '!x[]']}\n", "r.yaml:4: monitors.m.select.tool: '!x[]' has a [ without its ]"),
    (MONITOR + "    select: {agent: []}\n", "r.yaml:4: monitors.m.select.agent: is empty: give a glob or a list of globs"),
    (MONITOR + "    select: {tool: ['a', '']}\n", "r.yaml:4: monitors.m.select.tool: is empty"),
    (MONITOR + "    select: {attributes: {tenant: []}}\n", "r.yaml:4: monitors.m.select.attributes.tenant: is empty"),
    (MONITOR + "    sample: {always: {agent: '!'}}\n", "r.yaml:4: monitors.m.sample.always.agent: is empty"),
    (MONITOR + "    redact: {before: [store]}\n", "r.yaml:4: monitors.m.redact.before[0]: should be 'judge'"),
    ("privacy: {redact: {presidio: {entities: [EMAIL_ADDRESS]}}}\n", "r.yaml:1: privacy.redact.presidio.entities: EMAIL_ADDRESS is found by `kinds: [email]`"),
    ("rubrics:\n- name: a\n  kind: check\n  expect:\n    final_response_schema: {$ref: '#'}\n", "r.yaml:5: rubrics[0].expect.final_response_schema: `$ref` at # comes back to itself: it would never end"),
    ("rubrics:\n- name: a\n  kind: check\n  expect:\n    tool_arguments: {tool: t, schema: {allOf: [{$ref: '#/$defs/a'}]}}\n", "r.yaml:5: rubrics[0].expect.tool_arguments[0].schema: `$ref` '#/$defs/a' points to nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=[expected[:60] for _, expected in WRONG])
def test_faults_of_the_file(text: str, expected: str, tmp_path: Path) -> None:
    """Each is a fault with file, line and key that says what would be right."""
    assert faults(text, tmp_path)[0].startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        OTLP % ("localhost:0", "localhost:0"),
        OTLP % ("127.0.0.1:4317", "127.0.0.2:4317"),
        OTLP % ("0.0.0.0:4317", "[::1]:4317"),
        MONITOR + "    select: {agent: 'a*', service: null, tool: ['!a'], attributes: {tenant: null}}\n    labels: {team: a, severity: page}\n",
        MONITOR + "    select: {agent: ['[a-c]*', '!x[[]', '[!]]']}\n    annotations: {note: '{{ if $labels.agent }}{{ \"}}\" }}{{ end }} }}'}\n",
        "server: {external_url: 'https://rubricd.example.org:8443/quality/'}\n",
        "rubrics: [{name: a, kind: check, expect: {final_response_schema: {properties: {below: {items: {$ref: '#'}}}}}}]\n",
    ],
)  # fmt: skip
def test_what_looks_like_a_fault(text: str, tmp_path: Path) -> None:
    """Free ports, other addresses, nulls, exclusions, and schemas that end because values do are right."""
    assert faults(text, tmp_path) == []


def absent(folder: Path) -> dict[str, str]:
    """Configurations that need files which are not there, or hold nothing, and the faults of each."""
    (folder / "empty").write_text("\n")
    (folder / "text.pem").write_text("no certificate\n")
    return {
        JUDGE % "keys/judge": "r.yaml:1: judges.default.api_key_file: keys/judge cannot be read: No such file",
        JUDGE % "empty": "r.yaml:1: judges.default.api_key_file: empty is empty: it holds the secret",
        "server: {auth: {bearer_token_file: tokens}}\n": "r.yaml:1: server.auth.bearer_token_file: tokens cannot be read",
        "server: {tls: {cert_file: text.pem, key_file: k.pem}}\n": "r.yaml:1: server.tls.key_file: k.pem cannot be read",
        "server: {tls: {cert_file: text.pem, key_file: text.pem}}\n": "r.yaml:1: server.tls.cert_file: text.pem is no certificate in PEM form, or not that of key_file",
        "collectors: {otlp: {protocols: {grpc: {auth: {bearer_token_file: t}}}}}\n": "r.yaml:1: collectors.otlp.protocols.grpc.auth.bearer_token_file: t cannot be read",
        "collectors: {tempo: {endpoint: 'http://t:1', tls: {ca_file: text.pem}}}\n": "r.yaml:1: collectors.tempo.tls.ca_file: text.pem holds no certificate in PEM form",
        MONITOR + "    redact: {presidio: {entities: [XX_ANY]}}\n": "r.yaml:4: monitors.m.redact.presidio: needs Presidio, which is not installed here",
    }  # fmt: skip


def test_what_is_missing_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys, tokens, certificates and extras that are not there are faults; told that the daemon runs elsewhere, `check` warns of them alone."""
    monkeypatch.setattr(presidio, "installed", lambda: False)
    file = tmp_path / "r.yaml"
    for text, expected in absent(tmp_path).items():
        file.write_text(text)
        (found,) = faults(text, tmp_path)
        assert found.startswith(expected)
        assert main(["check", "-c", str(file)]) == 2
        assert expected in capsys.readouterr().err.replace(f"{tmp_path}/", "")
        assert main(["check", "-c", str(file), "--elsewhere"]) == 0
        shown = capsys.readouterr()
        assert shown.err.replace(f"{tmp_path}/", "").startswith(f"warning: {expected}")
        assert "r.yaml: right" in shown.out


def test_check_tells_what_is_redacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For each monitor that asks a judge `check` says what is replaced before content goes out."""
    file = tmp_path / "r.yaml"
    judge = "judges: {default: {model: m, base_url: 'http://judge.example/v1'}}\nmonitors:\n"
    file.write_text(
        judge + "  all: {rubrics: [coherence]}\n  some: {rubrics: [coherence], redact: {kinds: [iban, card]}}\n  none: {rubrics: [coherence], redact: {before: []}}\n"
    )  # fmt: skip
    assert main(["check", "-c", str(file)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "replaced" in line]
    said = ("card, email, iban, ip, phone, secret", "card, iban", "nothing")
    assert lines == [f"  replaced before that: {one}" for one in said]


def test_commands_need_the_keys_that_they_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`score` and `rules` do not mind certificates of the daemon's machine that are missing; the key of the judge that is asked is needed."""
    file, example = tmp_path / "r.yaml", tmp_path / "i.jsonl"
    file.write_text(
        JUDGE % "key" + "server: {auth: {bearer_token_file: tokens}}\nmonitors: {m: {rubrics: [tool_calls_known]}}\n"
    )
    example.write_text("")
    assert main(["rules", "-c", str(file)]) == 0
    asked = ["score", str(example), "-c", str(file), "--rubric"]
    assert main([*asked, "coherence"]) == 2
    said = capsys.readouterr().err
    assert "judges.default.api_key_file" in said
    assert "bearer_token_file" not in said
