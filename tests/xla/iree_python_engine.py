#!/usr/bin/env python3
"""Runs IREE modules for iree_python_engine.c: a server on standard input and output that holds tensors and loaded modules,
over the Python module of the iree-base-runtime wheel.

    iree_python_engine.py DEVICE

A request is a line of words, followed by raw bytes where one of the words counts them; an answer is "ok" or
"error BYTES" with that many bytes of text. The caller chooses the numbers of tensors and modules.

    upload TENSOR TYPE RANK DIM... BYTES  <bytes>     module MODULE BYTES  <bytes>
    run MODULE N ARGUMENT... N RESULT...              read TENSOR BYTES    answered by "ok" and the bytes
    free TENSOR                                       unload MODULE
"""
import sys

import numpy as np
from iree import runtime as rt

# As in ls_dtype_name: a type of the same width to carry the bytes, and IREE's element type.
TYPES = {
    "f32": (np.uint32, rt.HalElementType.FLOAT_32),
    "f16": (np.uint16, rt.HalElementType.FLOAT_16),
    "bf16": (np.uint16, rt.HalElementType.BFLOAT_16),
    "f64": (np.uint64, rt.HalElementType.FLOAT_64),
    "i1": (np.uint8, rt.HalElementType.BOOL_8),
    "i8": (np.uint8, rt.HalElementType.INT_8),
    "i16": (np.uint16, rt.HalElementType.INT_16),
    "i32": (np.uint32, rt.HalElementType.INT_32),
    "i64": (np.uint64, rt.HalElementType.INT_64),
    "ui8": (np.uint8, rt.HalElementType.UINT_8),
    "ui32": (np.uint32, rt.HalElementType.UINT_32),
}


class Server:
    def __init__(self, device):
        self.input, self.output = sys.stdin.buffer, sys.stdout.buffer
        self.config = rt.Config(device)
        self.tensors, self.modules = {}, {}

    def take(self, count):
        data = self.input.read(int(count))
        if len(data) != int(count):
            sys.exit(f"the caller stopped in the middle of {count} bytes")
        return data

    def upload(self, tensor, dtype, rank, *rest):
        shape, data = [int(d) for d in rest[: int(rank)]], self.take(rest[int(rank)])
        carrier, element = TYPES[dtype]
        array = np.frombuffer(data, dtype=carrier).reshape(shape)
        device = self.config.device
        self.tensors[tensor] = device.allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
            device=device,
            buffer=array,
            element_type=element,
        )

    def module(self, module, count):
        instance = self.config.vm_instance
        code = rt.VmModule.copy_buffer(instance, self.take(count))
        context = rt.VmContext(instance, [rt.create_hal_module(instance, self.config.device), code])
        self.modules[module] = (context, code.lookup_function("main"))

    def run(self, module, *names):
        context, function = self.modules[module]
        n = int(names[0])
        arguments, results = names[1 : n + 1], names[n + 2 :]
        inputs, outputs = rt.VmVariantList(n), rt.VmVariantList(len(results))
        for name in arguments:
            inputs.push_ref(self.tensors[name])
        context.invoke(function, inputs, outputs)
        if outputs.size != len(results):
            raise ValueError(f"the module has {outputs.size} results, but {len(results)} were asked for")
        for i, name in enumerate(results):
            self.tensors[name] = outputs.get_as_object(i, rt.HalBufferView)

    def read(self, tensor, count):
        view = self.tensors[tensor]
        if view.byte_length != int(count):
            raise ValueError(f"the tensor has {view.byte_length} bytes, but {count} were asked for")
        return view.map().asarray([int(count)], np.dtype(np.uint8)).tobytes() if view.byte_length else b""

    def free(self, tensor):
        del self.tensors[tensor]

    def unload(self, module):
        del self.modules[module]

    def serve(self):
        for line in self.input:
            command, *words = line.decode().split()
            try:
                answer = getattr(self, command)(*words) or b""
                self.output.write(b"ok\n" + answer)
            except Exception as error:  # whatever IREE raises is the caller's to report
                text = f"{type(error).__name__}: {error}".encode()
                self.output.write(b"error %d\n%s" % (len(text), text))
            self.output.flush()


if __name__ == "__main__":
    Server(sys.argv[1]).serve()
