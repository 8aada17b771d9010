"""Makes fixtures/media: picture files, what Pillow decodes from them, and what Pillow, torchvision and transformers make of pictures and prompts.

    python tools/make_image_goldens.py          (packages: tools/requirements-goldens.txt; on a CPU with AVX2 or AArch64, where torchvision resizes in 8 bits)

Pixels are recorded as the digest of src/media/image.h: SHA-256 of "lockstep image 1 <width> <height> RGB8\\n" and the bytes; pixel values as SHA-256 of
their f32 bytes. Pictures without a file are image_fixture_files.pattern(width, height), which the tests draw too.
"""

import hashlib
import io
import json
import warnings
from pathlib import Path

import numpy as np
import PIL
import torch
import torchvision
import transformers
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional
from transformers.image_utils import ChannelDimension, load_image
from transformers.models.gemma3.image_processing_gemma3 import Gemma3ImageProcessor
from transformers.models.gemma3.image_processing_gemma3_fast import Gemma3ImageProcessorFast
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor

import image_fixture_files

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FOLDER = FIXTURES / "media"


def digest(image):
    a = np.asarray(image, dtype=np.uint8)
    h = hashlib.sha256(b"lockstep image 1 %d %d RGB8\n" % (a.shape[1], a.shape[0]))
    h.update(a.tobytes())
    return h.hexdigest()


def decoded(data):
    """As transformers.image_utils.load_image decodes, and as stored."""
    stored = Image.open(io.BytesIO(data)).convert("RGB")
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return stored, turned


def make_decode():
    images = FOLDER / "images"
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, data in sorted(image_fixture_files.all_files().items()):
        (images / name).write_bytes(data)
        stored, turned = decoded(data)
        file = Image.open(io.BytesIO(data))
        frames = getattr(file, "n_frames", 1) - getattr(file, "default_image", False)  # acTL does not count a default image
        rows.append({"file": name, "width": stored.width, "height": stored.height, "frames": frames, "stored": digest(stored), "turned": digest(turned)})
    print(f"{len(rows)} pictures, {sum(f.stat().st_size for f in images.iterdir())} bytes")
    return rows


# ---- Resizing ------------------------------------------------------------------------------------------------------------------

# transformers gives torchvision NEAREST_EXACT for Pillow's NEAREST.
MODES = {0: InterpolationMode.NEAREST_EXACT, 1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}


def resized(image, size, mode, rule):
    pil = Image.fromarray(image)
    if rule == "pillow":
        return np.asarray(pil.resize(size, mode))
    if rule == "pillow-12":  # columns, then rows: two calls, so that Pillow 13 cannot choose
        return np.asarray(pil.resize((size[0], pil.height), mode).resize(size, mode))
    tensor = torch.from_numpy(image).permute(2, 0, 1).contiguous()
    return functional.resize(tensor, [size[1], size[0]], MODES[mode], antialias=True).permute(1, 2, 0).numpy()


def make_resize():
    rows, sizes = [], [((61, 47), (s, t)) for s, t in ((1, 1), (1, 47), (61, 1), (7, 5), (30, 23), (60, 46), (61, 90), (123, 47), (200, 10), (20, 200))]
    sizes += [((w, h), (37, 41)) for w, h in ((1, 1), (2, 1), (1, 3), (3, 1), (5, 400), (400, 5), (74, 82), (37, 41), (38, 41), (299, 301))]
    sizes += [((640, 480), (224, 224)), ((480, 640), (896, 896)), ((1001, 313), (64, 64)), ((100, 300), (50, 180)), ((100, 300), (50, 210))]
    for (w, h), size in sizes:
        image = image_fixture_files.pattern(w, h)
        for mode in MODES:
            for rule in ("pillow", "pillow-12", "torchvision"):
                if rule == "pillow-12" and mode == 0 or rule == "torchvision" and size == (1, 1):  # torch 2.13 fails an assertion on one pixel
                    continue
                rows.append({"from": [w, h], "to": list(size), "filter": mode, "rule": rule, "sha256": digest(resized(image, size, mode, rule))})
    return rows


# ---- Pixel values --------------------------------------------------------------------------------------------------------------

GEMMA3 = {"image_processor_type": "Gemma3ImageProcessor", "do_convert_rgb": None, "do_normalize": True, "do_pan_and_scan": None, "do_rescale": True,
          "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_seq_length": 256, "pan_and_scan_max_num_crops": None,
          "pan_and_scan_min_crop_size": None, "pan_and_scan_min_ratio_to_activate": None, "processor_class": "Gemma3Processor", "resample": 2,
          "rescale_factor": 0.00392156862745098, "size": {"height": 896, "width": 896}}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
SMALL = {"size": {"height": 32, "width": 32}}
CROPS = {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 16, "pan_and_scan_max_num_crops": 4, "pan_and_scan_min_ratio_to_activate": 1.2}
# changes of GEMMA3, and the pictures
SETTINGS = [
    ({}, [(640, 480), (896, 896), (300, 1200)]),
    ({**SMALL}, [(w, h) for w in (1, 2, 3, 17, 32, 33, 64, 200) for h in (1, 3, 16, 32, 63, 150)]),
    ({**SMALL, **CLIP}, [(50, 40)]),
    ({**SMALL, **CLIP, "resample": 3}, [(50, 40), (9, 200)]),
    ({**SMALL, "resample": 1}, [(50, 40)]),
    ({**SMALL, "resample": 0}, [(50, 40), (9, 200)]),
    ({**SMALL, "rescale_factor": 0.01, "size": {"height": 24, "width": 40}}, [(50, 40)]),
    ({**SMALL, "do_rescale": False}, [(50, 40)]),
    ({**SMALL, "do_normalize": False}, [(50, 40)]),
    ({**SMALL, "do_normalize": False, "do_rescale": False}, [(50, 40)]),
    ({**SMALL, "do_resize": False}, [(32, 32)]),
    ({**SMALL, **CROPS}, [(w, h) for w in (20, 38, 64, 100, 201, 333) for h in (15, 16, 31, 64, 101, 250)]),
    ({**SMALL, **CROPS, "pan_and_scan_max_num_crops": 7, "pan_and_scan_min_ratio_to_activate": 2}, [(400, 47), (47, 400), (90, 46), (93, 46)]),
]


def processor_of(settings):
    cls = Gemma3ImageProcessorFast if settings["image_processor_type"].endswith("Fast") else Gemma3ImageProcessor
    return cls(**{k: v for k, v in settings.items() if v is not None and k != "image_processor_type"})


# Files through the loader and the processor, as a user's path goes: drawn photographs, and one of each kind that is easy to get wrong.
FILES = ["landscape.jpg", "panorama.jpg", "still_life.jpg", "exif6.jpg", "cmyk.jpg", "rgb_alpha16.png", "palette4.png", "animated.webp", "exif6.webp"]


def pixel_values(processor, picture):
    """Of a file by name, or of pattern(width, height)."""
    image = load_image(str(FOLDER / "images" / picture)) if isinstance(picture, str) else Image.fromarray(image_fixture_files.pattern(*picture))
    # The slow processor guesses channels from the shape and takes a height of 1 or 3 for them; told, it does not guess.
    slow = isinstance(processor, Gemma3ImageProcessor)
    out = processor([image], **({"input_data_format": ChannelDimension.LAST} if slow else {}), return_tensors="pt")
    return np.ascontiguousarray(out["pixel_values"].numpy().astype(np.float32)), int(out["num_crops"][0])


def make_processor():
    groups = []
    for name in ("Gemma3ImageProcessor", "Gemma3ImageProcessorFast"):
        for change, sizes in SETTINGS:
            settings = {**GEMMA3, "image_processor_type": name, **change}
            processor, rows = processor_of(settings), []
            for size in sizes:
                values, crops = pixel_values(processor, size)
                rows.append({"size": list(size), "crops": crops, "shape": list(values.shape), "sha256": hashlib.sha256(values.tobytes()).hexdigest()})
            groups.append({"settings": settings, "images": rows})
        processor, rows = processor_of({**GEMMA3, "image_processor_type": name, **CROPS}), []
        for file in FILES:
            values, crops = pixel_values(processor, file)
            rows.append({"file": file, "crops": crops, "shape": list(values.shape), "sha256": hashlib.sha256(values.tobytes()).hexdigest()})
        groups.append({"settings": {**GEMMA3, "image_processor_type": name, **CROPS}, "images": rows})
    return groups


# ---- Prompts -------------------------------------------------------------------------------------------------------------------

BOI, SOFT, EOI = "<start_of_image>", "<image_soft_token>", "<end_of_image>"


def make_tokenizer():
    file = FIXTURES / "text" / "tokenizer" / "gemma.json"
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), bos_token="<s>", eos_token="</s>",
                                                extra_special_tokens={"boi_token": BOI, "image_token": SOFT, "eoi_token": EOI})


def make_prompts():
    tokenizer = make_tokenizer()
    settings = {**GEMMA3, **SMALL}
    flat, wide, tall = (64, 64), (128, 32), (32, 80)
    texts = [
        (f"{BOI}What is this?", [flat]), (f"What is {BOI} this?", [flat]), (f"What is this?\n\n{BOI}", [flat]), (f"a\n{BOI}\nb", [flat]),
        (f"{BOI}{BOI}Compare.", [flat, flat]), (f"First {BOI} then\n{BOI} and {BOI}.", [flat, flat, flat]), (f"{BOI} {BOI}", [flat, flat]),
        (f"{BOI}", [flat]), (f"<s>user\n{BOI}Which?</s>\nmodel\n", [flat]), (f"{BOI}Look", [wide]), (f"a {BOI} b {BOI} c", [tall, wide]),
        (f"a {BOI} b {BOI}\n{BOI}c", [flat, wide, tall]), ("No image, just text.\n\n", []), (f"{BOI}é 你好 {BOI}\n\n\n", [wide, flat]),
    ]
    rows = []
    for count in (1, 4, 9):
        for text, sizes in texts:
            for crops in (False, True):
                processor = Gemma3Processor(processor_of(settings), tokenizer, image_seq_length=count)
                images = [Image.fromarray(image_fixture_files.pattern(*s)) for s in sizes]
                options = dict(do_pan_and_scan=True, pan_and_scan_min_crop_size=16, pan_and_scan_max_num_crops=4) if crops else {}
                out = processor(text=[text], images=[images] if images else None, add_special_tokens=not text.startswith("<s>"), **options)
                found = [pixel_values(processor_of({**settings, **CROPS}), s)[1] if crops else 0 for s in sizes]
                rows.append({"text": text, "count": count, "crops": found, "ids": list(map(int, out["input_ids"][0])),
                             "types": list(map(int, out["token_type_ids"][0]))})
    tokens = {"boi": tokenizer.boi_token_id, "image": tokenizer.image_token_id, "eoi": tokenizer.eoi_token_id}
    return {"tokens": {k: {"id": v, "text": tokenizer.convert_ids_to_tokens(v)} for k, v in tokens.items()}, "prompts": rows}


def write(name, content):
    versions = {m.__name__: m.__version__ for m in (PIL, torch, torchvision, transformers)}
    (FOLDER / name).write_text(json.dumps({"versions": versions, **content}, separators=(",", ":")).replace('},{"', '},\n{"') + "\n")


def main():
    warnings.simplefilter("ignore")
    write("decode.json", {"images": make_decode()})
    write("resize.json", {"resizes": make_resize()})
    write("processor.json", {"groups": make_processor()})
    write("prompts.json", make_prompts())


if __name__ == "__main__":
    main()
