#!/usr/bin/env python3
"""`lockstep emit -o FILE`: what is published, kept, made anew and refused. Standard library only; needs no compiler or plugin.

    test_emit_cli.py PATH_TO_LOCKSTEP FIXTURES
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP, FIXTURES = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
LLAMA, MLX = (os.path.join(FIXTURES, "models", name) for name in ("llama", "llama_mlx"))
V2, V3 = "lockstep-artifact-v2-numeric-dtype", "lockstep-artifact-v3-operator-numeric"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class EmitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "decode.mlir")
        self.manifest = self.file + ".aux.json"

    def emit(self, *args, model=LLAMA, code=0, part=""):
        r = subprocess.run([LOCKSTEP, "emit", model, "--entry", "decode", *args], capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertIn(part, r.stderr.decode())
        return r.stdout

    def publish(self, *args, **kwargs):
        self.assertEqual(self.emit(*args, "-o", self.file, **kwargs), b"")
        return self.read()

    def read(self):
        with open(self.manifest, "rb") as f:
            return json.load(f)

    def state(self):
        """Identity and bytes of both files; nothing else may lie in the folder."""
        self.assertEqual(sorted(os.listdir(self.folder)), ["decode.mlir", "decode.mlir.aux.json"])
        state = []
        for path in (self.file, self.manifest):
            with open(path, "rb") as f:
                state.append((os.stat(path).st_ino, os.stat(path).st_mtime_ns, f.read()))
        return state

    def put(self, path, data):
        with open(path, "wb") as f:
            f.write(data)

    def test_file_and_manifest(self):
        text = self.emit()
        m = self.publish()
        self.assertEqual(self.state()[0][2], text)
        self.assertEqual((m["schema"], m["entry_sha256"], m["vmfb_sha256"]), (V3, sha256(b"decode"), sha256(text)))
        version = subprocess.run([LOCKSTEP, "--version"], capture_output=True, text=True).stdout.split()[1]
        self.assertEqual(m["generation_sha256"], sha256(f"emitter=lockstep {version};mlir_sha256={sha256(text)}".encode()))
        operators = ["add", "attention", "embed", "glu", "linear", "rms_norm", "rope", "select_rows"]
        records = "".join(f"\0id={o};operator={o};contract=exact16;version=1" for o in operators)
        self.assertEqual(m["operator_numeric_contract_sha256"], sha256(f"lockstep-operator-contract-v1{records}".encode()))

    def test_element_types_under_float(self):
        def expected(weights, operand):
            return sha256(f"mlxcel-xla-numeric-dtype-v1;weights={weights};dot-in={operand};dot-acc=f32;dot-out=f32;reduce=f32;carrier=f32".encode())
        for model, args, weights, operand in ((LLAMA, [], "dense", "f32"), (LLAMA, ["--precision", "bf16"], "dense", "bf16"), (MLX, [], "host-affine-dequantized", "f32"),
                                              (MLX, ["--quant", "packed", "--precision", "f16"], "packed-affine-in-graph", "f16")):
            m = self.publish("--contract", "float", *args, model=model)
            self.assertEqual((m["schema"], m["numeric_dtype_contract_sha256"]), (V2, expected(weights, operand)))
            self.assertNotIn("operator_numeric_contract_sha256", m)

    def test_kept_when_both_verify(self):
        self.publish()
        before = self.state()
        self.publish()
        self.assertEqual(self.state(), before)

    def test_options_are_identity(self):
        seen, config = set(), set()
        for args in ([], ["--capacity", "512"], ["--carrier", "f64"], ["--argmax"], ["--contract", "exact24"], ["--entry", "extend", "--tokens", "8"]):
            m = self.publish(*args)
            self.assertEqual(self.state()[0][2], self.emit(*args))
            seen.add(m["artifact_sha256"])
            config.add(m["config_sha256"])
        self.assertEqual((len(seen), len(config)), (6, 6))

    def test_changed_text_is_made_anew(self):
        manifest = self.publish()
        text = self.state()[0][2]
        for changed in (text[:-1], text.replace(b"multiply", b"subtract", 1), b""):
            self.put(self.file, changed)
            self.assertEqual(self.publish(), manifest)
            self.assertEqual(self.state()[0][2], text)
        os.unlink(self.file)
        self.publish()
        os.unlink(self.manifest)
        self.assertEqual(self.publish(), manifest)
        self.assertEqual(self.state()[0][2], text)

    def test_changed_manifest_is_refused(self):
        m = self.publish()
        text = json.dumps(m)
        other = dict(m, entry_sha256=sha256(b"prefill"))
        for changed, part in ((b"", "Nothing was deleted"), (text[:-1].encode(), "Nothing was deleted"), (json.dumps(other).encode(), "artifact_sha256 does not follow"),
                              (json.dumps(dict(m, more="x")).encode(), 'field "more" is unknown'), (json.dumps(dict(m, vmfb_sha256=None)).encode(), "null"),
                              (json.dumps({k: v for k, v in m.items() if k != "config_sha256"}).encode(), '"config_sha256" is missing'),
                              (text.replace("-v3-operator-numeric", "-v4-later").encode(), "newer program"), (text.replace("lockstep-artifact", "else").encode(), "Nothing was deleted")):
            self.put(self.manifest, changed)
            before = self.state()
            self.emit("-o", self.file, code=1, part=part)
            self.emit("-o", self.file, "--capacity", "512", code=1, part="FAILED_PRECONDITION")
            self.assertEqual(self.state(), before)

    def test_downgrade_is_refused(self):
        self.publish()
        before = self.state()
        self.emit("--contract", "float", "-o", self.file, code=1, part=f'has schema "{V3}", which one of schema "{V2}" must not replace')
        self.assertEqual(self.state(), before)
        os.unlink(self.manifest)  # a text without a manifest is replaced
        self.assertEqual(self.publish("--contract", "float")["schema"], V2)
        self.assertEqual(self.publish()["schema"], V3)  # an older version gives way

    def test_vision(self):
        tower, other = os.path.join(FIXTURES, "vision", "tower"), os.path.join(self.folder, "vision.mlir")
        for contract in ("exact16", "exact24", "float"):
            args = ("--entry", "vision", "--contract", contract)
            text = self.emit(*args, model=tower)
            self.assertIn(b"module @vision", text)
            self.assertIn(b"tensor<324x48xf32>", text)
            self.assertIn(b"-> (tensor<9x32xf32>) {", text)
            self.assertEqual(text, self.emit(*args, model=tower))
        self.emit("--entry", "vision", "-o", other, model=tower)
        self.assertTrue(os.path.exists(other + ".aux.json"))
        self.emit("--entry", "vision", code=1, part='no "vision_config"')
        self.emit("--entry", "vision", "--capacity", "256", model=tower, code=2, part="the model's image decides")

    def test_what_is_no_file(self):
        link = os.path.join(self.folder, "link")
        os.symlink(self.file, link)
        for path in (self.folder, "/dev/null", link):
            self.emit("-o", path, code=1, part="is no regular file")
        self.assertTrue(os.path.islink(link))
        self.emit("-o", os.path.join(self.folder, "absent", "x.mlir"), code=1, part="NOT_FOUND")
        self.assertEqual(os.listdir(self.folder), ["link"])


if __name__ == "__main__":
    unittest.main()
