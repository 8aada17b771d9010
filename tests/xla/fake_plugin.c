/* Not a device compiler: a library whose GetPjrtApi is wrong in the way that LS_FAKE_PLUGIN names, for the refusals of
 * ls_pjrt_open that no released plugin gives. */
#include <stdlib.h>
#include <string.h>

#include "xla/pjrt_abi.h"

#define VISIBLE __attribute__((visibility("default")))

static int the_error; /* errors are told apart by |code| alone */
static PJRT_Error_Code code;

static PJRT_Error *fail(void) { return (PJRT_Error *)&the_error; }

static void error_destroy(PJRT_Error_Destroy_Args *args) { (void)args; }

static void error_message(PJRT_Error_Message_Args *args) {
    args->message = "no driver for this device";
    args->message_size = strlen(args->message);
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *args) {
    args->code = code;
    return NULL;
}

static PJRT_Error *initialise(PJRT_Plugin_Initialize_Args *args) {
    (void)args;
    return fail();
}

static void unused(void) {}

/* Every function is there; only initialising and errors do anything. */
static PJRT_Api whole_table(void) {
    PJRT_Api api = {.struct_size = sizeof(PJRT_Api)};
    PJRT_Unused_Function *f = unused;
    for (size_t at = offsetof(PJRT_Api, PJRT_Error_Destroy); at < sizeof api; at += sizeof f) memcpy((char *)&api + at, &f, sizeof f);
    api.pjrt_api_version = (PJRT_Api_Version){.struct_size = PJRT_Api_Version_STRUCT_SIZE, .major_version = 0, .minor_version = 7};
    api.PJRT_Error_Destroy = error_destroy;
    api.PJRT_Error_Message = error_message;
    api.PJRT_Error_GetCode = error_code;
    api.PJRT_Plugin_Initialize = initialise;
    return api;
}

VISIBLE const PJRT_Api *GetPjrtApi(void);
const PJRT_Api *GetPjrtApi(void) {
    static PJRT_Api api;
    const char *fault = getenv("LS_FAKE_PLUGIN");
    api = whole_table();
    code = 14;
    if (!fault || !strcmp(fault, "nothing")) return NULL;
    if (!strcmp(fault, "major")) api.pjrt_api_version.major_version = 1;
    if (!strcmp(fault, "tiny")) api.struct_size = 16;
    if (!strcmp(fault, "short")) api.struct_size = offsetof(PJRT_Api, PJRT_Buffer_ToHostBuffer);
    if (!strcmp(fault, "hole")) api.PJRT_Client_Compile = NULL;
    if (!strcmp(fault, "code")) code = 99;
    return &api;
}
