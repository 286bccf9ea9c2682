"""A headless Chromium that opens one file and tells what it did: requests, complaints, charts, pictures of itself."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
SIZE = (1280, 2000)
_QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browsing(profile: Path) -> Iterator[Chrome]:
    """A browser with a new profile; skips the test where there is none."""
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (*_QUIET, f"--user-data-dir={profile}", f"--window-size={SIZE[0]},{SIZE[1]}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(executable_path=str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


def visit(driver: Chrome, page: Path) -> None:
    """Open a file; what was asked for or written before, by the browser's own first page too, is forgotten."""
    driver.get("about:blank")
    _log(driver, "performance")
    _log(driver, "browser")
    driver.get(page.as_uri())


def requests(driver: Chrome) -> list[str]:
    """Addresses that the page asked for since it was opened, its own included, those that it holds itself left out."""
    events = [json.loads(entry["message"])["message"] for entry in _log(driver, "performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [address for address in asked if not address.startswith("data:")]


def complaints(driver: Chrome) -> list[str]:
    """What the browser wrote to its console."""
    return [entry["message"] for entry in _log(driver, "browser")]


def chart_boxes(driver: Chrome) -> list[tuple[float, float]]:
    """Width and height of everything that is drawn in each chart."""
    script = "return [...document.querySelectorAll('svg')].map(s => { const b = s.getBBox(); return [b.width, b.height]; })"
    return [(float(width), float(height)) for width, height in driver.execute_script(script)]


def overflow(driver: Chrome) -> float:
    """How far the page is wider than its window."""
    script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return float(driver.execute_script(script))


def screenshots(driver: Chrome, name: str, folder: Path) -> list[Path]:
    """The whole page by day, by night and in print, as files; DPEARL_SCREENSHOTS names another folder for them."""
    folder = Path(os.environ.get("DPEARL_SCREENSHOTS", folder))
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for light, media, scheme in (("light", "screen", "light"), ("dark", "screen", "dark"), ("print", "print", "light")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        _command(driver, "Emulation.setEmulatedMedia", media=media, features=features)
        taken.append(folder / f"{name}-{light}.png")
        taken[-1].write_bytes(_picture(driver))
    _command(driver, "Emulation.setEmulatedMedia", media="", features=[])
    taken.append(folder / f"{name}-print.pdf")
    taken[-1].write_bytes(base64.b64decode(_command(driver, "Page.printToPDF", preferCSSPageSize=True)["data"]))
    return taken


def _log(driver: Chrome, kind: str) -> list[dict[str, Any]]:
    """What was written to a log since it was last asked for."""
    entries: list[dict[str, Any]] = driver.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


def _picture(driver: Chrome) -> bytes:
    size = _command(driver, "Page.getLayoutMetrics")["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    return base64.b64decode(_command(driver, "Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"])


def _command(driver: Chrome, name: str, **options: Any) -> dict[str, Any]:
    told: dict[str, Any] = driver.execute_cdp_cmd(name, options)
    return told
