/* The operators at level neon, and at the levels that extend it: the bodies compiled over its vector vocabulary. */
#include "native/ops_vec_neon.h"

#include "native/ops_body.h"

#include "native/ops_attention_body.h"

const ls_ops ls_ops_neon = {.level = "neon", .rms_norm = rms_norm, .layer_norm = layer_norm, .rope = rope, .act = act, .glu = glu, .softcap = softcap,
                          .add = add, .mul = mul, .scale = scale, .clamp = clamp, .canon = canon, .quantise = quantise, .attend = attend,
                          .combine = combine};
