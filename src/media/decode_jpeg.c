/* JPEG (ITU-T T.81) through libjpeg-turbo, with the settings Pillow decodes with: accurate integer DCT, fancy upsampling. */
#include <stdio.h> /* before jpeglib.h, which needs it */

#include <jpeglib.h>
/* jpeglib.h first */
#include <jerror.h>
#include <setjmp.h>
#include <string.h>

#include "media/decode.h"

enum { MAX_SCANS = 256 }; /* a progressive file may repeat scans for ever; encoders make about ten */

/* libjpeg reports errors by a jump; all that must outlive it is here. */
typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    uint8_t *row; /* CMYK [width, 4] */
    char message[JMSG_LENGTH_MAX];
} reader;

static void on_error(j_common_ptr jpeg) {
    reader *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->message);
    longjmp(r->jump, 1);
}

/* A warning that pixels are lost is an error; others, such as bytes between segments, are not. */
static void on_message(j_common_ptr jpeg, int level) {
    if (level >= 0) return;
    switch (jpeg->err->msg_code) {
        case JWRN_JPEG_EOF:
        case JWRN_HIT_MARKER:
        case JWRN_HUFF_BAD_CODE:
        case JWRN_ARITH_BAD_CODE:
        case JWRN_MUST_RESYNC: on_error(jpeg); break;
        default: break;
    }
}

static void on_progress(j_common_ptr jpeg) {
    reader *r = jpeg->client_data;
    if (r->jpeg.input_scan_number <= MAX_SCANS) return;
    snprintf(r->message, sizeof r->message, "more than %d scans", MAX_SCANS);
    longjmp(r->jump, 1);
}

static void start(reader *r, const uint8_t *data, size_t len) {
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    r->jpeg.client_data = r;
    jpeg_create_decompress(&r->jpeg);
    r->progress.progress_monitor = on_progress;
    r->jpeg.progress = &r->progress;
    jpeg_mem_src(&r->jpeg, data, (unsigned long)len);
    jpeg_read_header(&r->jpeg, TRUE);
}

/* CMYK as Adobe stores it, inverted: Pillow's formula, each product divided by 255 and rounded. */
static void cmyk_to_rgb(uint8_t *to, const uint8_t *from, int32_t w) {
    for (int32_t x = 0; x < w; x++, from += 4, to += 3)
        for (int c = 0; c < 3; c++) {
            unsigned light = from[3], product = (255u - from[c]) * light + 128u;
            to[c] = (uint8_t)(light - (((product >> 8) + product) >> 8));
        }
}

static void read_rows(reader *r, ls_image *out) {
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    bool cmyk = jpeg->num_components == 4;
    jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(jpeg);
    if ((int64_t)jpeg->output_width != out->width || (int64_t)jpeg->output_height != out->height || jpeg->output_components != (cmyk ? 4 : 3)) {
        snprintf(r->message, sizeof r->message, "two headers that disagree");
        longjmp(r->jump, 1);
    }
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = out->pixels + (size_t)jpeg->output_scanline * (size_t)out->width * 3;
        JSAMPROW row = cmyk ? r->row : to;
        if (jpeg_read_scanlines(jpeg, &row, 1) == 1 && cmyk) cmyk_to_rgb(to, row, out->width);
    }
    jpeg_finish_decompress(jpeg);
}

/* With |out| decodes, without reads the header into |info|; false after a jump. */
static bool read_or_jump(reader *r, ls_image_info *info, ls_image *out, const uint8_t *data, size_t len) {
    if (setjmp(r->jump)) return false;
    start(r, data, len);
    if (out) {
        read_rows(r, out);
        return true;
    }
    info->width = (int32_t)r->jpeg.image_width;
    info->height = (int32_t)r->jpeg.image_height;
    if (r->jpeg.num_components == 1 || r->jpeg.num_components == 3 || r->jpeg.num_components == 4) return true;
    snprintf(r->message, sizeof r->message, "%d colour components; 1, 3 or 4 are read", r->jpeg.num_components);
    return false;
}

static ls_code run(ls_image_info *info, ls_image *out, const uint8_t *data, size_t len, ls_error *e) {
    ls_code rc = LS_OK;
    reader *r = NULL;
    LS_TRY(ls_calloc(&r, 1, sizeof *r, "JPEG reader", e));
    if (out) LS_GOTO(ls_calloc(&r->row, (size_t)out->width, 4, "a row of a JPEG image", e));
    if (!read_or_jump(r, info, out, data, len)) LS_FAIL_GOTO(e, LS_DATA_LOSS, "the JPEG image is cut off or corrupt: %s", r->message);
out:
    jpeg_destroy_decompress(&r->jpeg); /* fine on a zeroed struct */
    ls_free(r->row);
    ls_free(r);
    return rc;
}

/* The EXIF bytes of several APP1 segments joined, as Pillow joins them; the last XMP packet. */
static ls_code find_metadata(ls_str *exif, ls_bytes *xmp, const uint8_t *data, size_t len, ls_error *e) {
    static const char space[] = "http://ns.adobe.com/xap/1.0/"; /* its NUL counts */
    for (size_t at = 2; len - at >= 4 && data[at] == 0xff;) {
        uint8_t marker = data[at + 1];
        if (marker == 0xff) { /* a fill byte */
            at++;
            continue;
        }
        size_t n = (size_t)data[at + 2] << 8 | data[at + 3];
        if (marker == 0xda || n < 2 || n > len - at - 2) break;
        const char *body = (const char *)data + at + 4;
        size_t body_len = n - 2;
        at += 2 + n;
        if (marker != 0xe1) continue;
        if (body_len >= 6 && !memcmp(body, "Exif\0\0", 6))
            LS_TRY(ls_str_append(exif, body + 6, body_len - 6, e));
        else if (body_len >= sizeof space && !memcmp(body, space, sizeof space))
            *xmp = (ls_bytes){(const uint8_t *)body + sizeof space, body_len - sizeof space};
    }
    return LS_OK;
}

ls_code ls_jpeg_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e) {
    ls_str exif = {0};
    ls_bytes xmp = {0};
    LS_TRY(run(out, NULL, data, len, e));
    ls_code rc = find_metadata(&exif, &xmp, data, len, e);
    if (!rc) out->orientation = ls_orientation((ls_bytes){(const uint8_t *)exif.data, exif.len}, xmp);
    ls_str_deinit(&exif);
    return rc;
}

ls_code ls_jpeg_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e) { return run(NULL, out, data, len, e); }
