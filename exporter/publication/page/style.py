"""The inline style sheet of the status page: light or dark by the preference of the browser.

Every pair of text and background has a contrast of at least 4.5 to 1 (a test computes it).
"""

LIGHT = {
    "text": "#1a1d21",
    "quiet": "#50565e",
    "page": "#ffffff",
    "panel": "#f3f4f6",
    "line": "#c9ced6",
    "link": "#0b57a4",
    "bad": "#a3141b",
    "bad-page": "#fdecec",
    "warning": "#7a4a00",
    "warning-page": "#fff4dc",
    "unknown": "#4a4f57",
    "unknown-page": "#e9ebee",
    "good": "#176231",
    "good-page": "#e6f5ea",
}
DARK = {
    "text": "#e6e8eb",
    "quiet": "#a9b0b9",
    "page": "#14171a",
    "panel": "#1f2327",
    "line": "#3a4149",
    "link": "#8cc0ff",
    "bad": "#ff9a9a",
    "bad-page": "#3b1518",
    "warning": "#ffcf70",
    "warning-page": "#362808",
    "unknown": "#c3c9d1",
    "unknown-page": "#2b3036",
    "good": "#86dba0",
    "good-page": "#12301c",
}

_RULES = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:84rem;padding:1rem 1.25rem 3rem;background:var(--page);color:var(--text);
 font:15px/1.45 system-ui,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;justify-content:space-between}
h1{font-size:1.15rem;margin:0}h2{font-size:1.05rem;margin:1.75rem 0 .5rem}
a{color:var(--link)}nav a{margin-left:1rem}nav a:first-child{margin-left:0}
code,.number{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.92em}
.quiet{color:var(--quiet)}
.banner{margin:.9rem 0;padding:.75rem 1rem;border-left:.5rem solid;border-radius:.25rem}
.banner strong{display:block;font-size:1.3rem;line-height:1.3}
.banner ul{margin:.4rem 0 0;padding-left:1.2rem}.banner p{margin:.4rem 0 0}
.bad{color:var(--bad);background:var(--bad-page);border-color:var(--bad)}
.warning{color:var(--warning);background:var(--warning-page);border-color:var(--warning)}
.unknown{color:var(--unknown);background:var(--unknown-page);border-color:var(--unknown)}
.good{color:var(--good);background:var(--good-page);border-color:var(--good)}
dl.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(13rem,45%),1fr));gap:.5rem;margin:0}
dl.facts div{background:var(--panel);border-radius:.25rem;padding:.45rem .7rem}
dt{color:var(--quiet);font-size:.85rem}dd{margin:0;font-weight:600}
dd small{display:block;font-weight:400;color:var(--quiet)}
.suspect{border:1px solid var(--line);border-radius:.25rem;margin:0 0 .6rem;padding:.55rem .8rem}
.suspect h3{margin:0;font-size:1rem;display:flex;flex-wrap:wrap;gap:.3rem .8rem;align-items:baseline}
.suspect h3 code{font-weight:700;min-width:0}
.suspect p{margin:.3rem 0 0}
.tag{padding:.05rem .5rem;border-radius:.25rem;font-size:.85rem;font-weight:600;white-space:nowrap}
.suspect dl{display:flex;flex-wrap:wrap;gap:.15rem 1.6rem;margin:.35rem 0 0}
.suspect dl div{display:flex;gap:.4rem}.suspect dd{font-weight:400}.suspect .age dd{font-weight:700}
.suspect dt{flex:none;font-size:inherit}
table{border-collapse:collapse;min-width:min(32rem,100%)}
th,td{padding:.25rem .9rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--quiet)}td.number,th.number{text-align:right;white-space:nowrap}
tr.zero{color:var(--quiet)}
@media (min-width:70rem){.columns{display:grid;grid-template-columns:1fr 1fr;gap:0 3rem}}
"""


def style_sheet() -> str:
    """The content of the page's `<style>`."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
