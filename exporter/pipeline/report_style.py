"""The style sheet of the report: light or dark by the preference of the browser; on a phone each row is a card."""

from __future__ import annotations

from typing import Final

LIGHT: Final = {
    "text": "#1c2430",
    "quiet": "#4b5563",
    "page": "#ffffff",
    "panel": "#eef0f3",
    "line": "#d5dae1",
    "bad": "#b42318",
    "warning": "#b54708",
    "usual": "#1570ef",
}
DARK: Final = {
    "text": "#e6e8eb",
    "quiet": "#a9b0b9",
    "page": "#14171a",
    "panel": "#23282d",
    "line": "#3a4149",
    "bad": "#ff7a70",
    "warning": "#f5a742",
    "usual": "#5aa2ff",
}
_RULES: Final = """
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,"DejaVu Sans",sans-serif;color:var(--text);background:var(--page);
 max-width:75rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.5rem 0 .5rem}
.summary{font-size:1.15rem;font-weight:600;margin:.75rem 0}.nothing,.quiet{color:var(--quiet)}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;overflow-wrap:anywhere}
th{border-bottom:2px solid var(--text);overflow-wrap:normal}td{border-bottom:1px solid var(--line)}
.word{white-space:nowrap}td.number,th.number{text-align:right}td.number{white-space:nowrap;font-variant-numeric:tabular-nums}
ol.plot{list-style:none;margin:1rem 0;padding:0}
ol.plot li{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,2fr);gap:0 1rem;align-items:center}
ol.plot li>span:first-child{overflow-wrap:anywhere}
.track{position:relative;height:1.1rem;background:var(--panel);border-radius:.2rem;margin:.15rem 0}
.track i{position:absolute;top:0;height:100%;min-width:3px;border-radius:.2rem}
.bad{background:var(--bad)}.warning{background:var(--warning)}.usual{background:var(--usual)}
.ends{display:flex;justify-content:space-between;color:var(--quiet);font-size:.85rem;gap:1rem}
@media (max-width:45rem){
 body{margin:1rem auto}
 ol.plot li{grid-template-columns:minmax(0,1fr)}
 table,tbody{display:block}tr{display:block;border-bottom:1px solid var(--line);padding:.4rem 0}
 tr:has(th){display:none}
 td,td.number{display:flex;gap:1rem;justify-content:space-between;border:0;padding:.05rem 0;white-space:normal;
  text-align:right}
 td::before{content:attr(data-head);color:var(--quiet);flex:none;text-align:left}
}
"""


def style_sheet() -> str:
    """The content of the page's `<style>`."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
