/* The vision tower and projector of fixtures/vision/tower, with two images. */
#ifndef LS_TESTS_VISION_TOWER_H
#define LS_TESTS_VISION_TOWER_H

#include "models/model.h"

enum { TOWER_IMAGES = 2, TOWER_PIXELS = 3 * 72 * 72, TOWER_ROWS = 324, TOWER_OUT = 9, TOWER_COLS = 32 };

typedef struct tower {
    ls_checkpoint *c, *golden;         /* golden: tensors of tools/make_vision_tower_fixture.py */
    ls_vision v;
    const float *pixels[TOWER_IMAGES]; /* [TOWER_PIXELS] each, of |golden| */
} tower;

void tower_open(tower *t, ls_contract contract);
void tower_close(tower *t);

#endif
