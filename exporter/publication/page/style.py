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
    "waiting": "#0b4a8f",
    "waiting-page": "#e6effa",
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
    "waiting": "#9cc9ff",
    "waiting-page": "#13263a",
    "good": "#86dba0",
    "good-page": "#12301c",
}

_RULES = """
*{box-sizing:border-box}
body{margin:0 auto;max-width:84rem;padding:1rem 1.25rem 3rem;background:var(--page);color:var(--text);
 font:15px/1.45 system-ui,"DejaVu Sans",sans-serif;overflow-wrap:break-word}
header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;justify-content:space-between}
h1{font-size:1.15rem;margin:0;min-width:0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:1.5rem 0 .5rem}
h2 .quiet{font-weight:400;font-size:.9rem}
a{color:var(--link)}nav{display:flex;flex-wrap:wrap;gap:0 1rem}
ol.events{list-style:none;margin:0;padding:0}ol.events li{padding:.3rem 0;border-bottom:1px solid var(--line)}
time{color:var(--quiet);white-space:nowrap;margin-right:.8rem}
code,td.number{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.92em}
code,td,pre{overflow-wrap:anywhere}pre{white-space:pre-wrap;max-width:100ch}td.word{overflow-wrap:normal}
#runbook>*{max-width:100ch}#runbook pre{margin:.3rem 0}#runbook td:first-child{overflow-wrap:normal}
.quiet{color:var(--quiet)}
.banner{margin:.9rem 0;padding:.75rem 1rem;border-left:.5rem solid;border-radius:.25rem}
.banner strong{display:block;font-size:1.3rem;line-height:1.3}
.banner ul{margin:.4rem 0 0;padding-left:1.2rem}.banner p{margin:.4rem 0 0}
.bad{color:var(--bad);background:var(--bad-page);border-color:var(--bad)}
.warning{color:var(--warning);background:var(--warning-page);border-color:var(--warning)}
.unknown{color:var(--unknown);background:var(--unknown-page);border-color:var(--unknown)}
.waiting{color:var(--waiting);background:var(--waiting-page);border-color:var(--waiting)}
.good{color:var(--good);background:var(--good-page);border-color:var(--good)}
dl.facts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:.5rem;margin:1.5rem 0 0}
dl.facts div{background:var(--panel);border-radius:.25rem;padding:.45rem .7rem}
dl.facts div:last-child:nth-child(odd){grid-column:span 2}
dt{color:var(--quiet);font-size:.85rem}dd{margin:0;font-weight:600}
dd small{display:block;font-weight:400;color:var(--quiet)}
.suspect{border:1px solid var(--line);border-radius:.25rem;margin:0 0 .6rem;padding:.55rem .8rem}
.suspect h3{margin:0;font-size:1rem;display:flex;flex-wrap:wrap;gap:.3rem .8rem;align-items:baseline}
.suspect h3 code,.suspect h3 a{font-weight:700;min-width:0}
.suspect p{margin:.3rem 0 0}
.tag{padding:.05rem .5rem;border-radius:.25rem;font-size:.85rem;font-weight:600}
.suspect dl{display:flex;flex-wrap:wrap;gap:.15rem 1.6rem;margin:.35rem 0 0}
.suspect dl div{display:flex;gap:.4rem}.suspect dd{font-weight:400;min-width:0;overflow-wrap:anywhere}
.suspect .age dd{font-weight:700}.suspect dt{flex:none;font-size:inherit}
.command{user-select:all;-webkit-user-select:all;display:block;margin-top:.2rem;background:var(--panel);
 padding:.15rem .5rem;border-radius:.25rem}.command span{white-space:nowrap}
input{font:inherit;max-width:100%;color:inherit;background:var(--page);border:1px solid var(--line);border-radius:.25rem}
button{font:inherit;font-size:.85rem;margin-left:.4rem;padding:.05rem .6rem;cursor:pointer;color:var(--link);
 background:var(--page);border:1px solid var(--line);border-radius:.25rem}
table{border-collapse:collapse;min-width:min(32rem,100%)}
th,td{padding:.25rem .9rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--quiet)}td.number,th.number{text-align:right}td.number{white-space:nowrap}
@media (min-width:50rem){dl.facts{grid-template-columns:repeat(4,minmax(0,1fr))}}
@media (min-width:70rem){.columns{display:grid;grid-template-columns:3fr 2fr;gap:0 3rem;align-items:start}}
@media (max-width:30rem){body{padding:.6rem .7rem 2rem}.banner{margin:.6rem 0;padding:.5rem .7rem}
 .banner strong{font-size:1.1rem}h2{margin-top:1rem}.suspect{padding:.5rem .6rem}
 th,td{padding-right:.6rem}}
"""


def style_sheet() -> str:
    """The content of the page's `<style>`."""
    light, dark = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"
