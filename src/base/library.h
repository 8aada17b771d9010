/* Functions of a library that is loaded while the program runs, in a struct of pointers to them. */
#ifndef LS_BASE_LIBRARY_H
#define LS_BASE_LIBRARY_H

#include <stddef.h>

typedef struct ls_symbol {
    size_t offset; /* of its pointer in the struct */
    const char *name;
} ls_symbol;

/* Looks |symbol| [n] up in the dlopen handle |library| and puts their addresses into the struct |out|. NULL, or the first name that is not there. */
const char *ls_library_find(void *library, const ls_symbol *symbol, size_t n, void *out);

#endif
