/* See vision_tower.h. */
#include "vision_tower.h"

#include "test.h"

void tower_open(tower *t, ls_contract contract) {
    ls_error e = {0};
    const ls_build_options build = {.contract = contract};
    assert_ok(ls_checkpoint_open(&t->c, LS_FIXTURES "/vision/tower", &e));
    assert_ok(ls_checkpoint_open(&t->golden, LS_FIXTURES "/vision/tower/golden.safetensors", &e));
    assert_ok(ls_vision_build(&t->v, t->c, &build, &e));
    assert_int_equal(t->v.graph->image_rows, TOWER_ROWS);
    assert_int_equal(t->v.graph->image_out, TOWER_OUT);
    assert_int_equal(t->v.graph->vocab, TOWER_COLS);
    const ls_tensor *p = ls_checkpoint_find(t->golden, "pixel_values");
    assert_non_null(p);
    assert_int_equal(p->bytes, TOWER_IMAGES * TOWER_PIXELS * sizeof(float));
    for (int i = 0; i < TOWER_IMAGES; i++) t->pixels[i] = (const float *)p->data + i * TOWER_PIXELS;
}

void tower_close(tower *t) {
    ls_vision_deinit(&t->v);
    ls_checkpoint_close(t->c);
    ls_checkpoint_close(t->golden);
}
