/* What every vision tower shares: its life, and images as rows of patches. */
#include <string.h>

#include "models/model.h"

void ls_vision_deinit(ls_vision *v) {
    ls_graph_destroy(v->graph);
    *v = (ls_vision){0};
}

void ls_vision_patches(const ls_vision *v, const float *pixels, float *rows) {
    int64_t size = v->image.image_size, patch = v->image.patch_size, side = size / patch;
    for (int64_t row = 0; row < side * side; row++)
        for (int64_t channel = 0; channel < v->image.channels; channel++)
            for (int64_t y = 0; y < patch; y++, rows += patch) {
                const float *from = pixels + (channel * size + row / side * patch + y) * size + row % side * patch;
                memcpy(rows, from, (size_t)patch * sizeof *rows);
            }
}
