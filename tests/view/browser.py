"""A headless Chromium, spoken to through its DevTools pipe (descriptors 3 and 4) with the standard library alone.

What it leaves out: everything that tests/checks/view does not need. One page at a time; each call waits for its answer.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program():
    """Where one is, or None. A stub that only tells to install a snap is none."""
    for name in NAMES:
        path = shutil.which(name)
        if path is None:
            continue
        with open(path, "rb") as file:
            if b"snap install" in file.read(4096):
                continue
        return path
    return None


class Browser:
    def __init__(self, path, profile, seconds=60):
        self.seconds, self.next, self.rest, self.events = seconds, 0, b"", []
        ours, theirs = os.pipe(), os.pipe()  # they read from ours[0] and write to theirs[1]
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (ours[0], theirs[1]))

        def place():
            os.dup2(reads, 3)
            os.dup2(writes, 4)
        self.process = subprocess.Popen(
            [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=place, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for fd in (ours[0], theirs[1], reads, writes):
            os.close(fd)
        self.to, self.of = ours[1], theirs[0]
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        end = time.monotonic() + self.seconds
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.of, 1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.next += 1
        request = {"id": self.next, "method": method, "params": params}
        if getattr(self, "session", None):
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.next:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def open(self, url, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def value(self, expression):
        """What a JavaScript expression is, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def complaints(self):
        """Errors and warnings of the page so far."""
        said = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(json.dumps(params["exceptionDetails"])[:400])
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                said.append(params["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                said.append(json.dumps(params["args"])[:400])
        return said

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            session, self.session = self.session, None
            self.call("Browser.close")
        except (EOFError, OSError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.of)
