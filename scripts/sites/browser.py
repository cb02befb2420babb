"""Chromium without a screen, driven over its DevTools pipe; needs nothing but Python."""

import base64
import fcntl
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

PROGRAM = "/usr/bin/chromium"
# How long the browser may take for one command, and a page for one state, in seconds.
PATIENCE_S = 60
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--window-size=1200,900", "--ignore-certificate-errors", "--remote-debugging-pipe",
]


class Failure(Exception):
    """What a page should have shown and did not."""


class Browser:
    """A browser with a profile of its own; both end with `close`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="weir-sites-")
        from_us, self.to = os.pipe()
        self.answers, to_us = os.pipe()

        # The protocol reads descriptor 3 and writes to 4, so both ends stand out of their way first.
        from_us, to_us = high(from_us), high(to_us)
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "bash",
             PROGRAM, *OPTIONS, f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(from_us, to_us), start_new_session=True,
        )
        os.close(from_us)
        os.close(to_us)
        self.number = 0
        self.waiting = {}
        self.pages = {}
        self.lock = threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Hands each message on: answers to those who wait, events to their page."""
        with os.fdopen(self.answers, "rb") as answers:
            rest = b""
            while piece := answers.raw.read(1 << 16):
                *messages, rest = (rest + piece).split(b"\0")
                for message in map(json.loads, messages):
                    if "id" in message:
                        # Nothing waits any more for an answer that came too late.
                        if waits := self.waiting.pop(message["id"], None):
                            waits.put(message)
                    elif page := self.pages.get(message.get("sessionId")):
                        page.happened(message["method"], message.get("params", {}))

    def ask(self, method, session=None, **parameters):
        """Sends a command, and returns its result."""
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            self.waiting[self.number] = answer
            command = {"id": self.number, "method": method, "params": parameters}
            if session:
                command["sessionId"] = session
            os.write(self.to, json.dumps(command).encode() + b"\0")
        try:
            message = answer.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise Failure(f"the browser did not answer {method} within {PATIENCE_S} s") from None
        if "error" in message:
            raise Failure(f"{method}: {message['error']['message']}")
        return message["result"]

    def page(self):
        """A new tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        self.pages[session] = page
        for domain in ("Page", "Network", "Runtime", "Log"):
            page.ask(f"{domain}.enable")
        return page

    def close(self):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.to)
        shutil.rmtree(self.profile, ignore_errors=True)


def high(descriptor):
    """The same pipe by a descriptor from 10 on."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Page:
    """A tab: what it shows, and what went wrong in it."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.responses, self.failures, self.addresses = [], [], {}

    def ask(self, method, **parameters):
        return self.browser.ask(method, self.session, **parameters)

    def happened(self, method, said):
        """Keeps responses, failed requests, and mistakes of scripts."""
        if method == "Network.requestWillBeSent":
            self.addresses[said["requestId"]] = said["request"]["url"]
        elif method == "Network.responseReceived":
            self.responses.append(said["response"])
        elif method == "Network.loadingFailed" and not said.get("canceled"):
            self.failures.append(f"{self.addresses.get(said['requestId'])}: {said['errorText']}")
        elif method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.failures.append(f"script: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Page.javascriptDialogOpening":
            # The answer must not wait for itself: this is the thread that reads.
            threading.Thread(target=lambda: self.ask("Page.handleJavaScriptDialog", accept=True)).start()

    def value(self, script):
        """The value of an expression in the page; of a promise, what it becomes."""
        said = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            details = said["exceptionDetails"]
            raise Failure(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return said["result"].get("value")

    def until(self, script, what):
        """Waits until an expression holds; one that fails while a page changes does not hold yet."""
        end = time.monotonic() + PATIENCE_S
        last = None
        while time.monotonic() < end:
            try:
                last = self.value(script)
                if last:
                    return last
            except Failure as failure:
                last = failure
            time.sleep(0.05)
        raise Failure(f"{what}: not within {PATIENCE_S} s; {script} is {last!r}; {self.where()}")

    def where(self):
        """The address and the first words of the page, for a message."""
        try:
            return self.value("location.href + ' shows: ' + document.body.innerText.slice(0, 600)")
        except Failure as failure:
            return str(failure)

    def has(self, text):
        """Waits until the page shows a text."""
        self.until(f"document.readyState == 'complete' && document.body.innerText.includes({json.dumps(text)})", f"the text {text!r}")

    def open(self, address):
        """Opens a page, and waits for all of it."""
        said = self.ask("Page.navigate", url=address)
        if said.get("errorText"):
            raise Failure(f"{address}: {said['errorText']}")
        self.until("document.readyState == 'complete'", address)

    def fill(self, **fields):
        """Writes into fields, by their names."""
        for name, text in fields.items():
            found = f"document.querySelector('[name=\"{name}\"]')"
            self.until(f"!!{found}", f"a field {name}")
            self.value(
                f"(() => {{ const one = {found}; one.focus(); if (one.type == 'checkbox') {{ one.checked = {json.dumps(text)}; }}"
                f" else {{ one.value = {json.dumps(text)}; }}"
                f" for (const event of ['input', 'change', 'keyup']) one.dispatchEvent(new Event(event, {{ bubbles: true }})); }})()"
            )

    def press(self, selector):
        """Presses a button or a link that leads to another page, and waits until that page is there."""
        self.until(f"!!document.querySelector({json.dumps(selector)})", f"something to press: {selector}")
        self.value("window.isFormer = true")
        self.value(f"setTimeout(() => document.querySelector({json.dumps(selector)}).click(), 0), true")
        self.until("!window.isFormer && document.readyState == 'complete'", f"the page behind {selector}")

    def choose_file(self, selector, path):
        """Puts a file into a field for files."""
        root = self.ask("DOM.getDocument")["root"]["nodeId"]
        node = self.ask("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        if not node:
            raise Failure(f"no field for files: {selector}; {self.where()}")
        self.ask("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def close(self):
        """Closes the tab."""
        self.browser.pages.pop(self.session)
        self.browser.ask("Target.closeTarget", targetId=self.target)

    def picture(self, path):
        """Keeps what the page looks like, as PNG."""
        # A tab behind another one is not drawn.
        self.ask("Page.bringToFront")
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def no_failures(self, but=()):
        """Nothing failed so far: no request, no script, no response of 400 or more, except where `but` is in it."""
        found = list(self.failures)
        found += [f"{one['url']}: {one['status']}" for one in self.responses if one["status"] >= 400]
        # A browser asks by itself for the picture of a site, which need not have one.
        found = [one for one in found if not any(word in one for word in [*but, "/favicon.ico: 404"])]
        self.failures.clear()
        self.responses.clear()
        if found:
            raise Failure("the page's requests failed: " + "; ".join(found[:10]))
