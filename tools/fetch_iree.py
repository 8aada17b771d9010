#!/usr/bin/env python3
"""Fetches IREE's compiler and its Python runtime for the tests of the IREE engine into .cache/plugins/, beside the PJRT
plugins, with the Python packages that the runtime needs.

    tools/fetch_iree.py

Packages are downloaded by pip for this Python, checked by SHA-256 and unpacked without being installed; a complete package
is left alone, one for another version of Python is replaced. About 115 MB to download, 440 MB unpacked. Needs only Python's
standard library and pip.
"""
import os
import subprocess
import sys
import tempfile
import zipfile

from fetch_models import CACHE, pip, sha256

# name: version, and SHA-256 of the wheels of CPython 3.11 to 3.14 on x86-64 and AArch64
PACKAGES = {
    "iree-base-compiler": (
        "3.13.0",
        """6e1f83dc404f5dcdd76354a869cbbb389bd3f93b4623096de3195799ceb323a7 d09d2ebd8955d3eeeab5677007c3d26830c8585c61a0e0ccdfc020b63c129e6f
        21accf5c9eb352f39bc31fb1deea7701923d4ec65aa4ba7fcbd12e8ae0ce4dbb 230aec9b5d63c49f3f1ba228c35a7ce950075ce7b7780b786c85fa6fb0be3dbb""",
    ),
    "iree-base-runtime": (
        "3.13.0",
        """4ecb03d5a33989d765eaa8bf1fe6199a937c88c1004e56c85714532cd95934fa e342bf407010dd42ee2fb431ab763d97c6ebbcad0762c1e843806db3db31572c
        e09a3505f2c4d00f33518e668b4e9830c1569cad5ffa9f2a3b985b888ff2815a 2a46a517c7dbdaa8701f9ee324dd94089af51a8251f36bd689949ee37e30d1d1""",
    ),
    "numpy": (
        "2.4.6",
        """89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93 90f9849678c75fe7afa2d348ac842c168b0a4d3d61919687216dfc547976d853
        a7830bab239b79cda9c08c2da014761cafb48da6150e1da17ac06283f43b6089 a2c306dea656c12c68f51f4cea133cbe78ca7435eb28c735eac1d3ebe73be6e8
        0ab0a9c4ffb1a6d95ef519fe4247dba8eb6b18ad93999f76b7f657039acabd47 5f9fb9157b4ce2971008323afe46053787b526ef624fea915b261468a8421a0f
        72fbe16c6fac95aedf5937fa873445cec2110be35d8a4e9433d7501fd98dae6b 40fdc1ae7125e518ea98e53e69a4ebc27e1fd50510c47b7ea130cf21e5e1d42b""",
    ),
    "ml-dtypes": (
        "0.6.0",
        """6c8e39b53e90afda8ce52859c93de4dba3e02b76d85dcf091cc469f9184c6dae 3b4a480aa8fd54a1805b8ac10f3f91763926a74f73c0c364c10f9231854f4170
        26b1f1fa4f0435a2946859823f6e2bf06796f1e9f10f5a05b08a5e3c8f46ff69 8f490c003369ce60e514a0c3b12374f05274c101fee1bead6740ec8a564032b0
        7728c0420ec1c338564fc8b01015ff2d58567e70f17fedce5a0a7c0308c0d5b9 37da32aa97749251025666d62372775019594577b9c9e9cfda83bed48d778fdb
        28d676428b104bb9717b0928bc5c5129f2d6b51b6727587cc4289e7bf8713cb5 317be9967fb84b0ce4e80e6b1bf71213d21971621cf6f1e501a63602a95297bf""",
    ),
}
HOME = os.path.join(CACHE, "plugins")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def fetch(name):
    version, hashes = PACKAGES[name]
    # Written last, so it marks a complete package.
    mark = os.path.join(HOME, f".{name}-{version}-python{PYTHON}")
    if os.path.exists(mark):
        return
    os.makedirs(HOME, exist_ok=True)
    print(f"Fetching {name} {version}", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = pip() + ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", folder]
        subprocess.run(command + [f"{name}=={version}"], check=True, stdout=sys.stderr)
        (wheel,) = [os.path.join(folder, f) for f in os.listdir(folder)]
        found = sha256(wheel)
        if found not in hashes.split():
            sys.exit(f"{os.path.basename(wheel)}: SHA-256 {found} is not among the known ones; the download is damaged or this Python ({PYTHON}) is not covered")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(HOME)
            # The compiler runs a linker from its package; archives carry the permission, extraction drops it.
            for member in archive.infolist():
                mode = member.external_attr >> 16 & 0o777
                if mode & 0o111:
                    os.chmod(os.path.join(HOME, member.filename), mode)
    for other in os.listdir(HOME):
        if other.startswith(f".{name}-"):
            os.remove(os.path.join(HOME, other))
    open(mark, "w").close()


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    for name in PACKAGES:
        fetch(name)


if __name__ == "__main__":
    main()
