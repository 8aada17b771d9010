/* The part of the PJRT C API that lockstep uses: names and layout of the public API of OpenXLA plugins, major version 0.
 *
 * Declared here so that a build needs no plugin package. Only layout matters between the two sides, so members that
 * lockstep never sets keep their name and size and lose their exact type (void *). tests/xla/test_pjrt_abi.py compares
 * every size, offset and constant below with the header that a plugin package ships.
 *
 * Rules of the API: a caller sets struct_size to the X_STRUCT_SIZE it was compiled with; PJRT_Api grows only at its end, so
 * a function exists when PJRT_Api.struct_size reaches past its pointer (pjrt_plugin.c checks); strings are not
 * NUL-terminated unless said so. */
#ifndef LS_XLA_PJRT_ABI_H
#define LS_XLA_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_PJRT_API_MAJOR = 0 };

/* Declares type X, and X_STRUCT_SIZE: bytes up to the end of |last|, without tail padding. */
#define PJRT_TRAITS(X, last) \
    typedef struct X X;      \
    enum { X##_STRUCT_SIZE = offsetof(struct X, last) + sizeof(((struct X *)0)->last) }

typedef struct PJRT_Extension_Base PJRT_Extension_Base; /* lockstep uses no extension: always NULL */
typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;
typedef struct PJRT_Buffer PJRT_Buffer;

/* ---- Errors and events: both are owned by the caller that receives them ----------------------------------------- */

typedef int PJRT_Error_Code; /* the numbering of ls_code */

struct PJRT_Error_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Error *error;
};
PJRT_TRAITS(PJRT_Error_Destroy_Args, error);
typedef void PJRT_Error_Destroy(PJRT_Error_Destroy_Args *args);

struct PJRT_Error_Message_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const PJRT_Error *error;
    const char *message; /* out; lives as long as |error| */
    size_t message_size; /* out */
};
PJRT_TRAITS(PJRT_Error_Message_Args, message_size);
typedef void PJRT_Error_Message(PJRT_Error_Message_Args *args);

struct PJRT_Error_GetCode_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const PJRT_Error *error;
    PJRT_Error_Code code; /* out */
};
PJRT_TRAITS(PJRT_Error_GetCode_Args, code);
typedef PJRT_Error *PJRT_Error_GetCode(PJRT_Error_GetCode_Args *args);

struct PJRT_Event_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Event *event;
};
PJRT_TRAITS(PJRT_Event_Destroy_Args, event);
typedef PJRT_Error *PJRT_Event_Destroy(PJRT_Event_Destroy_Args *args);

struct PJRT_Event_Await_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Event *event;
};
PJRT_TRAITS(PJRT_Event_Await_Args, event);
typedef PJRT_Error *PJRT_Event_Await(PJRT_Event_Await_Args *args);

/* ---- Plugin and client -------------------------------------------------------------------------------------------- */

typedef enum PJRT_NamedValue_Type {
    PJRT_NamedValue_kString,
    PJRT_NamedValue_kInt64,
    PJRT_NamedValue_kInt64List,
    PJRT_NamedValue_kFloat,
    PJRT_NamedValue_kBool
} PJRT_NamedValue_Type;

struct PJRT_NamedValue {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const char *name;
    size_t name_size;
    PJRT_NamedValue_Type type;
    union {
        const char *string_value;
        int64_t int64_value;
        const int64_t *int64_array_value;
        float float_value;
        bool bool_value;
    };
    size_t value_size; /* elements of a string or list, 1 for the rest */
};
PJRT_TRAITS(PJRT_NamedValue, value_size);

struct PJRT_Plugin_Initialize_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
};
PJRT_TRAITS(PJRT_Plugin_Initialize_Args, extension_start);
typedef PJRT_Error *PJRT_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args);

struct PJRT_Plugin_Attributes_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const PJRT_NamedValue *attributes; /* out; lives as long as the process */
    size_t num_attributes;             /* out */
};
PJRT_TRAITS(PJRT_Plugin_Attributes_Args, num_attributes);
typedef PJRT_Error *PJRT_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args);

/* The key-value store of multi-process clients stays unset. */
struct PJRT_Client_Create_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const PJRT_NamedValue *create_options;
    size_t num_options;
    void *kv_get_callback;
    void *kv_get_user_arg;
    void *kv_put_callback;
    void *kv_put_user_arg;
    PJRT_Client *client; /* out */
    void *kv_try_get_callback;
    void *kv_try_get_user_arg;
};
PJRT_TRAITS(PJRT_Client_Create_Args, kv_try_get_user_arg);
typedef PJRT_Error *PJRT_Client_Create(PJRT_Client_Create_Args *args);

struct PJRT_Client_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
};
PJRT_TRAITS(PJRT_Client_Destroy_Args, client);
typedef PJRT_Error *PJRT_Client_Destroy(PJRT_Client_Destroy_Args *args);

struct PJRT_Client_PlatformName_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    const char *platform_name; /* out; lives as long as |client| */
    size_t platform_name_size; /* out */
};
PJRT_TRAITS(PJRT_Client_PlatformName_Args, platform_name_size);
typedef PJRT_Error *PJRT_Client_PlatformName(PJRT_Client_PlatformName_Args *args);

struct PJRT_Client_PlatformVersion_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    const char *platform_version; /* out; lives as long as |client| */
    size_t platform_version_size; /* out */
};
PJRT_TRAITS(PJRT_Client_PlatformVersion_Args, platform_version_size);
typedef PJRT_Error *PJRT_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args);

struct PJRT_Client_AddressableDevices_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    PJRT_Device *const *addressable_devices; /* out; lives as long as |client| */
    size_t num_addressable_devices;          /* out */
};
PJRT_TRAITS(PJRT_Client_AddressableDevices_Args, num_addressable_devices);
typedef PJRT_Error *PJRT_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args);

struct PJRT_Device_GetDescription_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Device *device;
    PJRT_DeviceDescription *device_description; /* out */
};
PJRT_TRAITS(PJRT_Device_GetDescription_Args, device_description);
typedef PJRT_Error *PJRT_Device_GetDescription(PJRT_Device_GetDescription_Args *args);

struct PJRT_DeviceDescription_Id_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_DeviceDescription *device_description;
    int id; /* out */
};
PJRT_TRAITS(PJRT_DeviceDescription_Id_Args, id);
typedef PJRT_Error *PJRT_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args);

struct PJRT_DeviceDescription_Attributes_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_DeviceDescription *device_description;
    size_t num_attributes;             /* out */
    const PJRT_NamedValue *attributes; /* out */
};
PJRT_TRAITS(PJRT_DeviceDescription_Attributes_Args, attributes);
typedef PJRT_Error *PJRT_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args *args);

struct PJRT_DeviceDescription_Kind_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_DeviceDescription *device_description;
    const char *device_kind; /* out */
    size_t device_kind_size; /* out */
};
PJRT_TRAITS(PJRT_DeviceDescription_Kind_Args, device_kind_size);
typedef PJRT_Error *PJRT_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args);

struct PJRT_DeviceDescription_DebugString_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_DeviceDescription *device_description;
    const char *debug_string; /* out */
    size_t debug_string_size; /* out */
};
PJRT_TRAITS(PJRT_DeviceDescription_DebugString_Args, debug_string_size);
typedef PJRT_Error *PJRT_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args *args);

/* ---- Executables -------------------------------------------------------------------------------------------------- */

struct PJRT_Program {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    char *code;
    size_t code_size;
    const char *format; /* "mlir": text or bytecode */
    size_t format_size;
};
PJRT_TRAITS(PJRT_Program, format_size);

struct PJRT_Client_Compile_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    const PJRT_Program *program;
    const char *compile_options; /* a serialised CompileOptionsProto: pjrt_options.c */
    size_t compile_options_size;
    PJRT_LoadedExecutable *executable; /* out */
};
PJRT_TRAITS(PJRT_Client_Compile_Args, executable);
typedef PJRT_Error *PJRT_Client_Compile(PJRT_Client_Compile_Args *args);

struct PJRT_Executable_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Executable *executable;
};
PJRT_TRAITS(PJRT_Executable_Destroy_Args, executable);
typedef PJRT_Error *PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args *args);

struct PJRT_Executable_NumOutputs_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Executable *executable;
    size_t num_outputs; /* out */
};
PJRT_TRAITS(PJRT_Executable_NumOutputs_Args, num_outputs);
typedef PJRT_Error *PJRT_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args *args);

struct PJRT_Executable_Serialize_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const PJRT_Executable *executable;
    const char *serialized_bytes;                                           /* out; lives as long as the next */
    size_t serialized_bytes_size;                                           /* out */
    PJRT_SerializedExecutable *serialized_executable;                       /* out */
    void (*serialized_executable_deleter)(PJRT_SerializedExecutable *exec); /* out; frees it */
};
PJRT_TRAITS(PJRT_Executable_Serialize_Args, serialized_executable_deleter);
typedef PJRT_Error *PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args *args);

struct PJRT_LoadedExecutable_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_LoadedExecutable *executable;
};
PJRT_TRAITS(PJRT_LoadedExecutable_Destroy_Args, executable);
typedef PJRT_Error *PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args);

struct PJRT_LoadedExecutable_GetExecutable_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_LoadedExecutable *loaded_executable;
    PJRT_Executable *executable; /* out; the caller's to destroy */
};
PJRT_TRAITS(PJRT_LoadedExecutable_GetExecutable_Args, executable);
typedef PJRT_Error *PJRT_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args);

struct PJRT_ExecuteOptions {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    void **send_callbacks;
    void **recv_callbacks;
    size_t num_send_ops;
    size_t num_recv_ops;
    int launch_id;
    const int64_t *non_donatable_input_indices;
    size_t num_non_donatable_input_indices;
    void *context;
    const char *call_location;
    size_t num_tasks;
    int *task_ids;
    int64_t *incarnation_ids;
};
PJRT_TRAITS(PJRT_ExecuteOptions, incarnation_ids);

struct PJRT_LoadedExecutable_Execute_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_LoadedExecutable *executable;
    PJRT_ExecuteOptions *options;
    PJRT_Buffer *const *const *argument_lists; /* [num_devices][num_args] */
    size_t num_devices;
    size_t num_args;
    PJRT_Buffer **const *output_lists;   /* [num_devices][outputs]; filled */
    PJRT_Event **device_complete_events; /* [num_devices] or NULL; filled, the caller's */
    PJRT_Device *execute_device;         /* NULL: that of the device assignment */
};
PJRT_TRAITS(PJRT_LoadedExecutable_Execute_Args, execute_device);
typedef PJRT_Error *PJRT_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args);

struct PJRT_Executable_DeserializeAndLoad_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    const char *serialized_executable;
    size_t serialized_executable_size;
    PJRT_LoadedExecutable *loaded_executable; /* out */
    const char *overridden_serialized_compile_options;
    size_t overridden_serialized_compile_options_size;
};
PJRT_TRAITS(PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options_size);
typedef PJRT_Error *PJRT_Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args *args);

/* ---- Buffers ------------------------------------------------------------------------------------------------------ */

typedef enum PJRT_Buffer_Type {
    PJRT_Buffer_Type_INVALID,
    PJRT_Buffer_Type_PRED,
    PJRT_Buffer_Type_S8,
    PJRT_Buffer_Type_S16,
    PJRT_Buffer_Type_S32,
    PJRT_Buffer_Type_S64,
    PJRT_Buffer_Type_U8,
    PJRT_Buffer_Type_U16,
    PJRT_Buffer_Type_U32,
    PJRT_Buffer_Type_U64,
    PJRT_Buffer_Type_F16,
    PJRT_Buffer_Type_F32,
    PJRT_Buffer_Type_F64,
    PJRT_Buffer_Type_BF16
} PJRT_Buffer_Type;

typedef enum PJRT_HostBufferSemantics {
    PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
    PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes
} PJRT_HostBufferSemantics;

typedef enum PJRT_Buffer_MemoryLayout_Type {
    PJRT_Buffer_MemoryLayout_Type_Tiled,
    PJRT_Buffer_MemoryLayout_Type_Strides
} PJRT_Buffer_MemoryLayout_Type;

struct PJRT_Buffer_MemoryLayout_Tiled {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const int64_t *minor_to_major; /* {rank - 1, ..., 0} is row-major */
    size_t minor_to_major_size;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t num_tiles;
};
PJRT_TRAITS(PJRT_Buffer_MemoryLayout_Tiled, num_tiles);

struct PJRT_Buffer_MemoryLayout_Strides {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    const int64_t *byte_strides;
    size_t num_byte_strides;
};
PJRT_TRAITS(PJRT_Buffer_MemoryLayout_Strides, num_byte_strides);

struct PJRT_Buffer_MemoryLayout {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    union {
        PJRT_Buffer_MemoryLayout_Tiled tiled;
        PJRT_Buffer_MemoryLayout_Strides strides;
    };
    PJRT_Buffer_MemoryLayout_Type type;
};
PJRT_TRAITS(PJRT_Buffer_MemoryLayout, type);

struct PJRT_Client_BufferFromHostBuffer_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Client *client;
    const void *data;
    PJRT_Buffer_Type type;
    const int64_t *dims;
    size_t num_dims;
    const int64_t *byte_strides; /* NULL: dense, row-major */
    size_t num_byte_strides;
    PJRT_HostBufferSemantics host_buffer_semantics;
    PJRT_Device *device;
    void *memory;
    PJRT_Buffer_MemoryLayout *device_layout; /* NULL: dense, row-major */
    PJRT_Event *done_with_host_buffer;       /* out; the caller's to destroy */
    PJRT_Buffer *buffer;                     /* out */
};
PJRT_TRAITS(PJRT_Client_BufferFromHostBuffer_Args, buffer);
typedef PJRT_Error *PJRT_Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args *args);

struct PJRT_Buffer_Destroy_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Buffer *buffer;
};
PJRT_TRAITS(PJRT_Buffer_Destroy_Args, buffer);
typedef PJRT_Error *PJRT_Buffer_Destroy(PJRT_Buffer_Destroy_Args *args);

struct PJRT_Buffer_ToHostBuffer_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Buffer *src;
    PJRT_Buffer_MemoryLayout *host_layout; /* NULL: that of |src| */
    void *dst;
    size_t dst_size;
    PJRT_Event *event; /* out; ready when |dst| is filled */
};
PJRT_TRAITS(PJRT_Buffer_ToHostBuffer_Args, event);
typedef PJRT_Error *PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args);

struct PJRT_Buffer_UnsafePointer_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Buffer *buffer;
    uintptr_t buffer_pointer; /* out */
};
PJRT_TRAITS(PJRT_Buffer_UnsafePointer_Args, buffer_pointer);
typedef PJRT_Error *PJRT_Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args *args);

struct PJRT_Executable_OutputElementTypes_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Executable *executable;
    PJRT_Buffer_Type *output_types; /* out; lives as long as |executable| */
    size_t num_output_types;        /* out */
};
PJRT_TRAITS(PJRT_Executable_OutputElementTypes_Args, num_output_types);
typedef PJRT_Error *PJRT_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args *args);

struct PJRT_Executable_OutputDimensions_Args {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Executable *executable;
    size_t num_outputs;
    const int64_t *dims;     /* out; all dimensions of all outputs, one after the other */
    const size_t *dim_sizes; /* out; the rank of each output */
};
PJRT_TRAITS(PJRT_Executable_OutputDimensions_Args, dim_sizes);
typedef PJRT_Error *PJRT_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args *args);

/* ---- The table that GetPjrtApi returns ------------------------------------------------------------------------------ */

struct PJRT_Api_Version {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    int major_version;
    int minor_version;
};
PJRT_TRAITS(PJRT_Api_Version, minor_version);

/* Functions in the order of the API; those that lockstep does not call are counted, not named. */
typedef void PJRT_Unused_Function(void);
struct PJRT_Api {
    size_t struct_size;
    PJRT_Extension_Base *extension_start;
    PJRT_Api_Version pjrt_api_version;
    PJRT_Error_Destroy *PJRT_Error_Destroy;
    PJRT_Error_Message *PJRT_Error_Message;
    PJRT_Error_GetCode *PJRT_Error_GetCode;
    PJRT_Plugin_Initialize *PJRT_Plugin_Initialize;
    PJRT_Plugin_Attributes *PJRT_Plugin_Attributes;
    PJRT_Event_Destroy *PJRT_Event_Destroy;
    PJRT_Unused_Function *unused_6[2];
    PJRT_Event_Await *PJRT_Event_Await;
    PJRT_Unused_Function *unused_9[1];
    PJRT_Client_Create *PJRT_Client_Create;
    PJRT_Client_Destroy *PJRT_Client_Destroy;
    PJRT_Client_PlatformName *PJRT_Client_PlatformName;
    PJRT_Unused_Function *unused_13[1];
    PJRT_Client_PlatformVersion *PJRT_Client_PlatformVersion;
    PJRT_Unused_Function *unused_15[1];
    PJRT_Client_AddressableDevices *PJRT_Client_AddressableDevices;
    PJRT_Unused_Function *unused_17[3];
    PJRT_Client_Compile *PJRT_Client_Compile;
    PJRT_Unused_Function *unused_21[1];
    PJRT_Client_BufferFromHostBuffer *PJRT_Client_BufferFromHostBuffer;
    PJRT_DeviceDescription_Id *PJRT_DeviceDescription_Id;
    PJRT_Unused_Function *unused_24[1];
    PJRT_DeviceDescription_Attributes *PJRT_DeviceDescription_Attributes;
    PJRT_DeviceDescription_Kind *PJRT_DeviceDescription_Kind;
    PJRT_DeviceDescription_DebugString *PJRT_DeviceDescription_DebugString;
    PJRT_Unused_Function *unused_28[1];
    PJRT_Device_GetDescription *PJRT_Device_GetDescription;
    PJRT_Unused_Function *unused_30[10];
    PJRT_Executable_Destroy *PJRT_Executable_Destroy;
    PJRT_Unused_Function *unused_41[3];
    PJRT_Executable_NumOutputs *PJRT_Executable_NumOutputs;
    PJRT_Unused_Function *unused_45[4];
    PJRT_Executable_Serialize *PJRT_Executable_Serialize;
    PJRT_LoadedExecutable_Destroy *PJRT_LoadedExecutable_Destroy;
    PJRT_LoadedExecutable_GetExecutable *PJRT_LoadedExecutable_GetExecutable;
    PJRT_Unused_Function *unused_52[3];
    PJRT_LoadedExecutable_Execute *PJRT_LoadedExecutable_Execute;
    PJRT_Executable_DeserializeAndLoad *PJRT_Executable_DeserializeAndLoad;
    PJRT_Unused_Function *unused_57[1];
    PJRT_Buffer_Destroy *PJRT_Buffer_Destroy;
    PJRT_Unused_Function *unused_59[11];
    PJRT_Buffer_ToHostBuffer *PJRT_Buffer_ToHostBuffer;
    PJRT_Unused_Function *unused_71[2];
    PJRT_Buffer_UnsafePointer *PJRT_Buffer_UnsafePointer;
    PJRT_Unused_Function *unused_74[16];
    PJRT_Executable_OutputElementTypes *PJRT_Executable_OutputElementTypes;
    PJRT_Executable_OutputDimensions *PJRT_Executable_OutputDimensions;
};
PJRT_TRAITS(PJRT_Api, PJRT_Executable_OutputDimensions);

#endif
