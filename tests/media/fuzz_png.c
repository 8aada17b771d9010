/* Fuzz target: a PNG file. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_image(data, size, LS_IMAGE_PNG);
    return 0;
}
