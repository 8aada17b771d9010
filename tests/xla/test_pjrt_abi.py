#!/usr/bin/env python3
"""Compares src/xla/pjrt_abi.h with the PJRT header that a plugin package ships.

    test_pjrt_abi.py REPOSITORY PACKAGES

Reads every struct, field and constant out of our header, compiles one program per header that prints their sizes, offsets
and values, and compares the two outputs. PACKAGES is the folder tools/fetch_plugins.py fills.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, PACKAGES = "", ""
HEADER = "xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h"


def rows(text):
    """(label, C expression) of everything our header states about the API."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    out = []
    for name, body in re.findall(r"^struct (PJRT_\w+) \{(.*?)^\};", text, flags=re.S | re.M):
        if name != "PJRT_Api":  # ours ends earlier
            out.append((f"{name}_STRUCT_SIZE", f"{name}_STRUCT_SIZE"))
            out.append((f"sizeof {name}", f"sizeof({name})"))
        for field in re.findall(r"(\w+)(?:\[\d+\]|\)\([^)]*\))?;", body):
            if not field.startswith("unused_"):
                out.append((f"offset {name}.{field}", f"offsetof({name}, {field})"))
                out.append((f"bytes {name}.{field}", f"sizeof((({name} *)0)->{field})"))
    for body in re.findall(r"typedef enum PJRT_\w+ \{(.*?)\}", text, flags=re.S):
        out += [(c, c) for c in re.findall(r"PJRT_\w+", body)]
    return out


def measure(folder, include, list_of_rows):
    source = os.path.join(folder, "rows.c")
    with open(source, "w") as f:
        f.write(f'#include <stdio.h>\n#include "{include}"\nint main(void) {{\n')
        f.writelines(f'    printf("%s %zu\\n", "{label}", (size_t)({c}));\n' for label, c in list_of_rows)
        f.write("}\n")
    program = os.path.join(folder, "rows")
    subprocess.run(["cc", "-std=gnu17", "-w", "-o", program, source], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


class Abi(unittest.TestCase):
    def test_every_size_offset_and_constant(self):
        ours, theirs = os.path.join(REPOSITORY, "src/xla/pjrt_abi.h"), os.path.join(PACKAGES, HEADER)
        with open(ours) as f:
            wanted = rows(f.read())
        self.assertGreater(len(wanted), 350)
        with tempfile.TemporaryDirectory() as folder:
            mine, real = measure(folder, ours, wanted), measure(folder, theirs, wanted)
        self.assertEqual([pair for pair in zip(mine, real) if pair[0] != pair[1]], [])

    def test_major_version(self):
        with open(os.path.join(REPOSITORY, "src/xla/pjrt_abi.h")) as f:
            mine = re.search(r"LS_PJRT_API_MAJOR = (\d+)", f.read()).group(1)
        with open(os.path.join(PACKAGES, HEADER)) as f:
            self.assertEqual(mine, re.search(r"#define PJRT_API_MAJOR (\d+)", f.read()).group(1))


if __name__ == "__main__":
    REPOSITORY, PACKAGES = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=0)
