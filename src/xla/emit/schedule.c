/* The order of a module's text: see schedule.h. Works on the lines that the builder wrote, one operation and one result each. */
#include "xla/emit/schedule.h"

#include <string.h>

/* A line of the body: what follows "%12 = ", up to its location, and the location with the line feed. */
typedef struct op_line {
    const char *begin, *loc, *end;
} op_line;

typedef struct order {
    ls_schedule *s;
    const op_line *line;
    int *stack;          /* operations being visited, the user below its operand */
    const char **cursor; /* where each reads its next operand */
    ls_error *e;
} order;

/* A reference in a line: "%12" (kind 'v'), "%w3", "%a0". */
typedef struct reference {
    char kind;
    int id;
    const char *begin, *end;
} reference;

static bool next_reference(const op_line *l, const char *from, reference *r) {
    const char *p = memchr(from, '%', (size_t)(l->loc - from));
    if (!p) return false;
    r->begin = p++;
    r->kind = *p >= 'a' ? *p++ : 'v';
    for (r->id = 0; p < l->loc && *p >= '0' && *p <= '9'; p++) r->id = r->id * 10 + (*p - '0');
    r->end = p;
    return true;
}

static ls_code split(const ls_mlir *m, op_line *line, ls_error *e) {
    static const char loc[] = " loc(\"";
    const char *p = m->body.data;
    for (int i = 0; i < m->next; i++) {
        const char *end = p ? strchr(p, '\n') : NULL, *begin = p ? strstr(p, " = ") : NULL;
        if (!end || !begin || begin > end) LS_FAIL(e, LS_INTERNAL, "operation %d of the module is not one line", i);
        const char *at = m->named ? strstr(begin, loc) : NULL;
        line[i] = (op_line){begin + 3, at && at < end ? at : end, end + 1};
        p = end + 1;
    }
    return LS_OK;
}

static int weight_number(ls_schedule *s, int id) {
    if (s->weight[id] < 0) s->weight[id] = s->n_weights++;
    return s->weight[id];
}

static ls_code write_line(order *o, int i) {
    const op_line *l = &o->line[i];
    ls_schedule *s = o->s;
    reference r;
    const char *p = l->begin;
    LS_TRY(ls_str_printf(&s->text, o->e, "    %%%d = ", s->n_results));
    for (; next_reference(l, p, &r); p = r.end) {
        LS_TRY(ls_str_append(&s->text, p, (size_t)(r.begin - p), o->e));
        if (r.kind == 'v') LS_TRY(ls_str_printf(&s->text, o->e, "%%%d", s->result[r.id]));
        else LS_TRY(ls_str_printf(&s->text, o->e, "%%%c%d", r.kind, r.kind == 'w' ? weight_number(s, r.id) : r.id));
    }
    s->result[i] = s->n_results++;
    return ls_str_append(&s->text, p, (size_t)(l->end - p), o->e);
}

/* Everything |root| needs that is not written yet, then its own line. */
static ls_code visit(order *o, int root) {
    int depth = 0;
    if (o->s->result[root] >= 0) return LS_OK;
    o->stack[0] = root;
    o->cursor[0] = o->line[root].begin;
    while (depth >= 0) {
        int i = o->stack[depth];
        reference r;
        bool found = false;
        while (!found && next_reference(&o->line[i], o->cursor[depth], &r)) {
            o->cursor[depth] = r.end;
            found = r.kind == 'v' && o->s->result[r.id] < 0;
        }
        if (found) {
            o->stack[++depth] = r.id;
            o->cursor[depth] = o->line[r.id].begin;
            continue;
        }
        LS_TRY(write_line(o, i));
        depth--;
    }
    return LS_OK;
}

ls_code ls_schedule_body(ls_schedule *out, ls_arena *arena, const ls_mlir *m, size_t n_weights, const ls_val *root, size_t n_roots, ls_error *e) {
    size_t n = (size_t)m->next + 1;
    op_line *line;
    order o = {.s = out, .e = e};
    LS_TRY(ls_arena_alloc(arena, &line, n, sizeof *line, e));
    LS_TRY(ls_arena_alloc(arena, &o.stack, n, sizeof *o.stack, e));
    LS_TRY(ls_arena_alloc(arena, &o.cursor, n, sizeof(const char *), e));
    LS_TRY(ls_arena_alloc(arena, &out->result, n, sizeof *out->result, e));
    LS_TRY(ls_arena_alloc(arena, &out->weight, n_weights + 1, sizeof *out->weight, e));
    for (size_t i = 0; i < n; i++) out->result[i] = -1;
    for (size_t i = 0; i <= n_weights; i++) out->weight[i] = -1;
    LS_TRY(split(m, line, e));
    o.line = line;
    for (size_t i = 0; i < n_roots; i++) {
        if (root[i].kind == 'v') LS_TRY(visit(&o, root[i].id));
        if (root[i].kind == 'w') weight_number(out, root[i].id);
    }
    return LS_OK;
}
