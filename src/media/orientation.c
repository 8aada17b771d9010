/* The orientation tag of EXIF and XMP, read as Pillow reads it. */
#include <string.h>

#include "media/decode.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4, TYPE_SBYTE = 6, TYPE_SSHORT = 8, TYPE_SLONG = 9 };

static uint32_t u16(const uint8_t *p, bool big) { return big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0]; }
static uint32_t u32(const uint8_t *p, bool big) { return big ? u16(p, big) << 16 | u16(p + 2, big) : u16(p + 2, big) << 16 | u16(p, big); }

/* The value of one directory entry when it is a single integer of a type that counts; else 0. */
static uint32_t entry_value(const uint8_t *entry, bool big) {
    if (u32(entry + 4, big) != 1) return 0;
    switch (u16(entry + 2, big)) {
        case TYPE_SHORT:
        case TYPE_SSHORT: return u16(entry + 8, big);
        case TYPE_LONG:
        case TYPE_SLONG: return u32(entry + 8, big);
        case TYPE_SBYTE: return entry[8];
        default: return 0;
    }
}

/* Finds the tag in the first directory. Of several, the last counts, as in Pillow's dictionary. */
static bool from_exif(ls_bytes exif, uint32_t *value) {
    while (exif.len >= 6 && !memcmp(exif.data, "Exif\0\0", 6)) exif = (ls_bytes){exif.data + 6, exif.len - 6};
    if (exif.len < 10) return false;
    bool big = !memcmp(exif.data, "MM", 2);
    if (!big && memcmp(exif.data, "II", 2)) return false;
    if (u16(exif.data + 2, big) != 42) return false;
    size_t at = u32(exif.data + 4, big);
    if (at > exif.len - 2) return false;
    size_t n = u16(exif.data + at, big);
    bool found = false;
    for (at += 2; n-- && exif.len - at >= 12; at += 12) {
        if (u16(exif.data + at, big) != TAG_ORIENTATION) continue;
        *value = entry_value(exif.data + at, big);
        found = true;
    }
    return found;
}

/* tiff:Orientation="6" or <tiff:Orientation>6. */
static uint32_t from_xmp(ls_bytes xmp) {
    static const char key[] = "tiff:Orientation";
    enum { KEY = sizeof key - 1 };
    for (size_t i = 0; i + KEY + 2 < xmp.len + 1; i++) {
        if (memcmp(xmp.data + i, key, KEY)) continue;
        const uint8_t *p = xmp.data + i + KEY, *end = xmp.data + xmp.len;
        if (*p == '>')
            p++;
        else if (end - p > 2 && p[0] == '=' && p[1] == '"')
            p += 2;
        else
            continue;
        if (p < end && *p >= '0' && *p <= '9') return (uint32_t)(*p - '0');
    }
    return 0;
}

int ls_orientation(ls_bytes exif, ls_bytes xmp) {
    uint32_t v = 0;
    if (!from_exif(exif, &v)) v = from_xmp(xmp);
    return v >= 1 && v <= 8 ? (int)v : 1;
}
