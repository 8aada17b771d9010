#!/usr/bin/env python3
"""cmake --install, and a program that is compiled with what it has put there. Standard library only.

    test_install.py BUILD_FOLDER COMPILER FIXTURES
"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD, COMPILER, FIXTURES = sys.argv[1:4]
MODEL = os.path.join(FIXTURES, "vision", "gemma3_shapes")
TEXT = "Where are"


def run(*args, **env):
    done = subprocess.run(args, env=dict(os.environ, **env), capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"{args}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):
    def test_program_and_library(self):
        with tempfile.TemporaryDirectory() as home:
            run("cmake", "--install", BUILD, "--prefix", home)
            program, lockstep = os.path.join(home, "complete"), os.path.join(home, "bin", "lockstep")
            flags = run("pkg-config", "--cflags", "--libs", "lockstep", PKG_CONFIG_PATH=os.path.join(home, "lib", "pkgconfig")).split()
            run(COMPILER, "-std=c17", "-Wall", "-Wextra", "-Werror", os.path.join(ROOT, "examples", "complete.c"), *flags, "-o", program)
            wanted = run(lockstep, "generate", MODEL, "-p", TEXT, "-n", "32")
            self.assertIn("picture", wanted)
            self.assertEqual(run(program, MODEL, TEXT), wanted)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
