/* Loading a plugin and refusing one that does not fit. */
#include <dlfcn.h>
#include <string.h>

#include "base/file.h"
#include "xla/pjrt_internal.h"

/* Functions without which there is no engine. */
#define NEED(function) {#function, offsetof(PJRT_Api, function)}
static const struct {
    const char *name;
    size_t offset;
} needed[] = {
    NEED(PJRT_Error_Destroy),
    NEED(PJRT_Error_Message),
    NEED(PJRT_Error_GetCode),
    NEED(PJRT_Plugin_Initialize),
    NEED(PJRT_Event_Destroy),
    NEED(PJRT_Event_Await),
    NEED(PJRT_Client_Create),
    NEED(PJRT_Client_Destroy),
    NEED(PJRT_Client_PlatformName),
    NEED(PJRT_Client_PlatformVersion),
    NEED(PJRT_Client_AddressableDevices),
    NEED(PJRT_Client_Compile),
    NEED(PJRT_Client_BufferFromHostBuffer),
    NEED(PJRT_DeviceDescription_Id),
    NEED(PJRT_DeviceDescription_Kind),
    NEED(PJRT_Device_GetDescription),
    NEED(PJRT_Executable_Destroy),
    NEED(PJRT_Executable_NumOutputs),
    NEED(PJRT_LoadedExecutable_Destroy),
    NEED(PJRT_LoadedExecutable_GetExecutable),
    NEED(PJRT_LoadedExecutable_Execute),
    NEED(PJRT_Buffer_Destroy),
    NEED(PJRT_Buffer_ToHostBuffer),
    NEED(PJRT_Executable_OutputElementTypes),
    NEED(PJRT_Executable_OutputDimensions),
};

static ls_code check_api(const PJRT_Api *api, const char *path, ls_error *e) {
    if (!api) LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": GetPjrtApi returned nothing", path);
    size_t head = offsetof(PJRT_Api, pjrt_api_version) + PJRT_Api_Version_STRUCT_SIZE;
    if (api->struct_size < head)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\": its API table has %zu bytes, at least %zu are needed to hold a version", path, api->struct_size, head);
    const PJRT_Api_Version *v = &api->pjrt_api_version;
    if (v->major_version != LS_PJRT_API_MAJOR)
        LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\" has PJRT API version %d.%d; this build speaks major version %d: use another plugin release", path,
                v->major_version,
                v->minor_version, LS_PJRT_API_MAJOR);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        PJRT_Unused_Function *f = NULL;
        if (api->struct_size >= needed[i].offset + sizeof f) memcpy(&f, (const char *)api + needed[i].offset, sizeof f);
        if (!f)
            LS_FAIL(e, LS_FAILED_PRECONDITION, "\"%s\" (PJRT API %d.%d, table of %zu bytes) has no %s; use a newer plugin release", path, v->major_version,
                    v->minor_version,
                    api->struct_size, needed[i].name);
    }
    return LS_OK;
}

/* A library that is loaded already has been initialised, by an earlier engine or by the program around us. It is pinned only
 * after success, so a failed load leaves nothing behind. */
static ls_code load(const PJRT_Api **api, const char *path, ls_error *e) {
    void *before = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), *library = before ? before : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        bool foreign = why && (strstr(why, "invalid ELF header") || strstr(why, "file too short") || strstr(why, "wrong ELF class"));
        LS_FAIL(e, foreign ? LS_INVALID_ARGUMENT : LS_UNAVAILABLE, "cannot load the plugin \"%s\": %s", path, why ? why : "no reason given");
    }
    ls_code rc = LS_OK;
    void *symbol = dlsym(library, "GetPjrtApi");
    const PJRT_Api *(*get)(void);
    if (!symbol) LS_FAIL_GOTO(e, LS_INVALID_ARGUMENT, "\"%s\" is not a PJRT plugin: it has no function GetPjrtApi", path);
    memcpy(&get, &symbol, sizeof get);
    const PJRT_Api *found = get();
    LS_GOTO(check_api(found, path, e));
    if (!before)
        LS_GOTO(ls_pjrt_check(found, found->PJRT_Plugin_Initialize(PJRT(PJRT_Plugin_Initialize, .extension_start = NULL)), "initialising the plugin", e));
    dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
    *api = found;
out:
    dlclose(library);
    return rc;
}

/* Without a slash dlopen would look in the system's folders instead. */
static ls_code local_path(ls_str *out, const char *path, ls_error *e) { return ls_str_printf(out, e, "%s%s", strchr(path, '/') ? "" : "./", path); }

bool ls_pjrt_is_loaded(const char *path) {
    ls_str local = {0};
    void *library = local_path(&local, path, NULL) ? NULL : dlopen(local.data, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library) dlclose(library);
    ls_str_deinit(&local);
    return library != NULL;
}

ls_code ls_pjrt_load(const PJRT_Api **api, const char *path, ls_error *e) {
    *api = NULL;
    if (!ls_file_exists(path)) LS_FAIL(e, ls_is_folder(path) ? LS_INVALID_ARGUMENT : LS_NOT_FOUND, "the plugin \"%s\" is not a file", path);
    ls_str local = {0};
    ls_code rc;
    LS_GOTO(local_path(&local, path, e));
    rc = load(api, local.data, e);
out:
    ls_str_deinit(&local);
    return rc;
}

ls_code ls_pjrt_check(const PJRT_Api *api, PJRT_Error *error, const char *what, ls_error *e) {
    if (!error) return LS_OK;
    PJRT_Error_GetCode_Args *c = PJRT(PJRT_Error_GetCode, .error = error);
    PJRT_Error *failed = api->PJRT_Error_GetCode(c);
    PJRT_Error_Message_Args *m = PJRT(PJRT_Error_Message, .error = error);
    api->PJRT_Error_Message(m);
    ls_code code = !failed && c->code > LS_OK && c->code <= LS_UNAUTHENTICATED ? (ls_code)c->code : LS_UNKNOWN;
    size_t n = !m->message ? 0 : m->message_size < sizeof e->text ? m->message_size : sizeof e->text;
    ls_error_set(e, code, __FILE__, __LINE__, "%s: %.*s", what, (int)n, n ? m->message : "");
    api->PJRT_Error_Destroy(PJRT(PJRT_Error_Destroy, .error = error));
    if (failed) api->PJRT_Error_Destroy(PJRT(PJRT_Error_Destroy, .error = failed));
    return code;
}

ls_code ls_pjrt_await(const PJRT_Api *api, PJRT_Event *event, const char *what, ls_error *e) {
    if (!event) return LS_OK;
    ls_code rc = ls_pjrt_check(api, api->PJRT_Event_Await(PJRT(PJRT_Event_Await, .event = event)), what, e);
    ls_code freed = ls_pjrt_check(api, api->PJRT_Event_Destroy(PJRT(PJRT_Event_Destroy, .event = event)), "freeing an event", rc ? NULL : e);
    return rc ? rc : freed;
}
