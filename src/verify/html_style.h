/* The style sheet of the HTML report. Colours of the heat map: ColorBrewer's YlOrBr, which people with any colour vision can
 * order; every cell also shows its number, so nothing is said by colour alone. */
#ifndef LS_VERIFY_HTML_STYLE_H
#define LS_VERIFY_HTML_STYLE_H

static const char html_style[] =
    ":root{color-scheme:light dark;--line:#c8ccd2;--soft:#f2f4f7;--ink:#1b1f24;--page:#fff;--mark:#0b4f9e}"
    "@media(prefers-color-scheme:dark){:root{--line:#444b54;--soft:#22272e;--ink:#e6e9ed;--page:#15191e;--mark:#7db7ff}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;padding:0 1.5rem;max-width:90rem;color:var(--ink);background:var(--page)}"
    "h1{font-size:1.5rem;margin:0 0 .5rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}"
    "code,td.n,.map td{font-family:ui-monospace,monospace}code{overflow-wrap:anywhere}td.t code{white-space:pre;background:var(--soft)}"
    ".verdict{border-left:.5rem solid;padding:.6rem 1rem;background:var(--soft)}.equal{border-color:#1a7f37}.diverged{border-color:#b3261e}"
    ".verdict p{margin:.25rem 0}table{border-collapse:collapse}th,td{padding:.2rem .6rem;text-align:left;border:1px solid var(--line)}"
    "th{background:var(--soft);font-weight:600}td.n{text-align:right}.scroll{overflow-x:auto}"
    ".map th,.map td{padding:0;border:2px solid var(--page);font-weight:400;font-size:12px}"
    ".map th[scope=row]{padding:0 .6rem;background:none;white-space:nowrap}"
    ".map td{min-width:2.1rem;height:1.6rem;text-align:center;color:#1b1f24;cursor:default}.map th{background:none}.map th[scope=col]{text-align:center}"
    ".map td.x{background:none;color:inherit;border:0}.map td.e{background:#e4e8ec}"
    ".map td.s{background:repeating-linear-gradient(45deg,#e4e8ec 0 3px,#fff 3px 6px)}"
    ".map td.f{outline:2px solid var(--mark);outline-offset:-1px;font-weight:700}.map td.first{outline-width:4px}"
    ".k0{background:#ffffe5}.k1{background:#fff7bc}.k2{background:#fee391}.k3{background:#fec44f}.k4{background:#fe9929}.k5{background:#ec7014}"
    ".map td.k6{background:#cc4c02;color:#fff}.map td.k7{background:#993404;color:#fff}.map td.k8{background:#662506;color:#fff}"
    ".legend td{min-width:3.4rem}.differs td{background:#fff0c2;color:#1b1f24}";

#endif
