#!/usr/bin/env python3
"""lockstep pull, list and rm against a hub on this machine (pull_server.py). Standard library only.

    test_pull.py PATH_TO_LOCKSTEP
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import pull_server  # noqa: E402

LOCKSTEP = os.path.abspath(sys.argv.pop(1))


class PullTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cache = os.path.join(self.folder.name, "hub")
        self.log = os.path.join(self.folder.name, "log")
        self.server = subprocess.Popen([sys.executable, os.path.join(HERE, "pull_server.py"), self.log], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())

    def tearDown(self):
        self.server.communicate("")
        self.folder.cleanup()

    def run_lockstep(self, *args, **env):
        plain = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        plain.update(HF_HUB_CACHE=self.cache, HF_ENDPOINT=f"http://127.0.0.1:{self.port}/", **env)
        return subprocess.run([LOCKSTEP, *args], env=plain, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    def pull(self, name, *args, **env):
        return self.run_lockstep("pull", name, *args, **env)

    def snapshot(self, name):
        return os.path.join(self.cache, "models--" + name.replace("/", "--"), "snapshots", pull_server.COMMIT)

    def requests(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read().splitlines()

    def read(self, *path):
        with open(os.path.join(*path), "rb") as f:
            return f.read()

    def test_layout(self):
        r = self.pull("acme/tiny")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout.strip(), self.snapshot("acme/tiny"))
        self.assertEqual(sorted(os.listdir(self.snapshot("acme/tiny"))), ["config.json", "model.safetensors", "tokenizer.json"])
        self.assertEqual(self.read(self.snapshot("acme/tiny"), "model.safetensors"), pull_server.BIG)
        link = os.readlink(os.path.join(self.snapshot("acme/tiny"), "config.json"))
        self.assertEqual(link, "../../blobs/" + pull_server.git_id(pull_server.SMALL["config.json"]))
        ref = self.read(self.cache, "models--acme--tiny", "refs", "main")
        self.assertEqual(ref.decode(), pull_server.COMMIT)
        before = len([x for x in self.requests() if x.startswith("GET")])
        self.assertEqual(self.pull("acme/tiny").returncode, 0)  # again: only the index is fetched
        self.assertEqual(len([x for x in self.requests() if x.startswith("GET")]), before + 1)

    def test_only_pull_loads_libcurl(self):
        with open(os.path.join(self.folder.name, "libcurl.so.4"), "wb") as f:
            f.write(b"no library")
        listed = self.run_lockstep("list", LD_LIBRARY_PATH=self.folder.name)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        pulled = self.pull("acme/tiny", LD_LIBRARY_PATH=self.folder.name)
        self.assertEqual(pulled.returncode, 1, pulled.stderr)
        self.assertIn("downloads need libcurl, which cannot be loaded: ", pulled.stderr)
        self.assertFalse(os.path.exists(self.cache))

    def test_include_in_a_folder(self):
        r = self.pull("acme/tiny", "--include", "onnx/*", "--revision", pull_server.COMMIT)
        self.assertEqual(r.returncode, 0, r.stderr)
        path = os.path.join(self.snapshot("acme/tiny"), "onnx", "model.json")
        self.assertTrue(os.readlink(path).startswith("../../../blobs/"))
        self.assertEqual(self.read(path), b"{}")
        self.assertFalse(os.path.exists(os.path.join(self.cache, "models--acme--tiny", "refs")))

    def test_cut_answers_are_resumed(self):
        r = self.pull("acme/cut")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(self.read(self.snapshot("acme/cut"), "model.safetensors"), pull_server.BIG)
        ranges = [x.split()[2] for x in self.requests() if x.startswith("GET /cdn/")]
        self.assertEqual(ranges, ["-", "bytes=90000-", "bytes=180000-", "bytes=270000-"])

    def partial(self, name, data):
        import hashlib
        blobs = os.path.join(self.cache, "models--" + name.replace("/", "--"), "blobs")
        os.makedirs(blobs)
        with open(os.path.join(blobs, hashlib.sha256(pull_server.BIG).hexdigest() + ".incomplete"), "wb") as f:
            f.write(data)
        return blobs

    def test_earlier_download_is_resumed(self):
        blobs = self.partial("acme/tiny", pull_server.BIG[:123_456])
        r = self.pull("acme/tiny")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("bytes=123456-", "\n".join(self.requests()))
        self.assertEqual(self.read(self.snapshot("acme/tiny"), "model.safetensors"), pull_server.BIG)
        self.assertFalse([f for f in os.listdir(blobs) if f.endswith(".incomplete")])

    def test_server_without_ranges(self):
        self.partial("acme/norange", pull_server.BIG[:1000])
        self.assertEqual(self.pull("acme/norange").returncode, 0)
        self.assertEqual(self.read(self.snapshot("acme/norange"), "model.safetensors"), pull_server.BIG)

    def test_wrong_bytes_are_refused(self):
        r = self.pull("acme/bad")
        self.assertEqual(r.returncode, 1)
        self.assertIn("DATA_LOSS: model.safetensors: the hash of the downloaded bytes is", r.stderr)
        self.assertFalse(os.path.lexists(os.path.join(self.snapshot("acme/bad"), "model.safetensors")))
        blobs = os.path.join(self.cache, "models--acme--bad", "blobs")
        self.assertFalse([f for f in os.listdir(blobs) if f.endswith(".incomplete")])

    def test_damaged_partial_is_refused_then_repaired(self):
        self.partial("acme/tiny", b"x" * 1000)
        self.assertEqual(self.pull("acme/tiny").returncode, 1)
        self.assertEqual(self.pull("acme/tiny").returncode, 0)

    def test_token_goes_to_the_hub_only(self):
        r = self.pull("acme/gated")
        self.assertEqual(r.returncode, 1)
        self.assertIn("HF_TOKEN", r.stderr)
        self.assertEqual(self.pull("acme/gated", HF_TOKEN="secret").returncode, 0)
        cdn = [x for x in self.requests() if "/cdn/" in x]
        self.assertTrue(cdn)
        self.assertTrue(all(x.endswith(" -") for x in cdn), cdn)

    def test_refusals(self):
        for name, part in (("acme/none", "404"), ("acme/escape", "is refused"), ("nonsense", "no model name"), ("a/../b", "no model name"),
                           ("acme/ggufs", "--include")):
            r = self.pull(name)
            self.assertEqual(r.returncode, 1, name)
            self.assertIn(part, r.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "evil.json")))
        self.assertEqual(self.pull("acme/ggufs", "--include", "*Q4.gguf").returncode, 0)
        self.assertEqual(self.run_lockstep("pull").returncode, 2)

    def test_list_and_rm(self):
        self.assertIn("no models", self.run_lockstep("list").stderr)
        self.pull("acme/tiny")
        r = self.run_lockstep("list", "--json")
        self.assertIn('"name": "acme/tiny"', r.stdout)
        self.assertIn(pull_server.COMMIT, r.stdout)
        self.assertEqual(self.run_lockstep("rm", "acme/tiny").returncode, 2)  # asks, and nobody is there
        self.assertTrue(os.path.exists(self.snapshot("acme/tiny")))
        self.assertEqual(self.run_lockstep("rm", "acme/tiny", "--yes").returncode, 0)
        self.assertFalse(os.path.exists(os.path.join(self.cache, "models--acme--tiny")))
        self.assertEqual(self.run_lockstep("rm", "acme/tiny", "--yes").returncode, 1)
        self.assertEqual(self.run_lockstep("rm", "../acme", "--yes").returncode, 1)


if __name__ == "__main__":
    unittest.main()
