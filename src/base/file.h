/* Files: read-only memory maps, whole-file reads with a ceiling, path joins. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/str.h"

/* A read-only mapping of a whole file. |data| is NULL for an empty file. */
typedef struct ls_map {
    const uint8_t *data;
    size_t size;
} ls_map;

ls_code ls_map_open(ls_map *m, const char *path, ls_error *e); /* NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (a folder) */
void ls_map_close(ls_map *m);                                  /* zeroes |m|; fine on a zeroed struct */

/* Asks the system to read the file into huge pages, where it can; for files that are computed with in place. */
void ls_map_prefer_huge(const ls_map *m);

/* Tells the system that these bytes will not be read again soon, so their pages stop counting as resident. */
void ls_map_forget(const ls_map *m, size_t offset, size_t len);

/* Reads a file of at most |max| bytes into |s| (appended). RESOURCE_EXHAUSTED when larger. */
ls_code ls_file_read(ls_str *s, const char *path, size_t max, ls_error *e);

bool ls_file_exists(const char *path);  /* a regular file */
bool ls_is_folder(const char *path);

/* "dir/name" owned by the arena. */
ls_code ls_path_join(ls_arena *a, const char **out, const char *dir, const char *name, ls_error *e);

#endif
