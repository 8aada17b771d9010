/* A module's text taken apart: see emit_text.h. */
#include "test.h"

#include "emit_text.h"

#include <stdlib.h>

static void parse_op(emit_op *o, char *line) {
    char *loc = strstr(line, " loc(\""), *name = strstr(line, " = ");
    if (!name) fail_msg("\"%s\" is no operation", line);
    name += name[3] == '"' ? 4 : 3;
    snprintf(o->name, sizeof o->name, "%.*s", (int)strcspn(name, " (\""), name);
    if (loc) {
        snprintf(o->loc, sizeof o->loc, "%.*s", (int)strcspn(loc + 6, "\""), loc + 6);
        *loc = 0;
    }
    o->line = line;
    o->result = line;
    for (char *p = line; (p = strstr(p, "tensor<")); p++) o->result = p;
}

void emit_text_init(emit_text *t, const ls_emit_module *m) {
    *t = (emit_text){.copy = malloc(m->text.len + 1), .op = calloc(m->text.len / 16 + 1, sizeof *t->op)};
    assert_true(t->copy && t->op);
    memcpy(t->copy, m->text.data, m->text.len + 1);
    char *p = strstr(t->copy, ") {\n");
    assert_non_null(p);
    for (p = p + 4; strncmp(p, "    return", 10);) {
        char *end = strchr(p, '\n');
        assert_non_null(end);
        *end = 0;
        parse_op(&t->op[t->n++], p);
        p = end + 1;
    }
}

void emit_text_deinit(emit_text *t) {
    free(t->copy);
    free(t->op);
    *t = (emit_text){0};
}

int emit_text_count(const emit_text *t, const char *name, const char *loc) {
    int n = 0;
    for (int i = 0; i < t->n; i++) n += !strcmp(t->op[i].name, name) && (!loc || !strcmp(t->op[i].loc, loc));
    return n;
}

static bool moves_only(const char *name) {
    static const char *const names[] = {"reshape", "broadcast_in_dim", "transpose", "slice", "constant"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

const char *emit_text_chain(const emit_text *t, const char *loc) {
    static char chain[1024];
    size_t n = 0;
    chain[0] = 0;
    for (int i = 0; i < t->n; i++) {
        const char *name = strchr(t->op[i].name, '.') + 1;
        if (strcmp(t->op[i].loc, loc) || moves_only(name)) continue;
        n += (size_t)snprintf(chain + n, sizeof chain - n, "%s%s", n ? " " : "", name);
        assert_true(n < sizeof chain);
    }
    return chain;
}
