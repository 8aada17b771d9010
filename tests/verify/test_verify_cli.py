#!/usr/bin/env python3
"""`lockstep verify` as a user runs it: exit codes, text, JSON, HTML, recorded tensors and broken ones, the PJRT CPU plugin.

    test_verify_cli.py PATH_TO_LOCKSTEP FIXTURES PLUGINS      standard library only; PLUGINS "" on machines without them
"""
import html.parser
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP, FIXTURES = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
PLUGINS = sys.argv.pop(1)
MODELS = os.path.join(FIXTURES, "models")
LLAMA = os.path.join(MODELS, "llama")
SHAPES = os.path.join(FIXTURES, "vision", "gemma3_shapes")
RECORDED = os.path.join(LLAMA, "reference.safetensors")
IDS = ["--ids", "1,2,3,4,5,6,7"]
EQUAL, DIVERGED, NOT_COMPARED = 0, 1, 2


def run(*args, **kwargs):
    kwargs.setdefault("env", dict(os.environ, LOCKSTEP_PYTHON_ENV=PLUGINS))
    return subprocess.run([LOCKSTEP, "verify", *args], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, **kwargs)


def read_tensors(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items() if k != "__metadata__"}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Page(html.parser.HTMLParser):
    """Counts tags, and refuses a page whose tags do not nest or that refers to anything outside itself."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.titles, self.text = [], {}, [], ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        assert not {"src", "href"} & {k for k, _ in attrs}, attrs
        self.titles += [v for k, v in attrs if k == "title"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag, tag

    def handle_startendtag(self, tag, attrs):
        assert tag in self.VOID, tag

    def handle_data(self, data):
        self.text += data


class VerifyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, result, code, part=""):
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertIn(part, result.stderr + result.stdout)
        return result.stdout

    # ---- Results ---------------------------------------------------------------------------------------------------

    def test_equal(self):
        text = self.check(run(LLAMA, "--right", "reference", *IDS, "-n", "4", "--chunk", "3"), EQUAL, "EQUAL")
        self.assertIn("nodes: 49 of 49 compared over 7 prompt and 4 decoded tokens (7 passes), 0 diverged", text)
        self.assertIn("rule   equality of bits", text)

    def test_fault_at_a_node_in_every_mode(self):
        for mode in ([], ["--same-input"], ["--bisect"]):
            text = self.check(run(LLAMA, "--right", "reference", *IDS, "--negative", "node:model.layers.1.mlp.act@21", *mode), DIVERGED)
            self.assertIn("DIVERGED first at model.layers.1.mlp.act (glu, node 29 of 49)", text)
            self.assertIn("1 of 672 values fail", text)
            self.assertRegex(text, r"flat index \d+ = \[6, \d+\], token position 6")

    def test_pictures(self):
        model = os.path.join(os.path.dirname(MODELS), "vision", "gemma3_random")
        args = [model, "--right", "reference", "--image", os.path.join(model, "two_0.png"), "--image", os.path.join(model, "two_1.png"), "-p", "What is it?"]
        text = self.check(run(*args), EQUAL, "processor.pixel_values: 2 images")
        self.assertEqual(text.count("EQUAL in all that was compared"), 2)
        report = json.loads(self.check(run(*args, "--negative", "swapped-images", "--json"), DIVERGED))
        self.assertEqual((report["schema"], report["equal"], report["vision"]["result"]), ("lockstep-verify-image-v1", False, "equal"))
        self.check(run(*args, "--negative", "post-layernorm-missing"), DIVERGED, "not compared: an earlier stage diverged")
        self.check(run(LLAMA, "--right", "reference", "--image", "x.png", "-p", "a"), NOT_COMPARED, "--image is refused")
        self.check(run(*args, "--ids", "1,2"), NOT_COMPARED, "--image takes a text")

    def test_rows_of_pictures_in_a_file(self):
        """transformers' rows of a picture, and its table's rows for text: within the tower's bound, a changed one is not."""
        golden, model = (read_tensors(os.path.join(SHAPES, name + ".safetensors")) for name in ("golden", "model"))
        ids, types = (struct.unpack(f"<{len(golden[k][2]) // 4}i", golden[k][2]) for k in ("describe.input_ids", "describe.token_type_ids"))
        table = next(v for k, v in model.items() if k.endswith("embed_tokens.weight"))
        cols = table[1][1]
        images = iter(struct.unpack(f"<{len(golden['describe.projected'][2]) // 4}f", golden["describe.projected"][2]))
        scale = struct.unpack("<f", struct.pack("<f", cols ** 0.5))[0]
        rows = []
        for token, is_image in zip(ids, types):
            half = struct.unpack(f"<{cols}H", table[2][token * cols * 2:(token + 1) * cols * 2])
            rows += [next(images) if is_image else struct.unpack("<f", struct.pack("<I", h << 16))[0] * scale for h in half]
        asked = [SHAPES, "--image", os.path.join(SHAPES, "heldout", "05.png"), "-p", "Describe the picture.", "--contract", "float", "--left", "reference"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.safetensors")
            for change, code in ((0, EQUAL), (1, DIVERGED)):
                rows[types.index(1) * cols] += change
                write_tensors(path, {"prompt_ids": ("I32", [len(ids)], struct.pack(f"<{len(ids)}i", *ids)),
                                     "language_model.model.embed_tokens": ("F32", [len(ids), cols], struct.pack(f"<{len(rows)}f", *rows))})
                for mode in ([], ["--same-input"]):
                    result = run(*asked, "--right", path, *mode)
                    self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                    self.assertIn("nodes: 1 of 80 compared", result.stdout)

    def test_negative_controls(self):
        for name in ("mask-multiplied", "prescale-missing", "rope-off-by-one", "identity-permutation", "swapped-rows"):
            self.check(run(LLAMA, "--right", "reference", *IDS, "--negative", name), DIVERGED, f"fault  {name}")
        self.check(run(os.path.join(MODELS, "gemma2"), "--right", "reference", *IDS, "--negative", "embedding-scaled-twice"), DIVERGED, "DIVERGED first at model.embed_tokens")
        self.check(run(LLAMA, "--right", "reference", *IDS, "--negative", "causal-mask"), NOT_COMPARED, "causal-mask does not apply")
        self.assertIn("rope-off-by-one", self.check(run("--negative", "help"), EQUAL))

    def test_negative_controls_that_change_nothing(self):
        """One token, equal tokens, one row a pass: some faults have nothing to change there, and no comparison can report them."""
        for tokens, names in ((["--ids", "1"], ("mask-multiplied", "prescale-missing", "swapped-rows")), (["--ids", "5,5,5"], ("swapped-rows",)),
                              (["--ids", "1,2,3", "--chunk", "1"], ("mask-multiplied", "swapped-rows"))):
            for name in names:
                self.check(run(LLAMA, "--right", "reference", *tokens, "--negative", name), NOT_COMPARED, f"{name} changes no value on these tokens")
        for mode in (["--same-input"], ["--bisect"], ["--contract", "float", "--left", "reference:f64"]):
            self.check(run(LLAMA, "--right", "reference", "--ids", "1", "--negative", "swapped-rows", *mode), NOT_COMPARED, "swapped-rows changes no value")
        for name in ("rope-off-by-one", "identity-permutation", "node:lm_head"):
            self.check(run(LLAMA, "--right", "reference", "--ids", "1", "--negative", name), DIVERGED, f"fault  {name}")

    def test_other_contract_and_level(self):
        self.check(run(LLAMA, "--right", "native,contract=exact24", *IDS), EQUAL, "bounds for 16-bit activations")
        self.check(run(LLAMA, "--right", "native,contract=exact24", *IDS), EQUAL, "EQUAL within the bounds in all that was compared")
        self.check(run(LLAMA, "--right", "native,contract=exact24", *IDS, "--atol", "1e-6"), DIVERGED, "bound 1e-06 + 0 * |reference|")
        text = self.check(run(LLAMA, "--right", "native,level=c,threads=3", *IDS, "--threads", "2"), EQUAL, "level c, threads 3,")
        self.assertRegex(text, r"left +native exact16 \(contract version 1, lockstep \d.*, compiler \w+ [\d.]+, level \w+, threads 2, ")
        self.assertRegex(text, r"right +native .*, compiler \w+ [\d.]+, level c, ")
        self.check(run(LLAMA, "--right", "reference", *IDS, "--level", "c"), EQUAL, "level c,")

    OPERATORS = {"llama": {"embed", "rms_norm", "linear", "rope", "attention", "add", "glu", "select_rows"}, "gemma2": {"softcap"}, "cohere": {"layer_norm", "scale"},
                 "olmoe": {"clamp", "moe"}, "phi3": {"slice"}, "qwen2_moe": {"activation", "mul"}}

    def fault_in_every_operator(self, *sides):
        """The lowest bit of one value, in one node of each of the 16 operators, is named at exactly that node."""
        seen = set()
        for family, operators in self.OPERATORS.items():
            model = os.path.join(MODELS, family)
            nodes = json.loads(self.check(run(model, *sides, *IDS, "--json"), EQUAL))["nodes"]
            last = {n["operator"]: n["node"] for n in nodes}
            for operator in operators:
                self.check(run(model, *sides, *IDS, "--negative", f"node:{last[operator]}"), DIVERGED, f"DIVERGED first at {last[operator]} ({operator}, ")
                seen.add(operator)
        self.assertEqual(len(seen), 16)

    def test_fault_in_every_operator(self):
        self.fault_in_every_operator("--left", "reference", "--right", "native")
        self.fault_in_every_operator("--left", "native", "--right", "reference")

    @unittest.skipUnless(PLUGINS, "no PJRT CPU plugin exists for this architecture")
    def test_fault_in_every_operator_on_pjrt(self):
        self.fault_in_every_operator("--left", "native", "--right", "xla:pjrt")

    # ---- JSON and HTML ---------------------------------------------------------------------------------------------

    FIELDS = {"schema", "result", "mode", "negative", "model", "architecture", "weight_schema_sha256", "left", "right", "reference_side", "rule", "prompt_tokens", "decoded_tokens",
              "chunk", "passes", "runs", "most_observed", "nodes_total", "nodes_compared", "nodes_diverged", "nodes_absent", "unknown_tensors", "comparison", "first_divergence",
              "tokens_differ", "nodes", "tokens"}

    def test_json(self):
        o = json.loads(self.check(run(LLAMA, "--right", "reference", *IDS, "-n", "2", "--json", "--negative", "node:lm_head"), DIVERGED))
        self.assertEqual(set(o), self.FIELDS)
        self.assertEqual((o["schema"], o["result"], o["mode"], o["negative"]), ("lockstep-verify-v1", "diverged", "plain", "node:lm_head"))
        first = o["first_divergence"]
        self.assertEqual((first["node"], first["operator"], first["index"], first["pass"], first["position"], first["ulp"]), ("lm_head", "linear", 48, 0, 6, 1))
        self.assertEqual(first["flat_index"], first["coordinate"][0] * 256 + first["coordinate"][1])
        for side in ("left", "right"):
            bits = struct.unpack("<I", struct.pack("<f", first[side + "_value"]))[0]
            self.assertEqual(first[side + "_bits"], f"0x{bits:08x}")
            self.assertRegex(o[side]["fingerprint"], "^[0-9a-f]{64}$")
        self.assertAlmostEqual(first["absolute_error"], abs(first["left_value"] - first["right_value"]), places=12)
        self.assertEqual(len(o["nodes"]), 49)
        self.assertEqual([n["node"] for n in o["nodes"] if n["diverged"]], ["lm_head"])
        self.assertEqual(o["comparison"]["failures"], 1)
        self.assertEqual(len(o["tokens"]), 9)
        self.assertEqual([t["decoded"] for t in o["tokens"]], [False] * 7 + [True] * 2)
        self.assertEqual(o["tokens"][7]["id"], o["tokens"][6]["left_top"])
        equal = json.loads(self.check(run(LLAMA, "--right", "reference", *IDS, "--json", "--bisect"), EQUAL))
        self.assertEqual(set(equal), self.FIELDS)
        self.assertIsNone(equal["first_divergence"])
        self.assertEqual((equal["mode"], equal["nodes_compared"], equal["most_observed"]), ("bisect", 8, 8))

    def page(self, code, *args):
        path = self.path("report.html")
        self.check(run(*args, "--html", path), code)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertNotRegex(text, r"<script|https?://|@import|url\(")
        return Page(text)

    def test_html(self):
        page = self.page(DIVERGED, LLAMA, "--right", "reference", *IDS, "-n", "2", "--negative", "rope-off-by-one")
        for part in ("Diverged", "Difference by layer and operator", "Tokens", "Identity", "rope-off-by-one", "reference", "self_attn.q_rope"):
            self.assertIn(part, page.text)
        self.assertEqual(len(page.titles), 49)
        self.assertIn("model.layers.2.mlp.act\nglu\n", "\n".join(page.titles))
        page = self.page(EQUAL, os.path.join(MODELS, "qwen2_moe"), "--right", "reference", *IDS, "--bisect")
        self.assertIn("Equal", page.text)
        self.assertIn("not compared", page.text)
        self.check(run(LLAMA, "--right", "reference", *IDS, "--html", self.path("absent/report.html")), NOT_COMPARED, "No such file or directory")

    def test_html_on_a_full_disk(self):
        """No empty file, and an earlier report stays. What takes the page from its writer is a limit on the size of files."""
        def full_disk():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        command = [LLAMA, "--right", "reference", *IDS, "--html", self.path("report.html")]
        self.check(run(*command, restore_signals=False, preexec_fn=full_disk), NOT_COMPARED, "is the disk full?")
        self.assertEqual(os.listdir(self.folder), [])
        page = self.page(EQUAL, *command[:-2])
        self.check(run(*command, restore_signals=False, preexec_fn=full_disk), NOT_COMPARED, "is the disk full?")
        self.assertEqual(os.listdir(self.folder), ["report.html"])
        self.assertEqual(self.page(EQUAL, *command[:-2]).text, page.text)
        self.check(run(*command[:-1], "/dev/null"), EQUAL)
        self.check(run(LLAMA, "--right", "reference", *IDS, "--html", os.path.dirname(LLAMA)), NOT_COMPARED, "Is a directory")

    def test_html_escapes_names(self):
        odd = self.path("a<b>&\"c\".safetensors")
        os.link(RECORDED, odd) if os.stat(self.folder).st_dev == os.stat(RECORDED).st_dev else write_tensors(odd, read_tensors(RECORDED))
        page = self.page(EQUAL, LLAMA, "--contract", "exact24", "--right", odd)
        self.assertIn('a<b>&"c".safetensors', page.text)

    # ---- Recorded tensors --------------------------------------------------------------------------------------------

    def test_recorded_tensors(self):
        for name in ("llama", "gemma2"):
            model = os.path.join(MODELS, name)
            for args in (["--contract", "float", "--left", "reference"], ["--contract", "exact24"], []):
                for mode in ([], ["--same-input"], ["--bisect"]):
                    text = self.check(run(model, "--right", os.path.join(model, "reference.safetensors"), *args, *mode), EQUAL)
                    self.assertIn("4 prompt and 1 decoded tokens", text)
        self.check(run(LLAMA, "--left", RECORDED, "--right", "native,contract=exact24", "--negative", "rope-off-by-one"), DIVERGED, "model.layers.0.self_attn.q_rope")
        golden = os.path.join(LLAMA, "golden.safetensors")  # "logits" alone, and one tensor that is no node
        text = self.check(run(LLAMA, "--contract", "exact24", "--right", golden), EQUAL, "not in the file, so not compared: 48 nodes")
        self.assertIn("1 of 49 compared over 20 prompt", text)
        self.assertIn("the file has 1 tensors that are no nodes", text)

    def test_pixels(self):
        tower = os.path.join(os.path.dirname(MODELS), "vision", "tower")
        golden = os.path.join(tower, "golden.safetensors")
        pixels = [tower, "--contract", "exact24", "--pixels", golden]
        self.check(run(*pixels, "--right", golden), EQUAL, "nodes: 2 of 31 compared over 2 images (2 passes), 0 diverged")
        o = json.loads(self.check(run(*pixels, "--right", "native,level=c", "--json"), EQUAL))
        self.assertEqual((o["images"], o["prompt_tokens"], o["nodes_compared"], o["tokens"]), (2, 0, 31, []))
        self.check(run(*pixels, "--right", golden, "--left", "native,contract=exact16"), EQUAL, "16-bit activations")
        self.check(run(*pixels, "--right", "native,level=c", "--negative", "causal-mask", "--bisect"), DIVERGED, "encoder.layers.0.self_attn.attention")
        self.check(run(*pixels, "--right", "native", "-p", "text"), NOT_COMPARED, "leave out -p and --ids")
        self.check(run(LLAMA, "--pixels", golden, "--right", "native"), NOT_COMPARED, "the model does not see")
        self.check(run(tower, "--pixels", os.path.join(tower, "model.safetensors"), "--right", "native"), NOT_COMPARED, "pixel_values")

    def test_a_changed_value_is_found(self):
        tensors = read_tensors(RECORDED)
        dtype, shape, values = tensors["model.layers.1.self_attn.v_proj"]
        values = bytearray(values)
        at = 4 * (2 * shape[1] + 5)
        values[at:at + 4] = struct.pack("<f", 9)
        tensors["model.layers.1.self_attn.v_proj"] = dtype, shape, bytes(values)
        write_tensors(self.path("r.safetensors"), tensors)
        for mode in ([], ["--same-input"], ["--bisect", "--probes", "64"]):
            text = self.check(run(LLAMA, "--contract", "exact24", "--right", self.path("r.safetensors"), *mode), DIVERGED, "DIVERGED first at model.layers.1.self_attn.v_proj")
            self.assertIn(f"flat index {2 * shape[1] + 5} = [2, 5], token position 2", text)
            self.assertIn("right 9 ", text)

    def test_unusable_recorded_tensors(self):
        good, path = read_tensors(RECORDED), self.path("r.safetensors")
        name = "model.layers.0.mlp.act"

        def refused(part, *args, **changes):
            write_tensors(path, {**{k: v for k, v in good.items() if k not in changes}, **{k: v for k, v in changes.items() if v}})
            self.check(run(LLAMA, "--right", path, *args), NOT_COMPARED, part)

        refused("must be F32, F16 or BF16", **{name: ("I32", good[name][1], good[name][2])})
        refused("the last of 48; the node is [tokens, 96]", **{name: ("F32", [10, 48], good[name][2])})
        refused("has 1 dimensions", **{name: ("F32", [480], good[name][2])})
        refused("has 3 rows; prompt and decoded tokens need 5", "-n", "1", **{name: ("F32", [3, 96], good[name][2][:3 * 96 * 4])})
        refused("has no prompt_ids", prompt_ids=None)
        refused("must be I32 or I64", prompt_ids=("F32", [4], bytes(16)))
        refused("token 9999 at index 1", prompt_ids=("I32", [4], struct.pack("<4i", 1, 9999, 2, 3)))
        refused("token -1 at index 0", prompt_ids=("I64", [1], struct.pack("<q", -1)))
        refused("the prompt differs from the prompt_ids", "--ids", "1,2,3")
        refused("3 tokens after the prompt", "-n", "3")
        write_tensors(path, {k: v for k, v in good.items() if k.endswith("_ids")})
        self.check(run(LLAMA, "--right", path), NOT_COMPARED, "no tensor named like a node")
        write_tensors(path, {k: v for k, v in good.items() if k != name})
        self.check(run(LLAMA, "--contract", "exact24", "--right", path), EQUAL, f"not compared: 1 nodes\n  {name}")
        self.check(run(LLAMA, "--right", self.path("none.safetensors")), NOT_COMPARED, "none.safetensors")

    def test_malformed_files(self):
        with open(RECORDED, "rb") as f:
            data = f.read()
        for broken in (b"", data[:7], data[:200], data[:-1], data + b"x", b"\xff" * 64, struct.pack("<Q", 2) + b"{}", data[:8] + b"[" + data[9:]):
            with open(self.path("r.safetensors"), "wb") as f:
                f.write(broken)
            result = run(LLAMA, "--right", self.path("r.safetensors"))
            self.assertEqual(result.returncode, NOT_COMPARED, result.stderr)
            self.assertRegex(result.stderr, r"lockstep: [A-Z_]+: .*")

    # ---- Usage and progress --------------------------------------------------------------------------------------------

    def test_usage(self):
        for args, part in (([LLAMA], "--right"), ([LLAMA, "--right", "gpu"], "is unknown; use native"), (["--right", "reference"], "give one model"),
                           ([LLAMA, "--right", "reference", "--probes", "1"], "2 to 256"),
                           ([LLAMA, "--right", "reference", *IDS, "--probes", "4"], "are of bisection"),
                           ([LLAMA, "--right", "reference", *IDS, "--allow-unqualified"], "--allow-unqualified is no option here"), ([LLAMA, "--right", "reference", "--backend", "native"], "--left and --right"),
                           ([LLAMA, "--right", "reference", "--atol", "x"], "give a number"), ([LLAMA, "--right", "reference", "--nonsense"], "--help"),
                           ([LLAMA, "--right", "reference", *IDS, "--atol", "0.1"], "takes no tolerance"), ([LLAMA, "--right", "reference", "-p", "x"], "no tokenizer"),
                           ([LLAMA, "--right", "reference", *IDS, "--bisect", "--same-input"], "choose one"), (["/nonexistent", "--right", "reference"], "NOT_FOUND"),
                           ([LLAMA, "--right", "xla:pjrt,modules=some", *IDS], "modules=fused|nodes"), ([LLAMA, "--right", "xla:pjrt,target=gfx942", *IDS], "is for xla:iree"),
                           ([LLAMA, "--right", "native", "--contract", "float", *IDS], "right side")):
            self.check(run(*args), NOT_COMPARED, part if part != "right side" else "side \"native\"")
        text = self.check(run("--help"), EQUAL)
        self.assertEqual(len(re.findall("^Example: ", text, re.M)), 3)

    def test_stage_lines(self):
        result = run(LLAMA, "--right", "reference", *IDS)
        self.assertEqual(result.stderr.splitlines(), ["opening left native", "opening right reference", "comparing"])
        self.assertEqual(run(LLAMA, "--right", "reference", *IDS, "--quiet").stderr, "")

    def test_live_line_on_a_terminal(self):
        main, side = pty.openpty()
        p = subprocess.Popen([LOCKSTEP, "verify", LLAMA, "--right", "reference", *IDS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side)
        out, _ = p.communicate(timeout=600)
        os.close(side)
        seen = b""
        try:
            while chunk := os.read(main, 65536):
                seen += chunk
        except OSError:  # the terminal's end
            pass
        os.close(main)
        self.assertEqual(p.returncode, EQUAL)
        self.assertIn(b"EQUAL", out)
        self.assertIn(b"comparing 0/49", seen)
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen[-80:])

    @unittest.skipUnless(os.environ.get("LS_SMOLLM2_GGUF"), "needs the downloaded model, which `make test` fetches")
    def test_heartbeat(self):
        ids = ",".join(str(i) for i in range(100, 200))  # many seconds of the reference executor
        result = run(os.environ["LS_SMOLLM2_GGUF"], "--right", "reference", "--ids", ids, "--heartbeat", "1", "--quiet")
        self.check(result, EQUAL, "454 of 454 compared over 100 prompt")
        self.assertRegex(result.stderr, r"\Aheartbeat: (opening (left|right)|comparing) \S*, \d+ of \d+, [1-9]\d* s in this stage\n")

    # ---- XLA -----------------------------------------------------------------------------------------------------------

    def test_pjrt(self):
        if not PLUGINS:  # no plugin exists for this architecture: the refusal says what is missing
            self.check(run(LLAMA, "--right", "xla:pjrt", *IDS), NOT_COMPARED, "xla:pjrt")
            return
        text = self.check(run(LLAMA, "--right", "xla:pjrt", *IDS, "-n", "2"), EQUAL, "49 of 49 compared over 7 prompt and 2 decoded")
        self.assertIn("fused modules", text)
        self.assertIn("tf32=off", text)
        self.check(run(LLAMA, "--right", "xla:pjrt", *IDS, "--same-input"), EQUAL, "single-node modules")
        fault = ["--negative", "node:model.layers.1.self_attn.attention@21"]
        for mode in ([], ["--same-input"], ["--bisect"]):
            self.check(run(LLAMA, "--right", "xla:pjrt", *IDS, *fault, *mode), DIVERGED, "DIVERGED first at model.layers.1.self_attn.attention")
        self.check(run(LLAMA, "--left", "reference", "--right", "xla:pjrt", "--contract", "float", *IDS, "--same-input"), EQUAL, "bounds of single f32 operators")
        self.check(run(LLAMA, "--right", "xla:pjrt,modules=fused", *IDS, "--same-input"), NOT_COMPARED, "modules=fused shows values but takes none")
        self.check(run(LLAMA, "--right", "xla:pjrt,plugin=/nonexistent.so", *IDS), NOT_COMPARED, "nonexistent.so")
        for flags, part in (("--no_such_flag", "Unknown flag in XLA_FLAGS: --no_such_flag"), ("/nonexistent/flags", 'Could not open file "/nonexistent/flags"'),
                            ("--xla_cpu_enable_fast_math=maybe", "Flag parsing failed")):
            result = run(LLAMA, "--right", "xla:pjrt", *IDS, env={**os.environ, "LOCKSTEP_PYTHON_ENV": PLUGINS, "XLA_FLAGS": flags})
            self.check(result, NOT_COMPARED, part)
            self.assertIn(f'with XLA_FLAGS="{flags}", which must be corrected or unset', result.stderr)
        self.check(run(LLAMA, "--right", "xla:pjrt", *IDS, env={**os.environ, "LOCKSTEP_PYTHON_ENV": PLUGINS, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}), EQUAL)


if __name__ == "__main__":
    unittest.main()
