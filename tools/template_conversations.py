"""Contexts for whole chat templates: conversations with and without system prompts, tools, thinking, parts, documents.

Used by make_template_goldens.py."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current \"weather\" for <city> & more.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City, e.g. São Paulo"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1}, "description": "Days ahead"},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}}, "required": ["lat"]}},
        "required": ["city"]},
    "return": {"type": "string", "description": "The weather."}}}
CLOCK = {"type": "function", "function": {"name": "now", "description": "The time.\nIn UTC.", "parameters": {"type": "object", "properties": {}}}}
ECHO = {"type": "function", "function": {"name": "echo", "description": "Repeats.", "parameters": {
    "type": "object", "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}, "required": ["text", "times"]}}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, ident="abcdef123"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name="get_weather", ident="abcdef123"):
    return {"role": "tool", "name": name, "tool_call_id": ident, "content": content}


def text_part(text):
    return {"type": "text", "text": text}


def conversations():
    hello = [user("Hello!")]
    turns = [user("Hi"), assistant("Hello, how can I help?"), user("Tell me a joke.")]
    unicode_turns = [system("Répondez en français. 日本語もOK"), user("  ¿Qué tal? 🎉\n\n<|im_end|> [INST] </s> {{ x }} "), assistant("¡Bien!\n"), user("\tfin\n")]
    thinking = [user("2+2?"), assistant("<think>\nAdd them.\n</think>\n\n4"), user("3+3?"), assistant("<think>Six</think>6"), user("And 4+4?")]
    reasoning = [user("2+2?"), assistant("4", reasoning_content="Add."), user("3+3?"), assistant("6", reasoning_content="Again.\n"), user("ok")]
    called = [user("Weather in Paris?"), assistant("", tool_calls=[call("get_weather", {"city": "Paris", "unit": "celsius"})]), tool('{"temp": 21, "sky": "clear"}')]
    both = [system("Use tools."), user("Weather and time?"),
            assistant("Let me look.", tool_calls=[call("get_weather", {"city": "Köln", "days": [1, 2]}), call("now", {}, "fedcba987")]),
            tool("rain"), tool("12:00", "now", "fedcba987"), assistant("Rain at noon."), user("Thanks")]
    parts = [{"role": "system", "content": [text_part("Look closely.")]},
             {"role": "user", "content": [{"type": "image"}, text_part("What is this?"), text_part(" And that? ")]},
             {"role": "assistant", "content": [text_part("A cat.")]}, {"role": "user", "content": [text_part("Sure?")]}]
    return [
        ("one user turn", hello), ("three turns", turns), ("system", [system("You are terse.")] + turns), ("empty system", [system("")] + hello),
        ("only system", [system("Alone.")]), ("ends with assistant", turns[:2]), ("unicode", unicode_turns),
        ("thinking in text", thinking), ("reasoning content", reasoning), ("tool result last", called), ("two tool calls", both),
        ("tool call with none content", [user("w?"), assistant(None, tool_calls=[call("get_weather", {"city": "Rome"})]), tool("sun"), assistant("Sunny.")]),
        ("tool call with text arguments", [user("w?"), assistant("", tool_calls=[call("get_weather", '{"city": "Oslo"}')]), tool("snow")]),
        ("parts", parts), ("user twice", [user("a"), user("b")]), ("starts with assistant", [assistant("Hi"), user("Hello")]),
        ("no messages", []), ("system in the middle", [user("a"), system("b"), user("c")]), ("unknown role", [{"role": "narrator", "content": "Once"}]),
        ("white space", [system("  s  "), user("\n u \n"), assistant("  a  "), user("x")]),
    ]


SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def context(messages, **more):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True, **SPECIALS, **more}


def all_contexts():
    chats = dict(conversations())
    out = [(name, context(messages)) for name, messages in chats.items()]
    tools = [WEATHER, CLOCK, ECHO]
    out += [(f"{name}, no prompt", context(chats[name], add_generation_prompt=False)) for name in ("three turns", "ends with assistant")]
    out += [(f"{name}, tools", context(chats[name], tools=tools)) for name in
            ("one user turn", "system", "tool result last", "two tool calls", "tool call with none content", "white space")]
    out += [("thinking off", context(chats["three turns"], enable_thinking=False)), ("thinking on", context(chats["thinking in text"], enable_thinking=True)),
            ("thinking off, tools", context(chats["two tool calls"], tools=tools, enable_thinking=False)),
            ("thinking flag", context(chats["three turns"], thinking=True)), ("thinking budget", context(chats["one user turn"], thinking_budget=512)),
            ("date given", context(chats["system"], date_string="26 Jul 2024")), ("tools in system", context(chats["one user turn"], tools=tools, tools_in_user_message=False)),
            ("documents", context(chats["one user turn"], documents=[{"title": "Ants", "text": "Ants are small."}, {"title": "Bées", "text": "Bees \"buzz\"."}])),
            ("custom tools", context(chats["one user turn"], custom_tools=tools, builtin_tools=["brave_search", "code_interpreter"])),
            ("system message given", context(chats["one user turn"], system_message="Given.", custom_instructions="Custom.")),
            ("no special tokens", {"messages": chats["three turns"]})]
    return out
