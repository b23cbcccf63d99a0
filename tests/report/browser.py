"""A real browser, headless, that opens written pages from disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.common.exceptions import TimeoutException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

from tests.patience import PATIENCE_SECONDS

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    def __init__(self, driver: Chrome, patience: float) -> None:
        self.driver = driver
        self.patience = patience

    def resize(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Set the size of the page, not of the window, which has a least width."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, page: Path) -> float:
        """Wait until the page is drawn; return the milliseconds from navigation until then."""
        self.driver.get(page.absolute().as_uri())
        self.wait("return document.documentElement.dataset.rendered === 'all'")
        return self.run("return performance.getEntriesByName('rendered')[0].startTime")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str) -> Any:
        """Wait until the script returns something true."""
        try:
            waiting = WebDriverWait(self.driver, self.patience, 0.02)
            return waiting.until(lambda _: self.run(script))
        except TimeoutException:
            raise AssertionError(f"not true in time: {script}; {self.messages()}") from None

    def hover(self, element: Any, tip: str) -> str:
        """Move the pointer over the element and return the text of the tip that appears."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).perform()
        shown = f"document.querySelector('{tip}')"
        self.wait(f"return {shown} && !{shown}.hidden")
        return self.run(f"return {shown}.textContent")

    def messages(self) -> list[str]:
        """The console since the last call: errors, warnings and violations of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self) -> bytes:
        return self.driver.get_screenshot_as_png()


@contextmanager
def started_browser(patience: float = PATIENCE_SECONDS) -> Iterator[Browser]:
    assert CHROMIUM is not None and DRIVER is not None
    with tempfile.TemporaryDirectory(prefix="icectl-browser-") as profile:
        options = ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options, ChromeService(DRIVER))
        try:
            yield Browser(driver, patience)
        finally:
            driver.quit()
