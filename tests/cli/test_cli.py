#!/usr/bin/env python3
"""The lockstep program as a user runs it: help, exit codes, results on small models. Standard library only.

    test_cli.py PATH_TO_LOCKSTEP FIXTURES

With LS_SMOLLM2_GGUF a real chat model answers too.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

LOCKSTEP, FIXTURES = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
LLAMA = os.path.join(FIXTURES, "models", "llama")
VISION = os.path.join(FIXTURES, "vision", "gemma3_random")
SMOLLM2 = os.environ.get("LS_SMOLLM2_GGUF")
COMMANDS = ["run", "generate", "tokenize", "inspect", "arch", "bench", "verify", "oracle", "qualify", "list", "pull", "rm", "pack"]


def run(*args, **kwargs):
    kwargs.setdefault("timeout", 300)
    if "input" not in kwargs:
        kwargs["stdin"] = subprocess.DEVNULL
    return subprocess.run([LOCKSTEP, *args], capture_output=True, text=True, **kwargs)


def in_terminal(lines, *args, **kwargs):
    """All that a terminal shows of a command that is typed |lines|."""
    main, side = pty.openpty()
    p = subprocess.Popen([LOCKSTEP, *args], stdin=side, stdout=side, stderr=side, close_fds=True, **kwargs)
    os.close(side)
    os.write(main, "".join(line + "\n" for line in lines).encode())
    seen, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([main], [], [], 0.2)[0]:
            try:
                seen += os.read(main, 4096)
            except OSError:  # it has ended
                break
    code = p.wait(10)
    os.close(main)
    return seen.decode(errors="replace") + f"\nexit code {code}"


VERSION = run("--version").stdout
BACKENDS = ["reference", "native"]


def golden(name):
    """The i32 tensor |name| of the llama fixture's goldens."""
    with open(os.path.join(LLAMA, "golden.safetensors"), "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        begin, end = json.loads(f.read(size))[name]["data_offsets"]
        f.seek(8 + size + begin)
        return list(struct.unpack(f"<{(end - begin) // 4}i", f.read(end - begin)))


class CommandTest(unittest.TestCase):
    def check(self, result, code, part=""):
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertIn(part, result.stderr + result.stdout)
        return result.stdout

    def test_help(self):
        text = self.check(run("--help"), 0, "Example: lockstep")
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", text)
            self.assertIn(f"Example: lockstep {command}", self.check(run(command, "--help"), 0))

    def test_usage_errors(self):
        self.check(run(), 2, "Usage: lockstep")
        self.check(run("nonsense"), 2, "is no command")
        for command in COMMANDS:
            self.check(run(command, "--nonsense"), 2, f"lockstep {command} --help")
        for command in ("run", "generate", "inspect", "bench", "tokenize"):
            self.check(run(command), 2, "give")
        for option, value in (("--threads", "0"), ("--ctx-size", "x"), ("--temp", "hot"), ("--seed", "-1"), ("-n", "99999999999"), ("--top-k", "1.5")):
            self.check(run("generate", LLAMA, option, value), 2, "allowed" if option != "--temp" else "number")
        self.check(run("generate", LLAMA, "--ids", "1,x"), 2, "token ids")

    def test_oracle(self):
        text = self.check(run("oracle", "--engine", "native", "--only", "linear"), 0, "32 probes: all passed")
        self.assertEqual(text.count(", qualified"), 32)
        reports = json.loads(self.check(run("oracle", "--engine", "native", "--only", "attention", "--json"), 0))
        self.assertEqual({r["claim"] for r in reports}, {"exact-contract"})
        self.assertTrue(all(r["passed"] and r["production_qualified"] and r["comparison"]["mode"]["kind"] == "exact-bits" for r in reports))
        self.assertEqual(len({r["operation"] for r in reports}), 10)
        self.assertIn("exact-oracle.rms_norm.exact24\n", self.check(run("oracle", "--engine", "reference", "--list"), 0))
        self.check(run("oracle", "--engine", "native", "--only", "no such probe"), 2, "--list shows them")
        self.check(run("oracle", "--engine", "magic"), 2, "use pjrt, iree, native or reference")
        self.check(run("oracle", "--engine", "native", "--plugin", "x"), 2, "--plugin is for --engine pjrt")
        self.check(run("oracle", "--engine", "native", "--device", "cuda"), 2, "--device is for --engine pjrt and iree")
        self.check(run("oracle", "--engine", "pjrt", "--target", "gfx942"), 2, "--target is for --engine iree")
        self.check(run("oracle", "--plugin", "/nonexistent.so"), 2, "nonexistent")
        self.check(run("oracle", "stray"), 2, "takes no arguments")

    def test_emit_options_that_do_not_apply(self):
        for args, part in ((["decode", "--tokens", "8"], "--tokens is for prefill"), (["decode_ragged", "--tokens", "8"], "--tokens is for prefill"),
                           (["prefill", "--batch", "4"], "--batch is for decode_ragged and extends"), (["decode", "--batch", "4"], "--batch is for"),
                           (["decode", "--contract", "float", "--carrier", "i8"], "--carrier is for exact contracts"),
                           (["decode", "-o", ""], "-o is empty"), (["extend", "--tokens", "257"], "raise the capacity"),
                           (["decode", "--capacity", "768"], "llama has 512 positions, so allowed are multiples of 256 up to 512")):
            self.check(run("emit", LLAMA, "--entry", *args), 1 if {"257", "768"} & {*args} else 2, part)
        self.check(run("emit", LLAMA, "--entry", "decode", "--capacity", "512"), 0, "tensor<3x512x")
        for args in (["extend", "--tokens", "256", "--batch", "3"], ["decode_ragged", "--batch", "1"], ["prefill", "--tokens", "1", "--carrier", "i8"]):
            self.check(run("emit", LLAMA, "--entry", *args), 0, "func.func public @main")

    def test_lost_output(self):
        for code, args in ((1, ["--help"]), (1, ["--version"]), (1, ["arch"]), (1, ["inspect", LLAMA]), (1, ["bench", LLAMA, "-p", "3", "-n", "2", "-r", "1"]),
                           (1, ["generate", LLAMA, "--ids", "1,2", "-n", "2"]), (1, ["emit", LLAMA, "--entry", "decode"]), (2, ["verify", "--help"]),
                           (2, ["oracle", "--engine", "native", "--list"]), (2, ["oracle", "--engine", "native", "--only", "linear"])):
            with open("/dev/full", "w") as full:
                result = subprocess.run([LOCKSTEP, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, stdin=subprocess.DEVNULL)
            self.assertEqual(result.returncode, code, args)
            self.assertIn("standard output", result.stderr)

    @unittest.skipUnless(SMOLLM2, "needs the downloaded model, which `make test` fetches")
    def test_interrupt(self):
        """^C ends the answer, unless whoever started the program has it ignore ^C."""
        for ignored, n, code in ((False, "400", 130), (True, "24", 0)):
            before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else None
            p = subprocess.Popen([LOCKSTEP, "generate", SMOLLM2, "-p", "One, two, three, four,", "-n", n], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            if ignored:
                signal.signal(signal.SIGINT, before)
            first = p.stdout.read(1)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=300)
            self.assertEqual((p.returncode, first + out != b""), (code, True), err)

    def test_version(self):
        for line in ("lockstep 0.", "compiler: ", "flags: ", "level: ", "contracts: exact16 version 1, exact24 version 1", "backends:"):
            self.assertIn(line, VERSION)

    def test_pictures(self):
        one, two = (os.path.join(VISION, name) for name in ("one_0.png", "two_1.png"))
        with open(os.path.join(VISION, "golden.json"), encoding="utf-8") as f:
            golden = json.load(f)["cases"][0]["answer"]
        said = run("run", VISION, "-p", "Describe the picture.", "--image", one, "--temp", "0", "-n", "8")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertTrue(golden.startswith(said.stdout.rstrip("\n").rstrip("\ufffd")[:10]), said.stdout)
        report = json.loads(run("generate", VISION, "-p", "a<start_of_image>b<start_of_image>", "--image", one, "--image", two, "-n", "3", "--json").stdout)
        self.assertEqual(report["prompt_ids"].count(9), 32)
        self.assertNotEqual(report["identity"], report["fingerprint"])
        seen = json.loads(run("inspect", VISION, "--json").stdout)["vision"]
        self.assertEqual((seen["available"], seen["tokens_per_image"]), (True, 16))
        for args, code, part in ((["generate", "-p", "a<start_of_image>b<start_of_image>", "--image", one], 1, "2 image placeholders"),
                                 (["generate", "--ids", "1", "--image", one], 2, "needs a text prompt"), (["run", "-p", "x", "--image", "no.png"], 1, "no.png"),
                                 (["run", "-p", "x", "--image", one, "--image-max-pixels", "9"], 1, "picture 1"),
                                 (["run", "-p", "x", "--image", os.curdir], 1, "is not a regular file but a folder"),
                                 (["bench", "--image", one], 2, "asks with text only")):
            self.check(run(args[0], VISION, *args[1:]), code, part)

    def test_conversation_keeps_what_it_has_read(self):
        """On backends that can and under exact contracts, without being asked; the answers are the same elsewhere."""
        shapes, answers = os.path.join(FIXTURES, "vision", "gemma3_shapes"), []
        for options, kept in (([], True), (["--prefix-cache-size", "0"], False), (["--shadow"], False), (["--backend", "reference"], False)):
            said = in_terminal(["Where are the shapes?"] * 5 + ["/exit"], "run", shapes, "--temp", "0", "-n", "12", "--stats", *options)
            self.assertTrue(said.endswith("exit code 0"), said)
            self.assertEqual((said.count(" kept from before)"), "(64 kept from before)" in said), (5, kept), said)
            answers.append(re.findall(r"I see[^\r\n]*", said))
        self.assertTrue(answers[0] and all(a == answers[0] for a in answers), answers)

    def test_image_command(self):
        """/image says at once what is wrong with a file, and /clear makes room for others."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(os.path.join(VISION, "one_0.png")), os.path.join(folder, "p"))
            said = in_terminal(["/image", "/image  absent", "/image .", *["/image p"] * 65, "/clear", "/image  p", "Describe the picture.", "/exit"],
                               "run", os.path.abspath(VISION), "--temp", "0", "-n", "4", cwd=folder)
        for part in ("/image needs a file", '"absent"', "but a folder", "more than 64 pictures; type /clear"):
            self.assertIn(part, said)
        self.assertEqual((said.count("lockstep: "), said.endswith("exit code 0")), (4, True), said)

    def test_refusals(self):
        self.check(run("run", LLAMA, "--image", "cat.png"), 1, "--image is refused: the model's configuration declares no vision")
        self.check(run("generate", LLAMA, "--audio", "a.wav"), 2, "no audio input")
        self.check(run("generate", LLAMA, "--ids", "1", "--backend", "magic"), 1, "use native, reference or xla")
        self.check(run("generate", LLAMA, "--ids", "1", "--contract", "exact99"), 1, "use exact16, exact16-kv8, exact24 or float")
        self.check(run("inspect", "acme/absent"), 1, "lockstep pull acme/absent")
        self.check(run("inspect", "no such thing"), 1, "neither a file, a folder nor a model name")
        self.check(run("generate", LLAMA, "-p", "text", "--backend", "reference"), 1, "no tokenizer")
        self.check(run("generate", LLAMA, "--ids", "1,2,3", "-n", "6", "--ctx-size", "8", "--backend", "reference"), 1,
                   "prompt of 3 tokens + 6 new tokens is more than the context of 8")
        self.check(run("generate", LLAMA, "--ids", "999999", "--backend", "reference"), 1, "the vocabulary has ids 0 to")
        self.check(run("generate", LLAMA, "--ids", "", "--backend", "reference"), 1, "prompt is empty")

    def test_arch(self):
        names = [f["model_type"] for f in json.loads(self.check(run("arch", "--json"), 0))]
        self.assertIn("llama", names)
        self.assertEqual(len(names), len(set(names)))
        self.check(run("arch"), 0, "llama")

    def test_inspect(self):
        d = json.loads(self.check(run("inspect", LLAMA, "--json"), 0))
        self.assertEqual(d["architecture"], "llama")
        self.assertEqual(d["unused_tensors"], 0)
        self.assertEqual(len(d["fingerprint"]), 64)
        self.assertGreater(d["parameters"], 10_000)
        self.assertFalse(d["memory"]["measured"])
        other = json.loads(self.check(run("inspect", LLAMA, "--json", "--contract", "exact24"), 0))
        self.assertNotEqual(other["fingerprint"], d["fingerprint"])
        small = json.loads(self.check(run("inspect", LLAMA, "--json", "--contract", "exact16-kv8"), 0))
        self.assertTrue(small["memory"]["kv_bytes"] < d["memory"]["kv_bytes"] < other["memory"]["kv_bytes"])
        for backend in BACKENDS:
            measured = json.loads(self.check(run("inspect", LLAMA, "--json", "--measure", "--backend", backend, "--ctx-size", "64"), 0))
            self.assertTrue(measured["memory"]["measured"])
            estimate = json.loads(self.check(run("inspect", LLAMA, "--json", "--backend", backend, "--ctx-size", "64"), 0))
            self.assertEqual(measured["memory"]["kv_bytes"], estimate["memory"]["kv_bytes"])
        self.check(run("inspect", LLAMA, "--backend", "foo"), 1, 'backend "foo" is unknown')
        self.check(run("inspect", LLAMA), 0, "parameters")

    def generate(self, *args):
        return json.loads(self.check(run("generate", LLAMA, "--json", *args), 0))

    def test_generate(self):
        ids = ",".join(map(str, golden("prompt_ids")))
        for backend in BACKENDS:
            d = self.generate("--ids", ids, "-n", "64", "--contract", "exact24", "--ignore-eos", "--backend", backend)
            self.assertEqual(d["prompt_ids"], golden("prompt_ids"))
            self.assertEqual(d["output_ids"], golden("greedy_ids"))
            self.assertEqual(d["finish_reason"], "length")
            self.assertEqual(d["contract"], {"name": "exact24", "version": 1})
            self.assertIsNone(d["text"])
            for key in ("load_ms", "prefill_ms", "decode_ms", "prefill_tokens_per_second", "decode_tokens_per_second"):
                self.assertGreaterEqual(d["timings"][key], 0)

    def test_same_bits(self):
        """Chunks, threads and backends do not move a logit; contracts do."""
        ids = ",".join(map(str, golden("prompt_ids")))
        for contract in ("exact16", "exact16-kv8", "exact24"):
            seen = set()
            for backend in BACKENDS:
                for chunk in ("1", "3", "64"):
                    options = ["--contract", contract, "--backend", backend, "--chunk", chunk]
                    if backend == "native":
                        options += ["--threads", chunk[0]]
                    d = self.generate("--ids", ids, "-n", "8", "--ignore-eos", *options)
                    seen.add((d["logits_sha256"], tuple(d["output_ids"])))
            self.assertEqual(len(seen), 1)

    def test_speculation(self):
        base = ["--ids", ",".join(str(k % 7) for k in range(60)), "-n", "24", "--ignore-eos"]
        for sampling in ([], ["--temp", "0.7", "--seed", "3", "--repeat-penalty", "1.2"]):
            plain = self.generate(*base, *sampling)
            self.assertEqual(plain["statistics"]["decode_passes"], 23)
            for options in (["--lookup"], ["--draft", LLAMA, "--guesses", "5"], ["--lookup", "--draft", LLAMA, "--backend", "reference"]):
                d = self.generate(*base, *sampling, *options)
                self.assertEqual((d["output_ids"], d["logits_sha256"]), (plain["output_ids"], plain["logits_sha256"]), options)
                self.assertLessEqual(d["statistics"]["accepted"], d["statistics"]["drafted"])
                if "--draft" in options:
                    self.assertLess(d["statistics"]["decode_passes"], 12)
        self.check(run("generate", LLAMA, "--ids", "1", "--draft", os.path.join(FIXTURES, "models", "qwen2")), 1, "vocabularies differ")
        self.check(run("generate", LLAMA, "--ids", "1", "--draft", "/nonexistent"), 1, "draft model")
        self.check(run("generate", LLAMA, "--ids", "1", "--guesses", "3"), 2, "--lookup or --draft")
        self.check(run("generate", LLAMA, "--ids", "1", "--lookup", "--guesses", "65"), 2, "--guesses")
        d = json.loads(self.check(run("bench", LLAMA, "--json", "-p", "8", "-n", "16", "-r", "1", "--batch", "2", "--draft", LLAMA), 0))
        self.assertGreater(d["statistics"]["accepted"], 0)
        self.check(run("bench", LLAMA, "-p", "8", "-n", "16", "-r", "1", "--draft", LLAMA), 0, "guesses")

    def test_prefix_cache(self):
        ids, other = (",".join(str((k * 37 + 5) % 90) for k in range(n)) for n in (150, 170))
        plain = self.generate("--ids", other, "-n", "4", "--ignore-eos")
        self.assertEqual(plain["statistics"]["reused_tokens"], 0)
        with tempfile.TemporaryDirectory() as folder:
            cache = os.path.join(folder, "new")
            for args, reused in ((["--ids", ids, "-n", "1"], 0), (["--ids", other, "-n", "4", "--ignore-eos"], 128)):
                d = self.generate(*args, "--prefix-cache", cache)
                self.assertEqual(d["statistics"]["reused_tokens"], reused)
            self.assertEqual((d["output_ids"], d["logits_sha256"]), (plain["output_ids"], plain["logits_sha256"]))
            (name,) = os.listdir(cache)
            with open(os.path.join(cache, name), "r+b") as f:
                f.seek(5000)
                f.write(b"damage")
            result = run("generate", LLAMA, "--json", "--ids", other, "-n", "4", "--ignore-eos", "--prefix-cache", cache)
            self.check(result, 0, "the prefix cache is ignored")
            self.assertEqual(json.loads(result.stdout)["logits_sha256"], plain["logits_sha256"])
            self.check(run("generate", LLAMA, "--ids", ids, "-n", "1", "--prefix-cache", os.path.join(folder, "no", "such")), 0, "is not saved")
        for size, part in (("x", "such as 512M"), ("-1", "such as 512M"), ("0", "leaves nothing"), ("99999999999999999999", "such as 512M")):
            self.check(run("generate", LLAMA, "--ids", "1", "--prefix-cache", "d", "--prefix-cache-size", size), 2, part)
        self.check(run("generate", LLAMA, "--ids", "1", "--backend", "reference", "--prefix-cache-size", "64M"), 1, "use backend native")

    def test_seeds(self):
        options = ["--ids", "1,2,3", "-n", "16", "--ignore-eos", "--backend", "reference", "--temp", "3"]
        a, b, c = (self.generate(*options, "--seed", s)["output_ids"] for s in ("5", "5", "6"))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)
        self.assertEqual(self.check(run("generate", LLAMA, *options, "--seed", "5"), 0).strip(), ",".join(map(str, a)))

    def level(self):
        return next(line for line in VERSION.splitlines() if line.startswith("level: "))[len("level: "):]

    def test_reports_say_what_ran(self):
        """Version, compiler, backend; of the native backend its level and threads as they are, not as they were asked for."""
        bench = ["bench", LLAMA, "--json", "-p", "2", "-n", "2", "-r", "1"]
        compiler = next(line for line in VERSION.splitlines() if line.startswith("compiler: "))[len("compiler: "):]
        for command in (["generate", LLAMA, "--json", "--ids", "1,2", "-n", "2"], bench):
            for options, level, threads in ((["--pin", "--threads", "2"], self.level(), 2), (["--level", "c", "--threads", "3"], "c", 3),
                                            (["--level", "best", "--threads", "1"], self.level(), 1),
                                            (["--shadow", "--level", "random", "--threads", "2"], "random", 2)):
                d = json.loads(self.check(run(*command, *options), 0))
                self.assertEqual((d["version"], d["compiler"], d["backend"], d["level"], d["threads"]), (VERSION.split()[1], compiler, "native", level, threads))
            d = json.loads(self.check(run(*command, "--backend", "reference"), 0))
            self.assertEqual((d["backend"], d["compiler"], "level" in d, "threads" in d), ("reference", compiler, False, False))

    def test_level_variable(self):
        """LOCKSTEP_LEVEL forces the level of the native backend alone; --level wins."""
        def forced(level, *args):
            return run("generate", LLAMA, "--json", "--ids", "1,2,3", "-n", "4", *args, env={**os.environ, "LOCKSTEP_LEVEL": level})
        c, best, empty = (json.loads(self.check(forced(level), 0)) for level in ("c", "best", ""))
        self.assertEqual((c["level"], best["level"], empty["level"]), ("c", self.level(), self.level()))
        random = json.loads(self.check(forced("random"), 0))
        self.assertEqual(random["level"], "random")
        self.assertEqual([c["logits_sha256"]] * 2, [best["logits_sha256"], random["logits_sha256"]])
        self.assertEqual(json.loads(self.check(forced("mmx", "--level", "c"), 0))["level"], "c")
        self.check(forced("mmx"), 2, 'LOCKSTEP_LEVEL is "mmx"; allowed are best, c, avx2, avx512, amx, neon, neon-dotprod, neon-i8mm, random')
        self.check(forced("mmx", "--backend", "reference"), 0)

    def test_bench(self):
        d = json.loads(self.check(run("bench", LLAMA, "--json", "--backend", "reference", "-p", "8", "-n", "4", "-r", "2", "--batch", "3"), 0))
        self.assertGreater(d["prefill_tokens_per_second_best"], 0)
        self.assertGreater(d["decode_tokens_per_second_best"], 0)
        self.check(run("bench", LLAMA, "--backend", "reference", "-p", "4", "-n", "2", "-r", "1"), 0, "tokens/s")

    def test_bench_compare(self):
        self.check(run("bench", LLAMA, "--compare", "llama.cpp,engine"), 1, '"engine" is unknown; allowed are llama.cpp, openvino, ort')
        self.check(run("bench", LLAMA, "--compare", "ort", "--sweep", "moon"), 1, '"moon" is unknown; allowed are context, batch, threads')
        self.check(run("bench", LLAMA, "--sweep", "batch"), 2, "--sweep is for --compare")
        with tempfile.TemporaryDirectory() as folder:
            self.check(run("bench", LLAMA, "--compare", "ort", env={**os.environ, "LOCKSTEP_BENCH": folder}), 1, "LOCKSTEP_BENCH")

    def test_bench_vision(self):
        tower = os.path.join(os.path.dirname(os.path.dirname(LLAMA)), "vision", "tower")
        d = json.loads(self.check(run("bench", tower, "--vision", "--json", "-r", "2", "--threads", "1"), 0))
        self.assertEqual((d["image_size"], d["patches"], d["rows"], d["threads"]), (72, 324, 9, 1))
        self.assertTrue(0 < d["vision_seconds_best"] <= d["vision_seconds_mean"])
        self.check(run("bench", tower, "--vision", "-r", "1", "--contract", "exact24"), 0, "324 patches to 9 rows")
        self.check(run("bench", LLAMA, "--vision"), 1, "the model does not see")

    def test_bench_steps(self):
        steps = ["bench", LLAMA, "--steps", "--batch", "3", "--ctx-size", "32"]
        lines = "prefill 8\nopen 3 4\ndecode 5\ndecode 2\nclose\nprefill 9\n"
        answers = [json.loads(line) for line in self.check(run(*steps, input=lines), 0).splitlines()]
        self.assertEqual([{k: v for k, v in a.items() if k != "seconds"} for a in answers],
                         [{"loaded": 0}, {"read": 8}, {"read": 12}, {"decoded": 15}, {"decoded": 6}, {"read": 0}, {"read": 9}])
        for line in ("decode 1", "open 4 4", "prefill 32", "open 1 4\nprefill 4", "sing"):
            self.check(run(*steps, input=line + "\n"), 1, "bench:")

    def test_tokenize(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(FIXTURES, "text", "tokenizer", "qwen2.json"), os.path.join(folder, "tokenizer.json"))
            ids = self.check(run("tokenize", folder, "--ids", "Hello <|im_start|> you"), 0).strip()
            self.assertIn("<|im_start|>", self.check(run("tokenize", folder, "Hello <|im_start|> you"), 0))
            self.assertEqual(self.check(run("tokenize", folder, "--ids", "-", input="Hello <|im_start|> you"), 0).strip(), ids)
            self.assertEqual(self.check(run("tokenize", folder, "--decode", ids), 0), "Hello <|im_start|> you\n")
            d = json.loads(self.check(run("tokenize", folder, "--json", "Hello <|im_start|> you"), 0))
            self.assertEqual(",".join(map(str, d["ids"])), ids)
            self.assertEqual("".join(d["tokens"]), d["text"])
            self.check(run("tokenize", folder, "--chat", "Hi"), 1, "no chat template")
        self.check(run("tokenize", LLAMA, "Hi"), 1, "no tokenizer")
        self.check(run("tokenize", os.path.dirname(LLAMA), "Hi"), 1, "NOT_FOUND")


    def test_pack(self):
        """What every command says of a pack file is what it says of the model, and a damaged file is refused at once."""
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "llama.lspack")
            self.assertIn(f"{packed}: ", self.check(run("pack", LLAMA, "-o", packed), 0, "exact16 version 1"))
            report = json.loads(self.check(run("pack", LLAMA, "-o", packed, "--json", "--contract", "exact24", "--threads", "1"), 0))
            self.assertEqual((report["contract"], report["format"], report["bytes"]), ("exact24", 1, os.path.getsize(packed)))
            self.assertEqual(os.listdir(folder), ["llama.lspack"])
            args = ["--ids", "1,2,3", "-n", "6", "--json"]
            a, b = (json.loads(self.check(run("generate", m, *args, *o), 0)) for m, o in ((LLAMA, ["--contract", "exact24"]), (packed, [])))
            for key in ("output_ids", "logits_sha256", "fingerprint", "contract"):
                self.assertEqual(a[key], b[key])
            a, b = (json.loads(self.check(run("inspect", m, "--contract", "exact24", "--json", *o), 0)) for m, o in ((LLAMA, []), (packed, ["--check"])))
            self.assertTrue(b.pop("pack")["checked"])
            self.assertEqual((len(a.pop("contracts")), b.pop("contracts")), (4, ["exact24"]))
            self.assertEqual(a, b)
            self.check(run("inspect", packed, "--check"), 0, "checksums verified")
            self.check(run("inspect", packed, "--contract", "exact16"), 0, "exact16 version 1; the pack file is for exact24")
            self.check(run("inspect", LLAMA, "--check"), 1, "no pack file")
            self.check(run("bench", packed, "-p", "4", "-n", "2", "-r", "1"), 0, "exact24")
            self.check(run("generate", packed, *args, "--contract", "exact16"), 1, "packed for contract exact24 version 1, not for exact16")
            for backend in ("reference", "xla"):
                self.check(run("generate", packed, *args, "--backend", backend, "--allow-unqualified"), 1, f"backend {backend}")
            self.check(run("verify", packed, "--right", "reference", "--ids", "1,2"), 2, "only in the form of backend native")
            self.check(run("emit", packed, "--entry", "decode"), 0, "func.func public @main")
            self.check(run("pack", packed, "-o", packed), 1, "is a pack file already")
            self.check(run("pack", LLAMA), 2, "give -o")
            self.check(run("pack", LLAMA, "-o", folder), 1, "not a regular file")
            self.check(run("pack", LLAMA, "-o", packed, "--contract", "float"), 1, "use exact16, exact16-kv8 or exact24")
            self.check(run("pack", VISION, "-o", packed), 0)
            args = ["-p", "a<start_of_image>b", "--image", os.path.join(VISION, "one_0.png"), "-n", "4", "--json"]
            a, b = (json.loads(self.check(run("generate", m, *args), 0)) for m in (VISION, packed))
            for key in ("output_ids", "logits_sha256", "identity"):
                self.assertEqual(a[key], b[key])
            self.check(run("inspect", packed, "--check"), 0, "checksums verified")
            blind = os.path.join(folder, "blind")
            shutil.copytree(VISION, blind)
            os.remove(os.path.join(blind, "preprocessor_config.json"))
            said = run("pack", blind, "-o", packed)
            self.assertEqual((said.returncode, "note: the file serves text only" in said.stderr), (0, True), said.stderr)
            self.check(run("generate", packed, *args), 1, "no section image_processor")
            self.check(run("pack", LLAMA, "-o", packed, "--contract", "exact24"), 0)
            data = bytearray(open(packed, "rb").read())
            for name, damage in (("section config", lambda d: d[:4096] + b"X" + d[4097:]), ("truncated", lambda d: d[:-1]), ("header", lambda d: d[:300] + b"X" + d[301:])):
                with open(packed, "wb") as f:
                    f.write(damage(data))
                self.check(run("generate", packed, *args), 1, name)
            with open(packed, "wb") as f:
                f.write(data[:-1] + bytes([data[-1] ^ 1]))
            self.check(run("inspect", packed), 0)
            self.check(run("inspect", packed, "--check"), 1, "section packed_weights: the checksum of")


@unittest.skipUnless(SMOLLM2, "needs LS_SMOLLM2_GGUF")
class ChatTest(unittest.TestCase):
    def test_one_question(self):
        r = run("run", SMOLLM2, "-p", "What is the capital of France?", "--temp", "0", "-n", "32")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(r.stdout, "The capital of France is Paris.\n")
        self.assertEqual(r.stderr, "")
        for end in ("", "\n"):
            again = run("run", SMOLLM2, "--temp", "0", "-n", "32", input="What is the capital of France?" + end)
            self.assertEqual(again.stdout, r.stdout)

    def test_system_and_stop(self):
        r = run("run", SMOLLM2, "-p", "What is the capital of France?", "--temp", "0", "-n", "32", "--stop", " is", "--stats")
        self.assertEqual(r.stdout, "The capital of France\n")
        self.assertIn("finish: stop", r.stderr)
        other = run("run", SMOLLM2, "-p", "Hi", "--temp", "0", "-n", "8", "--system", "You are a pirate.")
        self.assertEqual(other.returncode, 0)

    def test_packed(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "model")
            self.assertEqual(run("pack", SMOLLM2, "-o", packed).returncode, 0)
            for args in (["run", "MODEL", "-p", "What is the capital of France?", "-n", "32", "--seed", "3"], ["tokenize", "MODEL", "--chat", "Hi <|im_end|>"],
                         ["tokenize", "MODEL", "--json", "Hello, w\u00f6rld \U0001f600 <|im_start|>"], ["tokenize", "MODEL", "--decode", "1,2,3,49151"]):
                a, b = (run(*[m if x == "MODEL" else x for x in args]) for m in (SMOLLM2, packed))
                self.assertEqual((a.returncode, a.stdout), (0, b.stdout))

    def test_seeded_text(self):
        a, b, c = (run("run", SMOLLM2, "-p", "Tell me a story.", "-n", "24", "--seed", s, "--threads", t).stdout for s, t in (("1", "1"), ("1", "2"), ("2", "2")))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_prompt_loop(self):
        seen = in_terminal(["What is the capital of France?", "/clear", "/exit"], "run", SMOLLM2, "--temp", "0", "-n", "32")
        self.assertIn("The capital of France is Paris.", seen)
        self.assertIn("/clear forgets", seen)
        self.assertTrue(seen.endswith("exit code 0"), seen)

    def test_folder_with_a_gguf(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(SMOLLM2), os.path.join(folder, "model.gguf"))
            self.assertEqual(run("tokenize", folder, "--ids", "Hello world").stdout, run("tokenize", SMOLLM2, "--ids", "Hello world").stdout)

    def test_tokenize_chat(self):
        ids = run("tokenize", SMOLLM2, "--ids", "--chat", "a<|im_end|>b").stdout.strip().split(",")
        self.assertEqual(ids.count("1"), 3)
        self.assertEqual(ids.count("2"), 2)


if __name__ == "__main__":
    unittest.main()
