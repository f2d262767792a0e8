"""A real Chromium without a window, driven over two pipes: no package, no port, and no version to match."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-default-browser-check", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds for one answer; a loaded machine starts Chromium in ten


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One process, one page at a time. `log` has console messages and errors, `requests` every address asked for."""

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place() -> None:  # the protocol wants file descriptors 3 and 4
            one, other = os.dup(to_read), os.dup(to_write)
            high = [os.dup(fd) for fd in (one, other)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._events = b"", 0, []  # type: ignore[var-annotated]
        self.log: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"}, root=True)["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, root=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False, media: str = "") -> None:
        self.log, self.requests, self._events = [], [], []
        how = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", how)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self._call("Page.navigate", {"url": page.resolve().as_uri()})
        self._until("Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """With the mouse, at the middle of the element."""
        x, y = self.run(
            f"(e => {{ e.scrollIntoView({{block: 'center', inline: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})

    def point(self, selector: str, across: float, touch: bool = False) -> None:
        """Move the mouse to a place of an element, or tap it there: half way down, `across` from 0 to 1."""
        left, width, y = self.run(
            "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            f" return [b.x, b.width, b.y + b.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        x = left + across * width
        if not touch:
            self._call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
            return
        self._call("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        self._call("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def press(self, key: str) -> None:
        codes = {"Enter": (13, "\r"), " ": (32, " "), "Tab": (9, ""), "Escape": (27, ""), "End": (35, "")}
        codes |= {"Home": (36, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, ""), "PageUp": (33, "")}
        code, text = codes[key]
        about = {"key": key, "windowsVirtualKeyCode": code}
        self._call("Input.dispatchKeyEvent", {"type": "keyDown", **about, **({"text": text} if text else {})})
        self._call("Input.dispatchKeyEvent", {"type": "keyUp", **about})

    def screenshot(self, path: Path, whole: bool = False) -> None:
        answer = self._call(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole, **self._clip(whole)}
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}}

    def pdf(self, path: Path) -> None:
        answer = self._call(
            "Page.printToPDF",
            {"printBackground": True, "preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69},
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        os.close(self._write)  # Chromium ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def _call(self, method: str, params: dict[str, Any] | None = None, root: bool = False) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if not root:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == number:
                if "error" in got:
                    raise AssertionError(f"{method}: {got['error']}")
                return dict(got["result"])

    def _until(self, event: str) -> None:
        while event not in self._events:
            self._next()

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise AssertionError(f"Chromium does not answer (exit code {self._process.poll()})")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.log.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.log.append(f"{params['type']}: {params['args']}")
        elif method == "Log.entryAdded":
            self.log.append(f"{params['entry']['level']}: {params['entry']['text']}")
