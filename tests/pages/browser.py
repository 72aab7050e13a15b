"""Headless Chromium for tests, and short ways to what a page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1360,900",
)  # fmt: skip
WAIT_SECONDS = 20


class Browser:
    """One browser window."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Go to an address and wait until it is there."""
        self.driver.get(url)

    @property
    def url(self) -> str:
        """The present address."""
        return str(self.driver.current_url)

    @property
    def text(self) -> str:
        """What a person can read."""
        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    def all(self, selector: str) -> list[WebElement]:
        """All elements of a selector."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def one(self, selector: str) -> WebElement:
        """The first element of a selector; fails without any."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, keys: str) -> None:
        """Press keys on the page."""
        self.one("body").send_keys(keys)

    def until(self, condition: Callable[[Browser], Any], what: str) -> Any:
        """Wait for something of the page."""
        return WebDriverWait(self.driver, WAIT_SECONDS).until(lambda _: condition(self), what)

    def dark(self, dark: bool) -> None:
        """What the system prefers."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def complaints(self) -> list[str]:
        """What the browser has complained of since it was last asked: violated policies, missing files, faults of scripts."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def overflows(self) -> bool:
        """Whether the page is wider than the window."""
        script = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.driver.execute_script(script))


@contextmanager
def browser(chromium: str, chromedriver: str, folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*ARGUMENTS, f"--user-data-dir={folder}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.set_page_load_timeout(WAIT_SECONDS)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
