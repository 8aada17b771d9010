"""Makes fixtures/media: picture files, and what Pillow decodes from them.

    python tools/make_image_goldens.py          (packages: tools/requirements-goldens.txt)

Pixels are recorded as the digest of src/media/image.h: SHA-256 of "lockstep image 1 <width> <height> RGB8\\n" and the bytes.
"""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, ImageOps

import image_fixture_files

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "media"


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


def main():
    images = FOLDER / "images"
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, data in sorted(image_fixture_files.all_files().items()):
        (images / name).write_bytes(data)
        stored, turned = decoded(data)
        file = Image.open(io.BytesIO(data))
        frames = getattr(file, "n_frames", 1) - getattr(file, "default_image", False)  # acTL does not count a default image
        rows.append({"file": name, "width": stored.width, "height": stored.height, "frames": frames, "stored": digest(stored), "turned": digest(turned)})
    text = json.dumps({"pillow": PIL.__version__, "images": rows}, indent=1) + "\n"
    (FOLDER / "decode.json").write_text(text)
    print(f"{len(rows)} pictures, {sum(f.stat().st_size for f in images.iterdir())} bytes")


if __name__ == "__main__":
    main()
