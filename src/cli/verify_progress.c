/* Progress and heartbeat of `lockstep verify`: see verify_progress.h. */
#include "cli/verify_progress.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

enum { REDRAW_MS = 50, DETAIL_BYTES = 128 };

struct verify_progress {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool quiet, terminal, ended, drawn;
    int period;
    const char *stage; /* "" before the first */
    char detail[DETAIL_BYTES];
    int done, total, beats; /* beats: heartbeats of the stage */
    struct timespec began, redrawn;
};

static struct timespec now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static long ms_since(const struct timespec *t) {
    struct timespec n = now();
    return (n.tv_sec - t->tv_sec) * 1000 + (n.tv_nsec - t->tv_nsec) / 1000000;
}

static void clear_line(verify_progress *p) {
    if (p->drawn) fputs("\r\033[K", stderr);
    p->drawn = false;
}

/* Every |period| seconds of a stage. The stage's own lines do not count: a single node may take that long. A stage that begins
 * wakes the thread, which then waits for the new one's time. */
static void *beat(void *user) {
    verify_progress *p = user;
    pthread_mutex_lock(&p->mutex);
    while (!p->ended) {
        struct timespec due = p->began;
        due.tv_sec += (time_t)p->period * (p->beats + 1);
        if (pthread_cond_timedwait(&p->wake, &p->mutex, &due) == 0) continue;
        p->beats++;
        clear_line(p);
        fprintf(stderr, "heartbeat: %s %s, %d of %d, %ld s in this stage\n", *p->stage ? p->stage : "starting", p->detail, p->done, p->total,
                ms_since(&p->began) / 1000);
        fflush(stderr);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

ls_code verify_progress_create(verify_progress **out, bool quiet, int period, ls_error *e) {
    verify_progress *p;
    pthread_condattr_t monotonic;
    LS_TRY(ls_calloc(&p, 1, sizeof *p, "progress", e));
    *p = (verify_progress){.quiet = quiet, .terminal = isatty(STDERR_FILENO), .period = period, .stage = "", .began = now()};
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&p->mutex, NULL);
    if (pthread_create(&p->thread, NULL, beat, p)) {
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->mutex);
        ls_free(p);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "cannot start the heartbeat's thread");
    }
    *out = p;
    return LS_OK;
}

static void draw(verify_progress *p) {
    fprintf(stderr, "\r\033[K%s %d/%d %.60s", p->stage, p->done, p->total, p->detail);
    fflush(stderr);
    p->drawn = true;
    p->redrawn = now();
}

void verify_progress_stage(void *user, const ls_verify_stage *s) {
    verify_progress *p = user;
    pthread_mutex_lock(&p->mutex);
    p->stage = s->name;
    snprintf(p->detail, sizeof p->detail, "%s", s->detail);
    p->done = s->done;
    p->total = s->total;
    if (s->begins) {
        p->began = now();
        p->beats = 0;
        pthread_cond_signal(&p->wake);
        clear_line(p);
        if (!p->quiet && !p->terminal) {
            fprintf(stderr, "%s%s%s\n", s->name, *s->detail ? " " : "", s->detail);
            fflush(stderr);
        }
    }
    if (!p->quiet && p->terminal && (s->begins || ms_since(&p->redrawn) >= REDRAW_MS)) draw(p);
    pthread_mutex_unlock(&p->mutex);
}

void verify_progress_destroy(verify_progress *p) {
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    p->ended = true;
    clear_line(p);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mutex);
    ls_free(p);
}
