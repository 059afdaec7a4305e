"""A headless Chromium, driven by the WebDriver protocol without a library."""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

_PROGRAMS = ("chromium", "chromedriver")
_ARGUMENTS = (
  *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
  *("--no-first-run", "--disable-background-networking"),
  *("--disable-component-update", "--disable-sync", "--window-size=1280,900"),
)
_SECONDS = 60
# The key of an element's id in the protocol's messages.
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, TAB, SPACE, RIGHT = "\ue007", "\ue004", " ", "\ue014"  # Keys.


def missing() -> str | None:
  """Returns the reason to skip browser tests; None if all is installed."""
  absent = [name for name in _PROGRAMS if shutil.which(name) is None]
  return f"needs {' and '.join(absent)}" if absent else None


class Browser:
  """A session of the browser."""

  def __init__(self, url: str) -> None:
    self.url = url

  def send(self, command: str, method: str = "POST", **values: Any) -> Any:
    """Sends a command of the protocol and returns its result."""
    return _send(f"{self.url}/{command}", method, values)

  def open(self, url: str) -> None:
    """Loads a page, or loads it again, and waits until it is complete."""
    self.send("url", url="about:blank")
    self.send("url", url=url)
    state = "return [document.URL, document.readyState]"
    deadline = time.monotonic() + _SECONDS
    while self.run(state) != [url, "complete"]:
      if time.monotonic() > deadline:
        raise TimeoutError(f"{url} did not load in {_SECONDS} seconds.")
      time.sleep(0.05)

  def run(self, script: str) -> Any:
    """Runs the body of a JavaScript function and returns its result."""
    return self.send("execute/sync", script=script, args=[])

  def find(self, selector: str) -> list[str]:
    """Returns the elements that a CSS selector finds."""
    found = self.send("elements", using="css selector", value=selector)
    return [element[_ELEMENT] for element in found]

  def click(self, selector: str) -> None:
    """Clicks on the only element that a selector finds."""
    (element,) = self.find(selector)
    self.send(f"element/{element}/click")

  def press(self, keys: str) -> None:
    """Presses keys, one after the other."""
    strokes = [
      {"type": kind, "value": key}
      for key in keys
      for kind in ("keyDown", "keyUp")
    ]
    source = {"type": "key", "id": "keyboard", "actions": strokes}
    self.send("actions", actions=[source])

  def is_shown(self, element: str) -> bool:
    """Returns whether an element can be seen."""
    return self.send(f"element/{element}/displayed", "GET")

  def style(self, selector: str, name: str) -> str:
    """Returns the computed style `name` of the only element with a selector."""
    (element,) = self.find(selector)
    return self.send(f"element/{element}/css/{name}", "GET")

  def resize(self, width: int, height: int) -> None:
    """Changes the size of the window."""
    self.send("window/rect", width=width, height=height)

  def devtools(self, command: str, **values: Any) -> Any:
    """Sends a command of the DevTools protocol and returns its result."""
    return self.send("goog/cdp/execute", cmd=command, params=values)

  def log(self, kind: str) -> list[dict[str, Any]]:
    """Returns new entries of a log, "browser" or "performance"."""
    return self.send("se/log", type=kind)

  def requests(self) -> list[str]:
    """Returns the URLs that were requested since the last call."""
    messages = [
      json.loads(entry["message"])["message"]
      for entry in self.log("performance")
    ]
    return [
      message["params"]["request"]["url"]
      for message in messages
      if message["method"] == "Network.requestWillBeSent"
    ]

  def screenshot(self) -> bytes:
    """Returns a picture of the window as PNG."""
    return base64.b64decode(self.send("screenshot", "GET"))

  def pdf(self) -> bytes:
    """Returns the page as a PDF file."""
    return base64.b64decode(self.send("print", background=False))


@contextlib.contextmanager
def started() -> Iterator[Browser]:
  """Yields a new browser, which ends with the context."""
  driver = subprocess.Popen(
    ["chromedriver", "--port=0"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
  )
  try:
    address = f"http://127.0.0.1:{_port(driver)}/session"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
      url = f"{address}/{_session(address, profile)}"
      browser = Browser(url)
      try:
        # Leave the new-tab page, which sends many requests.
        browser.open("about:blank")
        browser.requests()
        yield browser
      finally:
        _send(url, "DELETE", {})
  finally:
    driver.terminate()
    driver.wait(timeout=_SECONDS)
    if driver.stdout is not None:
      driver.stdout.close()


def _session(address: str, profile: str) -> str:
  options = {
    "args": [*_ARGUMENTS, f"--user-data-dir={profile}"],
    "binary": shutil.which("chromium"),
  }
  capabilities = {
    "goog:chromeOptions": options,
    "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
  }
  values = {"capabilities": {"alwaysMatch": capabilities}}
  return _send(address, "POST", values)["sessionId"]


def _port(driver: "subprocess.Popen[str]") -> int:
  lines = []
  for line in driver.stdout or ():
    lines.append(line)
    if found := re.search(r"successfully on port (\d+)", line):
      return int(found[1])
  raise RuntimeError(f"chromedriver did not start: {''.join(lines)}")


def _send(url: str, method: str, values: dict[str, Any]) -> Any:
  data = json.dumps(values).encode() if method == "POST" else None
  request = urllib.request.Request(
    url, data, {"Content-Type": "application/json"}, method=method
  )
  # No proxy: the driver is on this machine.
  opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
  try:
    with opener.open(request, timeout=_SECONDS) as response:
      return json.load(response)["value"]
  except urllib.error.HTTPError as error:
    raise RuntimeError(json.load(error)["value"]["message"]) from error
