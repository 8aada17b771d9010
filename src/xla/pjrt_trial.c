/* The child writes to one pipe: its notes (standard output and error), and after the attempt one byte that no note ends with. The end of
 * the pipe is the end of the child, whatever the program around us does with SIGCHLD. */
#include "xla/pjrt_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SURVIVED = 6, NOTES = 2048, SHOWN = 300 };

/* A lock that another thread held at the fork would stop the child for ever: the alarm ends it. No core file is left. */
static void run_child(int fd, void (*attempt)(void *user), void *user) {
    static const char survived = SURVIVED;
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    alarm(LS_TRIAL_SECONDS);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    attempt(user);
    _exit(write(fd, &survived, 1) != 1);
}

/* Reads to the end: the first |size| - 1 bytes into |notes|, the last byte into *last. */
static void listen_to(int fd, char *notes, size_t size, char *last) {
    char piece[512];
    size_t n = 0;
    *last = 0;
    for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR);) {
        if (got < 0) continue;
        size_t kept = (size_t)got < size - 1 - n ? (size_t)got : size - 1 - n;
        memcpy(notes + n, piece, kept);
        n += kept;
        *last = piece[got - 1];
    }
    notes[n] = 0;
}

/* The sentence of XLA's fatal note: "F0000 00:00:17.95 20287 file.cc:234] sentence"; all notes when there is none. */
static const char *last_words(char *notes) {
    for (char *line = notes; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *sentence = strstr(line, "] ");
        if (*line != 'F' || !sentence || sentence > line + strcspn(line, "\n")) continue;
        sentence[strcspn(sentence, "\n")] = 0;
        return sentence + 2;
    }
    return *notes ? notes : "it said nothing";
}

ls_code ls_pjrt_trial(void (*attempt)(void *user), void *user, const char *what, ls_error *e) {
    int ends[2], status = 0;
    char notes[NOTES], last;
    if (pipe2(ends, O_CLOEXEC)) LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: no pipe for a trial: %s", what, strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        int err = errno;
        close(ends[0]);
        close(ends[1]);
        LS_FAIL(e, LS_RESOURCE_EXHAUSTED, "%s: no process for a trial: %s", what, strerror(err));
    }
    if (!child) run_child(ends[1], attempt, user);
    close(ends[1]);
    listen_to(ends[0], notes, sizeof notes, &last);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (last == SURVIVED) return LS_OK;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return LS_OK; /* it waited for a lock, or was slow: no sign that it ends the process */
    LS_FAIL(e, LS_FAILED_PRECONDITION, "%s ends the process: %.*s", what, SHOWN, last_words(notes));
}
