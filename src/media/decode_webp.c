/* WebP (RFC 9649), lossy, lossless and animated, through libwebp and its demuxer. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "media/decode.h"

static const char *reason(VP8StatusCode status) {
    switch (status) {
        case VP8_STATUS_OUT_OF_MEMORY: return "no memory";
        case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that libwebp does not know";
        case VP8_STATUS_SUSPENDED:
        case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
        default: return "corrupt bitstream";
    }
}

static ls_bytes metadata(const WebPDemuxer *demuxer, const char name[4]) {
    WebPChunkIterator it;
    ls_bytes found = {0};
    memset(&it, 0, sizeof it);
    if (WebPDemuxGetChunk(demuxer, name, 1, &it)) found = (ls_bytes){it.chunk.bytes, it.chunk.size};
    WebPDemuxReleaseChunkIterator(&it);
    return found;
}

static ls_code open_file(WebPDemuxer **out, const uint8_t *data, size_t len, ls_error *e) {
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(data, len, &features);
    if (status) LS_FAIL(e, LS_DATA_LOSS, "the WebP image is cut off or corrupt: %s", reason(status));
    *out = WebPDemux(&(WebPData){data, len});
    if (!*out) LS_FAIL(e, LS_DATA_LOSS, "the WebP image is cut off or corrupt: its chunks are not whole");
    return LS_OK;
}

ls_code ls_webp_probe(ls_image_info *out, const uint8_t *data, size_t len, ls_error *e) {
    WebPDemuxer *demuxer;
    LS_TRY(open_file(&demuxer, data, len, e));
    out->width = (int32_t)WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH); /* both at most 2^24 */
    out->height = (int32_t)WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    out->frames = (int32_t)WebPDemuxGetI(demuxer, WEBP_FF_FRAME_COUNT);
    out->orientation = ls_orientation(metadata(demuxer, "EXIF"), metadata(demuxer, "XMP "));
    WebPDemuxDelete(demuxer);
    if (out->frames < 1) LS_FAIL(e, LS_DATA_LOSS, "the WebP image is corrupt: it has no frame");
    return LS_OK;
}

/* The first frame onto the black canvas; what it does not cover stays black, and alpha does not count. */
static ls_code draw(ls_image *out, const WebPIterator *frame, ls_error *e) {
    WebPDecoderConfig config;
    if (frame->x_offset < 0 || frame->y_offset < 0 || frame->width < 1 || frame->height < 1 || frame->width > out->width - frame->x_offset ||
        frame->height > out->height - frame->y_offset)
        LS_FAIL(e, LS_DATA_LOSS, "the WebP image is corrupt: its first frame is not inside the canvas");
    if (!WebPInitDecoderConfig(&config)) LS_FAIL(e, LS_INTERNAL, "libwebp is of another version than its header");
    size_t stride = (size_t)out->width * 3, first = (size_t)frame->y_offset * stride + (size_t)frame->x_offset * 3;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out->pixels + first;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = (size_t)out->height * stride - first;
    VP8StatusCode status = WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
    if (!status && (config.input.width != frame->width || config.input.height != frame->height)) status = VP8_STATUS_BITSTREAM_ERROR;
    if (!status) status = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    WebPFreeDecBuffer(&config.output);
    if (status) LS_FAIL(e, LS_DATA_LOSS, "the WebP image is cut off or corrupt: %s", reason(status));
    return LS_OK;
}

ls_code ls_webp_decode(ls_image *out, const uint8_t *data, size_t len, ls_error *e) {
    WebPDemuxer *demuxer;
    WebPIterator frame;
    ls_code rc;
    LS_TRY(open_file(&demuxer, data, len, e));
    memset(&frame, 0, sizeof frame);
    if (WebPDemuxGetFrame(demuxer, 1, &frame))
        rc = draw(out, &frame, e);
    else
        rc = ls_error_set(e, LS_DATA_LOSS, __FILE__, __LINE__, "the WebP image is corrupt: it has no frame");
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return rc;
}
