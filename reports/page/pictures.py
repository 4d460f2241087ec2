"""The pictures of a page as PNG files, as a browser that is installed draws them."""

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import OutputError, ToolError

_WIDTH = 1100
_SCALE = 2  # pixels of the file for each of the picture
_WAIT_S = 60
_BOXES = """JSON.stringify([...document.querySelectorAll("[data-figure]")].map((place) => {
  const box = place.getBoundingClientRect();
  return [place.dataset.figure.replace("figure-", ""), box.left + scrollX, box.top + scrollY, box.width, box.height];
}))"""


def write(page: Path, folder: Path) -> list[Path]:
    """Write NAME.png for each picture of a page that was written; returns the paths.

    Raises ToolError without choreographer or a browser, OutputError when the folder cannot be written.
    """
    if find_spec("choreographer") is None:
        raise ToolError("--png needs choreographer, which drives a browser: pip install 'lorabench[png]'")
    from choreographer.errors import BrowserClosedError, BrowserFailedError, ChromeNotFoundError

    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop of its own
            pictures = thread.submit(lambda: asyncio.run(_drawn(page))).result()
    except (ChromeNotFoundError, BrowserClosedError, BrowserFailedError, RuntimeError, TimeoutError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise ToolError(f"--png could not draw ({said}); install Chromium, or name one in BROWSER_PATH") from error
    paths = [folder / f"{name}.png" for name in pictures]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, picture in zip(paths, pictures.values(), strict=True):
            path.write_bytes(picture)
    except OSError as error:
        raise OutputError(f"cannot write pictures to {folder}: {error.strerror}") from error
    return paths


async def _drawn(page: Path) -> dict[str, bytes]:
    """What each picture of the page looks like."""
    from choreographer import Browser

    found = {}
    async with Browser(headless=True) as browser:
        tab = await browser.create_tab(page.absolute().as_uri())

        async def ask(command: str, **parameters: Any) -> Any:
            answer = await tab.send_command(command, params=parameters)
            if "error" in answer:
                raise RuntimeError(answer["error"].get("message", command))
            return answer["result"]

        async def value(expression: str) -> Any:
            return (await ask("Runtime.evaluate", expression=expression, returnByValue=True))["result"].get("value")

        await ask("Emulation.setDeviceMetricsOverride", width=_WIDTH, height=900, deviceScaleFactor=1, mobile=False)
        async with asyncio.timeout(_WAIT_S):
            while await value("document.documentElement.dataset.drawn") != "all":
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.2)  # pictures follow the page's width
        for name, left, top, width, height in json.loads(await value(_BOXES)):
            clip = {"x": left, "y": top, "width": width, "height": height, "scale": _SCALE}
            shot = await ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            found[name] = base64.b64decode(shot["data"])
    return found
