"""The HTML page of compare.py: bars of every model, lines of its sweeps, a table of what else was measured."""
import html

COLOURS = {"lockstep": ("#2b6cb0", "#63b3ed", "#2c5282"), "other": ("#a0aec0", "#dd6b20", "#38a169")}


def text(x, y, what, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{html.escape(what)}</text>'


def bars(result, key, title):
    rows = [(e["engine"], e[key]["worst"], e[key]["median"], e[key]["best"]) for e in result["engines"] if key in e]
    top = max((best for *_, best in rows), default=1)
    out = [f'<svg width="760" height="{24 * len(rows) + 24}" role="img">', text(0, 14, title + ", tokens/s", 'font-weight="bold"')]
    for i, (name, worst, median, best) in enumerate(rows):
        y = 24 + 24 * i
        colour = COLOURS["lockstep" if name.startswith("lockstep") else "other"][0]
        out.append(text(0, y + 14, name) + f'<rect x="150" y="{y}" width="{320 * best / top:.0f}" height="18" fill="{colour}" opacity=".35"/>'
                   f'<rect x="150" y="{y}" width="{320 * median / top:.0f}" height="18" fill="{colour}"/>'
                   + text(156 + 320 * best / top, y + 14, f"{median:.1f} ({worst:.1f} to {best:.1f})"))
    return "".join(out) + "</svg>"


def lines(sweep, key, title):
    """One line an engine: |key| over the sweep's points, which lie evenly however far apart their numbers are."""
    points = [str(p) for p in sweep["points"]]
    rows = {name: v for name, v in sweep["engines"].items() if any(key in p for p in v.values())}
    top = max((p[key] for v in rows.values() for p in v.values() if key in p), default=1)
    step = 480 / max(1, len(points) - 1)
    out = ['<svg width="760" height="260" role="img">', text(0, 14, f"{title}, tokens/s", 'font-weight="bold"'),
           '<path d="M60 30V220H560" fill="none" stroke="#718096"/>', text(0, 38, f"{top:.0f}"), text(0, 220, "0")]
    out += [text(55 + i * step, 238, p) for i, p in enumerate(points)] + [text(240, 256, sweep["what"])]
    seen = {"lockstep": 0, "other": 0}
    for i, (name, v) in enumerate(rows.items()):
        kind = "lockstep" if name.startswith("lockstep") else "other"
        colour = COLOURS[kind][seen[kind] % 3]
        seen[kind] += 1
        at = [(60 + k * step, 220 - 185 * v[p][key] / top, v[p][key]) for k, p in enumerate(points) if p in v and key in v[p]]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x:.0f},{y:.0f}" for x, y, _ in at)}"/>')
        out += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="{colour}"><title>{html.escape(name)}: {n:.1f}</title></circle>' for x, y, n in at]
        out.append(f'<rect x="580" y="{30 + 20 * i}" width="12" height="12" fill="{colour}"/>' + text(598, 41 + 20 * i, name))
    return "".join(out) + "</svg>"


def table(r):
    equal = r.get("tokens_equal_to_f32", {})
    out = ["<table><tr><th>engine<th>loaded, s<th>first token, s<th>peak memory, MB<th>GB/s<th>of memory read<th>G multiply-adds/s<th>of 16-bit products"
           "<th>greedy tokens equal to f32's</tr>"]
    for e in r["engines"]:
        decode, prefill = e.get("decode", {}), e.get("prefill", {})
        same = equal.get(e["engine"])
        out.append(f"<tr><td>{html.escape(e['engine'])} {html.escape(e['version'])}<td>{e['load_seconds']:.2f}<td>{e['first_token_seconds']:.2f}"
                   f"<td>{e['peak_bytes'] * 1e-6:.0f}<td>{decode.get('gb_per_second', 0):.1f}<td>{decode.get('share_of_read', 0):.0%}"
                   f"<td>{prefill.get('gmac_per_second', 0):.0f}<td>{prefill.get('share_of_products', 0):.0%}<td>{'' if same is None else same}</tr>")
    return "".join(out) + "</table>"


def page(results):
    out = ['<!doctype html><meta charset="utf-8"><title>lockstep beside other engines</title><style>body{font:14px sans-serif;margin:2em;max-width:80em}'
           'td,th{padding:.2em .8em;text-align:right}td:first-child,th:first-child{text-align:left}svg{display:block;margin:1em 0}</style>'
           '<h1>lockstep beside other engines</h1><p>Medians of rounds that took turns; the pale end of a bar is the best round. An engine that converts its '
           'weights reads other bytes than the file has, so its share of memory read is of the file it was given.</p>']
    for r in results:
        out.append(f"<h2>{html.escape(r['model'])}, {r['threads']} threads</h2><p>File {r['file_bytes'] * 1e-9:.2f} GB; memory read "
                   f"{r['machine']['read_gb_per_second']:.1f} GB/s, {r['machine']['gmac_per_second'] or 0:.0f} G multiply-adds/s of 16 bits.</p>")
        out += [bars(r, key, title) for key, title in (("decode", "Decode"), ("batch", f"Decode, {r['batch']} sequences"), ("prefill", f"Prompt of {r['prompt']}"))]
        out.append(table(r))
        out += [f"<p>{html.escape(name)}: not measured, {html.escape(why)}</p>" for name, why in r["missing"].items()]
        for name, sweep in r.get("sweeps", {}).items():
            out.append(f"<h3>By {html.escape(name)}</h3>")
            out += [lines(sweep, key, title) for key, title in (("decode", "Decode"), ("prefill", "Prompt"))]
    return "".join(out)
