/* Fuzz target: any bytes as a safetensors file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_error e = {0};
    ls_checkpoint *c;
    if (ls_checkpoint_create(&c, &e)) return 0;
    if (!ls_safetensors_parse(c, data, size, "input", &e) && !ls_checkpoint_finish(c, &e)) read_everything(c);
    ls_checkpoint_close(c);
    return 0;
}
