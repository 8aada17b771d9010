"""The little world that the shapes model sees: pictures of coloured shapes, questions about them and their exact answers.

A picture is divided into four places; each is empty or has one shape of one colour. Answers say again what was asked, because
the small model finds things by the words just before. Everything comes from a
random.Random, so a seed fixes pictures, questions and answers. Used by train_tiny_gemma3_vlm.py (training and held-out
pictures), make_vision_goldens.py and check_vision_accuracy.py.
"""

from dataclasses import dataclass, field

from PIL import Image, ImageDraw

COLOURS = {
    "red": (214, 40, 40), "green": (44, 170, 66), "blue": (48, 84, 214), "yellow": (236, 210, 48), "white": (244, 244, 244), "black": (18, 18, 18),
}
SHAPES = ["circle", "square", "triangle"]
PLACES = ["top left", "top right", "bottom left", "bottom right"]
NUMBERS = ["Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight"]
SIZES = [(64, 64)] * 5 + [(80, 80), (96, 96), (128, 128), (96, 80), (80, 96), (100, 90)]
NO_PICTURE = "I see no picture."


@dataclass
class Thing:
    colour: str
    shape: str
    place: int  # index into PLACES

    def __str__(self):
        return f"{self.colour} {self.shape}"


@dataclass
class Question:
    """|content|: what the user sends, in order: a picture's index or a text. |kind| names the sort of question."""

    kind: str
    content: list
    answer: str
    scenes: list = field(default_factory=list)  # one list of Thing a picture, sorted by place
    pictures: list = field(default_factory=list)  # PIL images, when drawn


def scene(rng):
    places = sorted(rng.sample(range(4), rng.choice([1, 2, 2, 3, 3, 4])))
    return [Thing(rng.choice(list(COLOURS)), rng.choice(SHAPES), p) for p in places]


def draw(things, rng, size=None):
    """An RGB picture of |size| (width, height); one of SIZES when None."""
    w, h = size or rng.choice(SIZES)
    grey = rng.randint(112, 144)
    picture = Image.new("RGB", (w, h), (grey, grey, grey))
    pen = ImageDraw.Draw(picture)
    for thing in things:
        x = (0.25 + 0.5 * (thing.place % 2) + rng.uniform(-0.05, 0.05)) * w
        y = (0.25 + 0.5 * (thing.place // 2) + rng.uniform(-0.05, 0.05)) * h
        r = rng.uniform(0.13, 0.18)
        rx, ry = r * w, r * h
        fill = tuple(min(255, max(0, c + rng.randint(-12, 12))) for c in COLOURS[thing.colour])
        if thing.shape == "circle":
            pen.ellipse([x - rx, y - ry, x + rx, y + ry], fill=fill)
        elif thing.shape == "square":
            pen.rectangle([x - rx, y - ry, x + rx, y + ry], fill=fill)
        else:
            pen.polygon([(x, y - ry), (x - rx, y + ry), (x + rx, y + ry)], fill=fill)
    return picture


def listed(things):
    """a red circle, a blue square and a white triangle."""
    names = [f"a {t}" for t in things]
    text = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return text[0].upper() + text[1:] + "."


def at_place(things, place):
    found = next((str(t) for t in things if t.place == place), "nothing")
    return f"The {PLACES[place]}: {found}."


def layout(things):
    at = {t.place: str(t) for t in things}
    return " ".join(f"{place.capitalize()}: {at.get(i, 'nothing')}." for i, place in enumerate(PLACES))


def unique(things, key):
    """Things that alone have their key."""
    keys = [key(t) for t in things]
    return [t for t in things if keys.count(key(t)) == 1]


def ask_describe(things, rng):
    return "Describe the picture.", listed(things)


def ask_layout(things, rng):
    return "Where are the shapes?", layout(things)


def ask_count(things, rng):
    return "How many shapes are there?", NUMBERS[len(things)] + "."


def ask_count_some(things, rng):
    if rng.random() < 0.5:
        shape = rng.choice(SHAPES)
        return f"How many {shape}s are there?", f"The {shape}s: {NUMBERS[sum(t.shape == shape for t in things)].lower()}."
    colour = rng.choice([t.colour for t in things]) if rng.random() < 0.6 else rng.choice(list(COLOURS))
    return f"How many {colour} shapes are there?", f"The {colour} shapes: {NUMBERS[sum(t.colour == colour for t in things)].lower()}."


def ask_colour(things, rng):
    alone = unique(things, lambda t: t.shape)
    if not alone:
        return None
    thing = rng.choice(alone)
    return f"What colour is the {thing.shape}?", f"The {thing.shape} is {thing.colour}."


def ask_beside(things, rng):
    alone = unique(things, str)
    if not alone:
        return None
    thing, side = rng.choice(alone), rng.choice(["left", "right"])
    step = -1 if side == "left" else 1
    other = thing.place + step
    beside = at_place(things, other) if 0 <= other < 4 and other // 2 == thing.place // 2 else "Nothing."
    return f"What is {side} of the {thing}?", f"The {thing} is at the {PLACES[thing.place]}. {beside}"


def ask_place(things, rng):
    place = rng.randrange(4)
    return f"What is at the {PLACES[place]}?", at_place(things, place)


ONE = [("describe", ask_describe, 5), ("layout", ask_layout, 4), ("count", ask_count, 3), ("count some", ask_count_some, 5),
       ("colour", ask_colour, 2), ("beside", ask_beside, 5), ("place", ask_place, 3)]


def one_picture(rng, things=None):
    """A question about one picture (of |things|, or of a new scene); the text stands after it, seldom before."""
    while True:
        seen = things or scene(rng)
        kind, ask, _ = rng.choices(ONE, [w for _, _, w in ONE])[0]
        asked = ask(seen, rng)
        if asked:
            text, answer = asked
            return Question(kind, [0, text] if rng.random() < 0.9 else [text, 0], answer, [seen])


def ask_which(a, b, rng):
    thing = rng.choice(a + b) if rng.random() < 0.8 else Thing(rng.choice(list(COLOURS)), rng.choice(SHAPES), 0)
    first, second = (str(thing) in [str(t) for t in s] for s in (a, b))
    where = "both pictures" if first and second else "first picture" if first else "second picture" if second else "no picture"
    return f"Which picture has a {thing}?", f"A {thing}: {where}."


def two_pictures(rng, scenes=None):
    a, b = scenes or (scene(rng), scene(rng))
    kind = rng.choices(["describe one of two", "layout of two", "which of two", "count one of two"], [5, 3, 4, 3])[0]
    second = rng.random() < 0.5
    name, seen = ("second", b) if second else ("first", a)
    if kind == "describe one of two":
        text, answer = f"Describe the {name} picture.", f"The {name} picture: {listed(seen).replace('A ', 'a ', 1)}"
    elif kind == "layout of two":
        text, answer = "Where are the shapes in both pictures?", f"First picture. {layout(a)} Second picture. {layout(b)}"
    elif kind == "which of two":
        text, answer = ask_which(a, b, rng)
    else:
        text, answer = f"How many shapes are in the {name} picture?", f"The {name} picture: {NUMBERS[len(seen)].lower()}."
    content = [0, 1, text] if rng.random() < 0.7 else ["First picture:", 0, "Second picture:", 1, text]
    return Question(kind, content, answer, [a, b])


def no_picture(rng):
    n = rng.randrange(8)
    known = [
        ("Hello!", "Hello! Show me a picture."),
        ("Which colours do you know?", "Red, green, blue, yellow, white and black."),
        ("Which shapes do you know?", "Circles, squares and triangles."),
        ("What can you do?", "I describe pictures of shapes."),
        (f"What comes after {NUMBERS[n].lower()}?", NUMBERS[n + 1] + "."),
        (f"Count to {NUMBERS[n + 1].lower()}.", ", ".join(NUMBERS[1:n + 2]).capitalize() + "."),
    ]
    if rng.random() < 0.25:
        _, ask, _ = rng.choice(ONE)
        asked = ask(scene(rng), rng)
        text, answer = (asked[0] if asked else "Describe the picture."), NO_PICTURE
    else:
        text, answer = rng.choice(known)
    return Question("text", [text], answer)


def with_pictures(question, rng, size=None):
    question.pictures = [draw(things, rng, size) for things in question.scenes]
    return question


def conversation(question):
    """The question as Hugging Face chat templates take it."""
    parts = [{"type": "image"} if isinstance(c, int) else {"type": "text", "text": c} for c in question.content]
    return [{"role": "user", "content": parts}]


def prompt(question):
    """What the chat template makes of it."""
    content = "".join("<start_of_image>" if isinstance(c, int) else c for c in question.content)
    return f"<bos><start_of_turn>user\n{content}<end_of_turn>\n<start_of_turn>model\n"


def further_prompt(question):
    """What the chat template makes of a further question about the same pictures, after the <end_of_turn> of the last answer."""
    text = next(c for c in reversed(question.content) if isinstance(c, str))
    return f"\n<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n"
