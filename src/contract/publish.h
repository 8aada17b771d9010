/* Publishing compiled artifacts: many processes may want the same artifact at once, any of them may be killed at any
 * moment, and none may ever load one that is not exactly what it asked for. */
#ifndef LS_CONTRACT_PUBLISH_H
#define LS_CONTRACT_PUBLISH_H

#include "contract/manifest.h"

typedef struct ls_publish {
    const char *path;              /* of the artifact; its manifest is "<path>.aux.json", its lock "<path>.lock" */
    ls_artifact_identity identity;
    /* Writes the artifact to the file |path|, which does not exist yet and lies in the same folder. */
    ls_code (*produce)(void *user, const char *path, ls_error *e);
    void *user;
    int wait_ms;                   /* for the lock; negative: LS_LOCK_WAIT_MS */
} ls_publish;

typedef struct ls_published {
    bool reused;          /* was there already and verified */
    ls_manifest manifest; /* its fingerprint is ls_manifest_fingerprint */
} ls_published;

/* Under the lock: an artifact and manifest that verify are reused. Otherwise a manifest that is there must be replaceable
 * (ls_manifest_may_replace, decided before anything is deleted or compiled); then both files are deleted, the artifact
 * is produced as a temporary file and renamed, its manifest likewise, and the result is read and verified again. A failure deletes both. */
ls_code ls_artifact_publish(const ls_publish *p, ls_published *out, ls_error *e);

/* Reads and verifies an artifact that must be there. NOT_FOUND without artifact or manifest, INVALID_ARGUMENT for a
 * corrupt manifest, FAILED_PRECONDITION naming the first field that differs. */
ls_code ls_artifact_verify(const char *path, const ls_artifact_identity *identity, ls_manifest *out, ls_error *e);

#endif
