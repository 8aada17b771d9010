/* Compile options as the plugin wants them: a protocol-buffer message, written by hand because it has four fields. */
#include <stdlib.h>
#include <string.h>

#include "xla/pjrt_internal.h"

/* Each pins what some release, or a user's XLA_FLAGS, may have otherwise:
 * excess precision would let the compiler drop a rounding to f16 or bf16 that the module asks for; fast-math and fast min/max
 * change sums, NaN and -0.0; the GPU settings choose kernels by rule instead of by a stopwatch or by arrival order. */
const ls_pjrt_setting ls_pjrt_settings[LS_PJRT_SETTINGS] = {
    {"xla_allow_excess_precision", false, NULL},
    {"xla_cpu_enable_fast_math", false, "cpu"},
    {"xla_cpu_enable_fast_min_max", false, "cpu"},
    {"xla_gpu_enable_fast_min_max", false, "cuda rocm"},
    {"xla_gpu_deterministic_ops", true, "cuda rocm"},
    {"xla_gpu_exclude_nondeterministic_ops", true, "cuda rocm"},
};

/* Fields of CompileOptionsProto, ExecutableBuildOptionsProto, DeviceAssignmentProto and of an entry of env_option_overrides. */
enum {
    BUILD_OPTIONS = 3,
    OVERRIDES = 7,
    NUM_REPLICAS = 4,
    NUM_PARTITIONS = 5,
    DEVICE_ASSIGNMENT = 9,
    REPLICA_COUNT = 1,
    COMPUTATION_COUNT = 2,
    COMPUTATION_DEVICES = 3,
    REPLICA_DEVICE_IDS = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    OVERRIDE_BOOL = 2
};

static ls_code put_varint(ls_str *s, uint64_t v, ls_error *e) {
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((v & 0x7F) | (v > 0x7F ? 0x80 : 0));
        v >>= 7;
    } while (v);
    return ls_str_append(s, bytes, n, e);
}

static ls_code put_number(ls_str *s, int field, uint64_t v, ls_error *e) {
    LS_TRY(put_varint(s, (uint64_t)field << 3, e));
    return put_varint(s, v, e);
}

static ls_code put_bytes(ls_str *s, int field, const char *data, size_t n, ls_error *e) {
    LS_TRY(put_varint(s, (uint64_t)field << 3 | 2, e));
    LS_TRY(put_varint(s, n, e));
    return ls_str_append(s, data, n, e);
}

static ls_code put_override(ls_str *s, const ls_pjrt_setting *o, ls_error *e) {
    ls_str entry = {0}, value = {0};
    ls_code rc;
    LS_GOTO(put_number(&value, OVERRIDE_BOOL, o->value, e));
    LS_GOTO(put_bytes(&entry, ENTRY_KEY, o->name, strlen(o->name), e));
    LS_GOTO(put_bytes(&entry, ENTRY_VALUE, value.data, value.len, e));
    rc = put_bytes(s, OVERRIDES, entry.data, entry.len, e);
out:
    ls_str_deinit(&entry);
    ls_str_deinit(&value);
    return rc;
}

/* A device assignment of one computation on one device. */
static ls_code put_device(ls_str *s, int device_id, ls_error *e) {
    ls_str devices = {0}, assignment = {0};
    ls_code rc;
    LS_GOTO(put_number(&devices, REPLICA_DEVICE_IDS, (uint64_t)device_id, e));
    LS_GOTO(put_number(&assignment, REPLICA_COUNT, 1, e));
    LS_GOTO(put_number(&assignment, COMPUTATION_COUNT, 1, e));
    LS_GOTO(put_bytes(&assignment, COMPUTATION_DEVICES, devices.data, devices.len, e));
    rc = put_bytes(s, DEVICE_ASSIGNMENT, assignment.data, assignment.len, e);
out:
    ls_str_deinit(&devices);
    ls_str_deinit(&assignment);
    return rc;
}

ls_code ls_pjrt_compile_options(ls_str *out, int device_id, unsigned mask, ls_error *e) {
    ls_str build = {0};
    ls_code rc;
    LS_GOTO(put_number(&build, NUM_REPLICAS, 1, e));
    LS_GOTO(put_number(&build, NUM_PARTITIONS, 1, e));
    LS_GOTO(put_device(&build, device_id, e));
    LS_GOTO(put_bytes(out, BUILD_OPTIONS, build.data, build.len, e));
    for (unsigned i = 0; i < LS_PJRT_SETTINGS; i++)
        if (mask >> i & 1) LS_GOTO(put_override(out, &ls_pjrt_settings[i], e));
out:
    ls_str_deinit(&build);
    return rc;
}

/* ---- Client options ------------------------------------------------------------------------------------------------- */

static void set_value(PJRT_NamedValue *v, const char *text) {
    char *end;
    long long whole = strtoll(text, &end, 10);
    v->value_size = 1;
    if (!strcmp(text, "true") || !strcmp(text, "false")) {
        v->type = PJRT_NamedValue_kBool;
        v->bool_value = *text == 't';
    } else if (*text && !*end) {
        v->type = PJRT_NamedValue_kInt64;
        v->int64_value = whole;
    } else if (*text && strspn(text, "0123456789.-") == strlen(text)) {
        v->type = PJRT_NamedValue_kFloat;
        v->float_value = strtof(text, NULL);
    } else {
        v->type = PJRT_NamedValue_kString;
        v->string_value = text;
        v->value_size = strlen(text);
    }
}

ls_code ls_pjrt_named_values(ls_arena *a, const char *text, const PJRT_NamedValue **out, size_t *n, ls_error *e) {
    *n = 0;
    *out = NULL;
    if (!text || !*text) return LS_OK;
    size_t count = 1;
    for (const char *p = text; *p; p++) count += *p == ',';
    PJRT_NamedValue *values;
    LS_TRY(ls_arena_alloc(a, &values, count, sizeof *values, e));
    for (const char *item = text; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL) {
        size_t len = strcspn(item, ","), name = strcspn(item, "=");
        if (!name || name >= len) LS_FAIL(e, LS_INVALID_ARGUMENT, "client option \"%.*s\" must have the form name=value", (int)len, item);
        PJRT_NamedValue *v = &values[(*n)++];
        v->struct_size = PJRT_NamedValue_STRUCT_SIZE;
        v->name_size = name;
        const char *value;
        LS_TRY(ls_arena_strdup(a, &v->name, item, name, e));
        LS_TRY(ls_arena_strdup(a, &value, item + name + 1, len - name - 1, e));
        set_value(v, value);
    }
    *out = values;
    return LS_OK;
}
