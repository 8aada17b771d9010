/* Fuzz target: a JPEG file. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_image(data, size, LS_IMAGE_JPEG);
    return 0;
}
