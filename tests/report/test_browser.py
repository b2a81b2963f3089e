"""The page in a real browser, at the widths of a desktop and of a phone."""

import html
import json
import re
import shutil
import subprocess

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--virtual-time-budget=4000",
    "--window-size=1400,900",
    "--dump-dom",
]
WIDTHS = (1280, 390)

# Each frame is a window of its own width, with its own media queries. What goes wrong in it, from the
# first script on, is told to the outer page, which is printed when it is done.
_LISTEN = """<script>
window.faults = [];
window.addEventListener("error", function (e) { faults.push(String(e.message)); }, true);
["error", "warn"].forEach(function (kind) {
  console[kind] = function () { faults.push(kind + ": " + Array.from(arguments).join(" ")); };
});
</script>"""
_ASK = """<script>
window.onload = function () {
  setTimeout(function () {
    var seen = Array.from(document.querySelectorAll("iframe")).map(function (frame) {
      var page = frame.contentDocument, root = page.documentElement;
      var wide = Array.from(page.body.querySelectorAll("*")).filter(function (element) {
        var box = element.getBoundingClientRect();
        return box.width > 0 && box.right > root.clientWidth + 1 && !element.closest("pre, .skip, thead");
      });
      var needed = root.scrollWidth;
      frame.contentWindow.dispatchEvent(new Event("beforeprint"));
      return {
        width: root.clientWidth, needed: needed, faults: frame.contentWindow.faults,
        wide: wide.slice(0, 5).map(function (e) { return e.tagName + "." + e.className; }),
        drawn: page.querySelectorAll(".chart svg.main-svg").length,
        closed: page.querySelectorAll("details:not([open])").length,
      };
    });
    var told = document.createElement("pre");
    told.id = "seen";
    told.textContent = JSON.stringify(seen);
    document.body.replaceChildren(told);
  }, 1500);
};
</script>"""


def shown(page, folder):
    """What the browser has to say of a page at each width."""
    inside = html.escape(page.replace("<head>", f"<head>{_LISTEN}", 1))
    frames = (f'<iframe width="{w}" height="800" srcdoc="{inside}"></iframe>' for w in WIDTHS)
    path = folder / "frames.html"
    outer = '<!DOCTYPE html><meta charset="utf-8"><body>' + _ASK + "".join(frames)
    path.write_text(outer + "</body>", encoding="utf-8")
    command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', done.stdout)[1]))


@pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")
def test_page_fits_its_window_and_its_scripts_run(finished, tmp_path):
    desktop, phone = shown(finished[0].read_text(encoding="utf-8"), tmp_path)
    assert desktop["width"] > 1200
    assert phone["width"] < 400
    for seen in (desktop, phone):
        assert seen["faults"] == []
        assert seen["wide"] == []
        assert seen["needed"] <= seen["width"]
        assert seen["drawn"] >= 1  # before printing, charts that were never in sight too
        assert seen["closed"] == 0
