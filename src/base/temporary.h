/* Files that get their name when they are whole: written under another name beside it, "<path>.tmp.<16 hexadecimal digits>", with a lock (flock) on it all
 * along, and renamed at the end. What a killed process leaves has no lock, which tells it from what is being written. */
#ifndef LS_BASE_TEMPORARY_H
#define LS_BASE_TEMPORARY_H

#include "base/str.h"

typedef struct ls_temporary {
    int fd;           /* open for reading and writing */
    char *name, *path; /* owned; NULL: there is none */
} ls_temporary;

/* Makes the file beside |path|, with |mode| less the process's umask. NOT_FOUND: no such folder; PERMISSION_DENIED. */
ls_code ls_temporary_open(ls_temporary *t, const char *path, unsigned mode, ls_error *e);

/* Gives it the name |path|, in place of what has it, and closes it; deleted when that fails. Whether the bytes are on disk is the caller's to see to. */
ls_code ls_temporary_publish(ls_temporary *t, ls_error *e);

/* Closes and deletes it. Fine on a zeroed or published one. */
void ls_temporary_drop(ls_temporary *t);

/* Deletes what killed processes left of the file |path|. Failures do not matter: such files only cost space. */
void ls_temporary_sweep(const char *path);

/* The same of all files in |folder|. */
void ls_temporary_sweep_folder(const char *folder);

#endif
