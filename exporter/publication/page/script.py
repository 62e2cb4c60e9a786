"""The only script of the pages: buttons that copy commands, and a search. The web server's policy allows exactly this text.

A page whose script does not run has neither; a click selects a whole command there. The text of the search is in the
fragment of the address, which no request contains and a reload keeps.
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
const search = document.getElementById("search");
if (search) {
  const [input, result] = search.querySelectorAll("input, output");
  const cards = [...document.querySelectorAll("article.suspect")];
  const rows = [...document.querySelectorAll("#others tbody tr")];
  const show = () => {
    const text = input.value.trim().toLowerCase();
    const isNumber = /^[0-9]+$/.test(text); // a producer id, which is no part of a longer number
    const whole = new RegExp(`(^|[^0-9,.])${isNumber ? text : ""}(?![0-9]|[,.][0-9])`);
    const names = content => isNumber ? whole.test(content) : content.includes(text);
    const contentOf = each => `${each.textContent}\n${each.dataset.groups ?? ""}`.toLowerCase();
    for (const each of [...cards, ...rows]) each.hidden = !names(contentOf(each));
    const count = cards.filter(card => !card.hidden).length;
    const others = rows.some(row => !row.hidden) ? result.dataset.others : result.dataset.none;
    result.textContent = text === "" ? "" : count ? `${count} of ${cards.length}` : others;
  };
  window.onhashchange = () => {
    const given = location.hash.startsWith("#search=") ? location.hash.slice(8) : "";
    try { input.value = decodeURIComponent(given); } catch { input.value = given; }
    show();
  };
  input.oninput = () => {
    show();
    history.replaceState(null, "", input.value ? `#search=${encodeURIComponent(input.value)}` : " ");
  };
  search.hidden = false;
  window.onhashchange();
}
"""
SCRIPT_SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'"
"""The source expression of a Content-Security-Policy that allows it."""
