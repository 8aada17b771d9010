"""Same-input control under the float contract: every node of every fixture, given the reference's inputs, stays within its
bound on a PJRT plugin (docs/verify.md states the bounds).

    test_float_control.py LOCKSTEP FIXTURES PLUGIN
"""
import os
import subprocess
import sys
import unittest

LOCKSTEP, FIXTURES, PLUGIN = sys.argv[1:4]


class FloatControl(unittest.TestCase):
    def check(self, name):
        result = subprocess.run([LOCKSTEP, "verify", os.path.join(FIXTURES, name), "--contract", "float", "--left", "reference", "--right",
                                 f"xla:pjrt,plugin={PLUGIN}", "--same-input", "--ids", "10,56,25,3,88,72,0,53", "--quiet"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


def add(name):
    setattr(FloatControl, f"test_{name}", lambda self: self.check(name))


for fixture in sorted(os.listdir(FIXTURES)):
    if os.path.exists(os.path.join(FIXTURES, fixture, "config.json")):
        add(fixture)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
