/* Where Python packages lie on this machine, so that device compilers which come as wheels are found. Reads the
 * environment and folders; runs nothing.
 *
 * Searched in this order: LOCKSTEP_PYTHON_ENV (environments or package folders, separated by colons); the folders of PYTHONPATH;
 * the packages of VIRTUAL_ENV and of CONDA_PREFIX; those of every Python on PATH (a virtual environment's own before its base's);
 * those of the user (~/.local). */
#ifndef LS_XLA_PYTHON_ENV_H
#define LS_XLA_PYTHON_ENV_H

#include "base/file.h"

enum { LS_PYTHON_ENV_MAX = 64 };

/* Existing package folders (site-packages, dist-packages), first to be searched first, each once. Strings belong to the arena. */
typedef struct ls_python_env {
    const char *folder[LS_PYTHON_ENV_MAX];
    size_t n;
} ls_python_env;

ls_code ls_python_env_find(ls_python_env *env, ls_arena *a, ls_error *e);

/* *path = first file that matches |pattern| (shell wildcards, relative to a package folder), owned by the arena; NULL when
 * no folder has one. Within one folder the first by name wins. */
ls_code ls_python_env_file(const ls_python_env *env, ls_arena *a, const char *pattern, const char **path, ls_error *e);

#endif
