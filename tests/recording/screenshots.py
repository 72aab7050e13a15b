"""Takes the screenshots of docs/pages.md from a running daemon.

    python tests/recording/screenshots.py http://localhost:8464 docs/pages --monitor bookings --labeler Ada

The daemon should have a monitor with failing answers, a draw that waits for the labeler, and no tokens. Chromium and chromium-driver are needed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.pages.browser import Browser, browser

WIDTH, TALLEST = 1280, 1180


def take(window: Browser, url: str, file: Path, tallest: int = TALLEST) -> None:
    """One page, once its figures are there, as high as it is up to a limit."""
    window.open(url)
    window.until(lambda one: "being added up" not in one.text.lower(), "figures")
    metrics = {"width": WIDTH, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    height = int(window.driver.execute_script("return document.querySelector('main').getBoundingClientRect().bottom"))
    metrics["height"] = max(500, min(tallest, height))
    window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    time.sleep(0.2)
    window.driver.save_screenshot(str(file))


def most_telling(server: str, monitor: str) -> str:
    """The failing invocation with most different evidence and most tool calls, among the newest."""

    def get(path: str) -> Any:
        with urllib.request.urlopen(server + path, timeout=10) as answer:
            return json.load(answer)

    verdicts = get(f"/api/v1/verdicts?verdict=fail&monitor={quote(monitor)}&limit=100")["items"]
    ranked = {one["invocation_id"]: len({q for c in one["criteria"] for q in c["evidence"]}) for one in verdicts}
    return max(ranked, key=lambda name: (ranked[name], len(get(f"/api/v1/invocations/{name}")["tool_calls"])))


def main() -> None:
    """Take all of them; the overview and an invocation in the dark as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--monitor", required=True)
    parser.add_argument("--labeler", default="Ada")
    given = parser.parse_args()
    one = f"/invocations/{most_telling(given.server, given.monitor)}"
    monitor = quote(given.monitor)
    pages = {
        "overview": "/",
        "monitor": f"/monitors/{monitor}?window=1d",
        "invocations": f"/invocations?verdict=fail&monitor={monitor}&since=1d",
        "invocation": one,
        "labels": f"/labels?labeler={given.labeler}",
        "health": "/health",
    }
    with (
        tempfile.TemporaryDirectory() as profile,
        browser("/usr/bin/chromium", "/usr/bin/chromedriver", Path(profile)) as window,
    ):
        for name, path in pages.items():
            take(window, given.server + path, given.folder / f"{name}.png", 900 if name == "invocations" else TALLEST)
        window.open(f"{given.server}/labels?labeler={given.labeler}")
        queue = window.all("a[href^='/labels/next']")
        if queue:
            take(window, str(queue[0].get_attribute("href")), given.folder / "label.png", 900)
        window.dark(True)
        for name in ("overview", "invocation"):
            take(window, given.server + pages[name], given.folder / f"{name}-dark.png")


if __name__ == "__main__":
    main()
