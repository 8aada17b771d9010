"""Picture files for fixtures/media/images: scenes drawn here, saved in every kind of PNG, JPEG and WebP that is read.

Used by tools/make_image_goldens.py. All pictures are computed from formulas, own work.
"""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def noise(h, w, cell, seed):
    """Smooth noise in [0, 1]: a coarse random grid, interpolated."""
    rng = np.random.default_rng(seed)
    grid = rng.random((h // cell + 3, w // cell + 3))
    y, x = np.mgrid[0:h, 0:w] / cell
    iy, ix = y.astype(int), x.astype(int)
    fy, fx = y - iy, x - ix
    fy, fx = fy * fy * (3 - 2 * fy), fx * fx * (3 - 2 * fx)
    top = grid[iy, ix] * (1 - fx) + grid[iy, ix + 1] * fx
    bottom = grid[iy + 1, ix] * (1 - fx) + grid[iy + 1, ix + 1] * fx
    return top * (1 - fy) + bottom * fy


def texture(h, w, seed):
    cells = [max(2, min(h, w) // d) for d in (3, 6, 12, 24)]
    return sum(noise(h, w, c, seed + i) / 2 ** (i + 1) for i, c in enumerate(cells))


def landscape(w, h, seed=1):
    """A sky with clouds and a sun, two ranges of hills, a field: the look of a photograph, with grain."""
    y, x = np.mgrid[0:h, 0:w] / np.array([h, w]).reshape(2, 1, 1)
    image = np.empty((h, w, 3))
    sky = np.stack([0.35 + 0.4 * y, 0.55 + 0.3 * y, 0.85 + 0.1 * y], -1)
    cloud = np.clip(texture(h, w, seed) * 2.2 - 0.8, 0, 1)[..., None]
    image[:] = sky * (1 - cloud) + cloud
    sun = np.clip(1.2 - np.hypot(x - 0.72, (y - 0.22) * h / w) * 14, 0, 1)[..., None]
    image = image * (1 - sun) + sun * np.array([1.0, 0.93, 0.7])
    for base, height, colour, s in ((0.55, 0.18, (0.35, 0.45, 0.5), 7), (0.7, 0.12, (0.2, 0.38, 0.2), 11)):
        ridge = base - height * (noise(1, w, max(2, w // 5), seed + s)[0] + 0.3 * noise(1, w, max(2, w // 17), seed + s + 1)[0])
        shade = 0.8 + 0.4 * texture(h, w, seed + s + 2)
        inside = np.clip((y - ridge) * h, 0, 1)[..., None]
        image = image * (1 - inside) + inside * np.array(colour) * shade[..., None]
    field = np.clip((y - 0.8) * h / 3, 0, 1)[..., None]
    image = image * (1 - field) + field * np.array([0.55, 0.5, 0.15]) * (0.6 + 0.8 * texture(h, w, seed + 20))[..., None]
    image += np.random.default_rng(seed + 30).normal(0, 0.02, image.shape)
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8)


def still_life(w, h, seed=2):
    """Shaded balls on a table."""
    y, x = np.mgrid[0:h, 0:w].astype(float)
    image = np.empty((h, w, 3))
    image[:] = np.where((y > 0.6 * h)[..., None], [0.5, 0.33, 0.2], [0.75, 0.75, 0.7]) * (0.8 + 0.3 * texture(h, w, seed))[..., None]
    for cx, cy, r, colour in ((0.3, 0.6, 0.2, (0.85, 0.15, 0.1)), (0.62, 0.68, 0.15, (0.2, 0.6, 0.2)), (0.8, 0.55, 0.12, (0.95, 0.8, 0.2))):
        r *= min(w, h)
        dx, dy = (x - cx * w) / r, (y - cy * h) / r
        d = np.hypot(dx, dy)
        z = np.sqrt(np.clip(1 - d * d, 0, 1))
        light = np.clip(0.25 + 0.75 * (-0.5 * dx - 0.6 * dy + 0.62 * z), 0.05, 1)
        gloss = np.clip(-0.35 * dx - 0.45 * dy + 0.82 * z, 0, 1) ** 40
        inside = np.clip((1 - d) * r, 0, 1)[..., None]
        image = image * (1 - inside) + inside * (np.array(colour) * light[..., None] + gloss[..., None])
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8)


def pattern(w, h):
    """Hard edges, single pixels and every level: what resampling and chroma get wrong first."""
    y, x = np.mgrid[0:h, 0:w]
    image = np.stack([(x * 7 + y * 3) % 256, (x * y) % 256, ((x // 3 + y // 2) % 2) * 255], -1)
    image[(x + 2 * y) % 11 == 0] = 0
    image[(2 * x + y) % 13 == 0] = 255
    return image.astype(np.uint8)


# ---- PNG, by hand: every colour type, depth and interlacing --------------------------------------------------------------


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pack_rows(samples, depth):
    """samples [h, w, channels] of |depth| bits: scan lines, each with filter byte 0."""
    h, w, c = samples.shape
    if depth == 16:
        rows = samples.astype(">u2").reshape(h, w * c).view(np.uint8).reshape(h, -1)
    elif depth == 8:
        rows = samples.astype(np.uint8).reshape(h, w * c)
    else:
        bits = (samples.reshape(h, w * c)[..., None] >> np.arange(depth - 1, -1, -1)) & 1
        rows = np.packbits(bits.reshape(h, -1).astype(np.uint8), axis=1)
    return b"".join(b"\0" + row.tobytes() for row in rows)


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(samples, depth, colour, interlaced=False, before=b"", after=b""):
    h, w, _ = samples.shape
    parts = [samples[y::dy, x::dx] for y, x, dy, dx in ADAM7] if interlaced else [samples]
    data = zlib.compress(b"".join(pack_rows(p, depth) for p in parts if p.size), 9)
    head = struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", data) + after + chunk(b"IEND", b"")


def exif(orientation, big=False):
    order = ">" if big else "<"
    return (b"MM\0*" if big else b"II*\0") + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


XMP = b'<x:xmpmeta><rdf:RDF><rdf:Description tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>'


def png_files():
    rgb = pattern(29, 23).astype(int)
    grey = rgb[..., :1]
    alpha = np.roll(grey, 5, 1)
    palette = chunk(b"PLTE", bytes((37 * i + c * 91) % 256 for i in range(16) for c in range(3)))
    wide = lambda s: s * 256 + np.roll(s, 3, 0)
    files = {}
    for interlaced, suffix in ((False, ""), (True, "_interlaced")):
        for depth in (1, 2, 4, 8, 16):
            files[f"grey{depth}{suffix}.png"] = png(wide(grey) if depth == 16 else grey >> (8 - depth), depth, 0, interlaced)
        for depth in (1, 2, 4, 8):
            index = (grey >> (8 - depth)) % 20  # some past the palette of 16
            files[f"palette{depth}{suffix}.png"] = png(index, depth, 3, interlaced, palette + chunk(b"tRNS", bytes([0, 128, 255])))
        for depth, scale in ((8, lambda s: s), (16, wide)):
            files[f"rgb{depth}{suffix}.png"] = png(scale(rgb), depth, 2, interlaced)
            files[f"grey_alpha{depth}{suffix}.png"] = png(np.concatenate([scale(grey), scale(alpha)], 2), depth, 4, interlaced)
            files[f"rgb_alpha{depth}{suffix}.png"] = png(np.concatenate([scale(rgb), scale(alpha)], 2), depth, 6, interlaced)
    files["grey_low.png"] = png(grey * 2, 16, 0)
    files["key.png"] = png(rgb, 8, 2, before=chunk(b"tRNS", struct.pack(">HHH", 0, 0, 0)) + chunk(b"gAMA", struct.pack(">I", 100000)))
    files["one_pixel.png"] = png(rgb[5:6, 5:6], 8, 2)
    files["row.png"] = png(rgb[4:5], 8, 2, True)
    files["column.png"] = png(rgb[:, 4:5], 8, 2, True)
    files["exif6.png"] = png(rgb, 8, 2, before=chunk(b"eXIf", exif(6)))
    files["exif_late.png"] = png(rgb, 8, 2, after=chunk(b"eXIf", exif(8, True)))
    files["xmp5.png"] = png(rgb, 8, 2, before=chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 5))
    files["no_iend.png"] = files["rgb8.png"][:-12]
    return files


def apng_files():
    frames = [Image.fromarray(f) for f in (pattern(21, 17), still_life(21, 17), landscape(21, 17))]
    files = {}
    for name, default in (("animated.png", False), ("animated_default.png", True)):
        out = io.BytesIO()
        frames[0].save(out, "PNG", save_all=True, append_images=frames[1:], default_image=default, duration=100)
        files[name] = out.getvalue()
    return files


# ---- JPEG and WebP ---------------------------------------------------------------------------------------------------------


def save(image, kind, **options):
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(out, kind, **options)
    return out.getvalue()


def jpeg_files():
    scene = landscape(61, 47)
    files = {}
    for i, name in enumerate(("444", "422", "420")):
        files[f"{name}.jpg"] = save(scene, "JPEG", quality=80, subsampling=i)
        files[f"{name}_progressive.jpg"] = save(scene, "JPEG", quality=80, subsampling=i, progressive=True)
    files["restart.jpg"] = save(scene, "JPEG", quality=60, restart_marker_blocks=3)
    files["rgb.jpg"] = save(scene, "JPEG", quality=90, keep_rgb=True)
    files["grey.jpg"] = save(Image.fromarray(scene).convert("L"), "JPEG", quality=70)
    files["grey_progressive.jpg"] = save(Image.fromarray(scene).convert("L"), "JPEG", quality=70, progressive=True)
    cmyk = Image.fromarray(np.concatenate([scene, np.roll(scene[..., :1], 9, 0) // 2], 2), "CMYK")
    files["cmyk.jpg"] = save(cmyk, "JPEG", quality=85)
    files["cmyk_progressive.jpg"] = save(cmyk, "JPEG", quality=85, progressive=True)
    adobe = files["cmyk.jpg"].index(b"Adobe")
    files["ycck.jpg"] = files["cmyk.jpg"][: adobe + 11] + b"\x02" + files["cmyk.jpg"][adobe + 12 :]
    for o in range(1, 9):
        files[f"exif{o}.jpg"] = save(scene[:20, :29], "JPEG", quality=85, exif=b"Exif\0\0" + exif(o, o % 2 == 0))
    files["exif9.jpg"] = save(scene[:20, :29], "JPEG", quality=85, exif=b"Exif\0\0" + exif(9))
    files["xmp3.jpg"] = save(scene[:20, :29], "JPEG", quality=85, xmp=XMP % 3)
    files["exif_before_xmp.jpg"] = save(scene[:20, :29], "JPEG", quality=85, xmp=XMP % 3, exif=b"Exif\0\0" + exif(6))
    files["one_pixel.jpg"] = save(scene[9:10, 9:10], "JPEG")
    files["row.jpg"] = save(scene[9:10], "JPEG")
    files["column.jpg"] = save(scene[:, 9:10], "JPEG", progressive=True)
    files["landscape.jpg"] = save(landscape(400, 300), "JPEG", quality=82)
    files["panorama.jpg"] = save(landscape(560, 180, 5), "JPEG", quality=75)
    files["still_life.jpg"] = save(still_life(180, 470), "JPEG", quality=82)
    return files


def webp_files():
    scene = still_life(61, 47)
    alpha = np.concatenate([scene, landscape(61, 47)[..., :1]], 2)
    frames = [Image.fromarray(f) for f in (alpha, np.roll(alpha, 7, 1), np.roll(alpha, 14, 1))]
    files = {
        "lossy.webp": save(scene, "WEBP", quality=70),
        "lossy_alpha.webp": save(alpha, "WEBP", quality=70),
        "lossless.webp": save(scene, "WEBP", lossless=True),
        "lossless_alpha.webp": save(alpha, "WEBP", lossless=True, exact=True),
        "animated.webp": save(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50),
        "animated_lossless.webp": save(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True),
        "exif6.webp": save(scene, "WEBP", quality=60, exif=b"Exif\0\0" + exif(6)),
        "exif5_bare.webp": save(scene, "WEBP", quality=60, exif=exif(5, True)),
        "xmp7.webp": save(scene, "WEBP", quality=60, xmp=XMP % 7),
        "one_pixel.webp": save(scene[20:21, 20:21], "WEBP", quality=80),
        "row.webp": save(scene[20:21], "WEBP", quality=80),
        "column.webp": save(scene[:, 20:21], "WEBP", lossless=True),
    }
    files["animated_offset.webp"] = offset_frame(files["lossy_alpha.webp"])
    return files


def offset_frame(still):
    """An animation by hand whose first frame covers a part of the canvas: the still's chunks in an ANMF at (8, 4)."""
    w, h = Image.open(io.BytesIO(still)).size
    at, parts = 12, b""
    while at < len(still):
        n = struct.unpack("<I", still[at + 4 : at + 8])[0]
        if still[at : at + 4] in (b"ALPH", b"VP8 ", b"VP8L"):
            parts += still[at : at + 8 + n + n % 2]
        at += 8 + n + n % 2
    u24 = lambda v: struct.pack("<I", v)[:3]
    riff = lambda kind, body: kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    frame = riff(b"ANMF", u24(4) + u24(2) + u24(w - 1) + u24(h - 1) + u24(40) + b"\0" + parts)
    body = riff(b"VP8X", b"\x12\0\0\0" + u24(w + 30 - 1) + u24(h + 20 - 1)) + riff(b"ANIM", struct.pack("<IH", 0xFF336699, 0)) + frame
    return riff(b"RIFF", b"WEBP" + body)


def all_files():
    return {**png_files(), **apng_files(), **jpeg_files(), **webp_files()}
