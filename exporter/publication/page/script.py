"""The only script of the pages: a button that copies a command. The web server's policy allows exactly this text.

A page whose script does not run has no buttons; a click selects a whole command there.
"""

from __future__ import annotations

import base64
import hashlib

# execCommand is obsolete, but the clipboard API does not exist on a page without TLS.
SCRIPT = """
for (const command of document.querySelectorAll("code.command")) {
  const button = document.createElement("button");
  button.textContent = "copy";
  button.onclick = () => {
    getSelection().selectAllChildren(command);
    button.textContent = document.execCommand("copy") ? "copied" : "selected";
  };
  command.before(button);
}
"""
SCRIPT_SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
"""The source expression of a Content-Security-Policy that allows it."""
