"""Goldens of the chat templates: fixtures/text/template/{battery,families}.json and seeds in fixtures/fuzz/template/.

Renders with the environment that transformers compiles chat templates in (jinja2's immutable sandbox, trim_blocks,
lstrip_blocks, loopcontrols, the generation tag and transformers' tojson), with a fixed clock in UTC. battery.json holds
many small cases (template_battery.py); families.json holds whole templates written for this project in the style of each
model family (fixtures/text/template/*.jinja), each rendered with the conversations of template_conversations.py.

Run: python tools/make_template_goldens.py   (packages: tools/requirements-goldens.txt)"""

import datetime
import functools
import json
import pathlib
import sys
import warnings

from transformers.utils import chat_template_utils

import template_battery
import template_conversations

warnings.simplefilter("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "fixtures" / "text" / "template"
NOW = 1753012345  # 2025-07-20 11:52:25 UTC
INT64 = range(-(2 ** 63), 2 ** 63)


def strftime_now(pattern):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(pattern)


@functools.lru_cache(maxsize=8)
def compiled(source):
    """The template as transformers compiles it, or None when jinja2 refuses it."""
    try:
        template = chat_template_utils._compile_jinja_template(source)
    except Exception:
        return None
    template.environment.globals["strftime_now"] = strftime_now
    return template


def render(source, context):
    """The text, or None when jinja2 refuses the template or fails while rendering."""
    template = compiled(source)
    try:
        return template.render(**context) if template else None
    except Exception:
        return None


def case(name, template, context, text):
    c = {"name": name, "template": template, "context": context}
    c.update({"error": True} if text is None else {"text": text})
    return c


def differs_by_design(text):
    """Addresses of objects, and integers past 64 bits, which lockstep refuses."""
    return text is not None and (" at 0x" in text or any(w.lstrip("-").isdigit() and int(w) not in INT64 for w in text.split()))


def battery():
    cases = []
    named = [(e, "{{ " + e + " }}") for e in template_battery.EXPRESSIONS if e] + template_battery.STATEMENTS
    for name, source in named:
        text = render(source, template_battery.CONTEXT)
        cases.append(case(name, source, 0, None if differs_by_design(text) else text))
    return {"now": NOW, "contexts": [template_battery.CONTEXT], "cases": cases}


def families():
    sources = sorted(OUT.glob("*.jinja"))
    templates = [p.read_text(encoding="utf-8") for p in sources]
    conversations = template_conversations.all_contexts()
    cases = []
    for t, path in enumerate(sources):
        rendered = 0
        for c, (name, context) in enumerate(conversations):
            text = render(templates[t], context)
            rendered += text is not None
            cases.append(case(f"{path.stem}: {name}", t, c, text))
        print(f"{path.stem}: {rendered} of {len(conversations)} conversations render", file=sys.stderr)
    return {"now": NOW, "templates": templates, "contexts": [c for _, c in conversations], "cases": cases}


def write_seeds(battery_cases, templates):
    """Seeds of fuzz_template: source, a zero byte, JSON context."""
    folder = ROOT / "fixtures" / "fuzz" / "template"
    folder.mkdir(parents=True, exist_ok=True)
    small = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "n": 7, "l": [3, 1, 2], "d": {"b": 1}, "s": "Hello"})
    chunks = [" ".join(c["template"] for c in battery_cases[i:i + 40] if "text" in c) for i in range(0, len(battery_cases), 40)]
    for i, source in enumerate(chunks + templates):
        (folder / f"seed{i:02d}").write_bytes(source.encode("utf-8") + b"\0" + small.encode())


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    small, whole = battery(), families()
    for name, data in (("battery", small), ("families", whole)):
        (OUT / f"{name}.json").write_text(json.dumps(data, ensure_ascii=True, indent=0) + "\n", encoding="ascii")
        print(f"{name}: {len(data['cases'])} cases, {sum('error' in c for c in data['cases'])} of them errors", file=sys.stderr)
    write_seeds(small["cases"], whole["templates"])


if __name__ == "__main__":
    main()
