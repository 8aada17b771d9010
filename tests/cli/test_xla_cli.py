#!/usr/bin/env python3
"""Backend xla on the command line, with the real PJRT CPU plugin: what runs here, environment variables, qualification, refusals, bench.

    test_xla_cli.py PATH_TO_LOCKSTEP FIXTURES PLUGINS      standard library only

With LS_SMOLLM2_GGUF a real chat model answers too.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP, FIXTURES, PLUGINS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
LLAMA = os.path.join(FIXTURES, "models", "llama")
LLAMA_MLX = os.path.join(FIXTURES, "models", "llama_mlx")
SEES = os.path.join(FIXTURES, "vision", "gemma3_random")
GOLDEN = os.path.join(LLAMA, "golden.safetensors")
SMOLLM2 = os.environ.get("LS_SMOLLM2_GGUF")
IDS = ["--ids", "1,2,3", "-n", "4"]
XLA = [*IDS, "--backend", "xla"]
CACHE = tempfile.mkdtemp(prefix="lockstep-cli-")


def run(*args, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LOCKSTEP_", "TF_CPP", "XLA_"))}
    env.update({"XDG_CACHE_HOME": CACHE, "LOCKSTEP_PYTHON_ENV": PLUGINS, **variables})
    return subprocess.run([LOCKSTEP, *args], capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL, env=env)


def read_ids(path, name):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        begin, end = json.loads(f.read(size))[name]["data_offsets"]
        f.seek(8 + size + begin)
        return list(struct.unpack(f"<{(end - begin) // 4}i", f.read(end - begin)))


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    return path


def write_ids(path, **tensors):
    return write_tensors(path, {name: ("I32", [len(ids)], struct.pack(f"<{len(ids)}i", *ids)) for name, ids in tensors.items()})


class XlaTest(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(CACHE)

    def check(self, result, code, part=""):
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertIn(part, result.stderr + result.stdout)
        return result.stdout

    # ---- What runs here ---------------------------------------------------------------------------------------------

    def test_help_lists_what_runs(self):
        for command, args in (("generate", ["--backend", "xla", "--help"]), ("run", ["--help", "--backend", "xla"]), ("bench", ["--backend", "xla", "-h"])):
            text = self.check(run(command, *args), 0, f"Example: lockstep {command}")
            self.assertRegex(text, r"pjrt  cpu +yes: cpu, ordinal 0, host threads \d+, pjrt 0\.\d+")
            self.assertRegex(text, r"pjrt  cuda +no: no plugin found; pip install jax-cuda13-pjrt")
            self.assertRegex(text, r"iree  compiler +yes: .*libIREECompiler")
            self.assertIn("plugin  lammps-jax-pjrt-cpu 0.11.2: ", text)
        self.assertIn("on this machine", self.check(run("generate", "--help", LOCKSTEP_BACKEND="xla"), 0))
        self.assertNotIn("on this machine", self.check(run("generate", "--help"), 0))
        bare = run("generate", "--backend", "xla", "--help", LOCKSTEP_PYTHON_ENV="/nonexistent", PATH="", HOME=CACHE, VIRTUAL_ENV="", PYTHONPATH="", CONDA_PREFIX="")
        text = self.check(bare, 0, "cpu         no: no plugin found; pip install lammps-jax-pjrt-cpu")
        self.assertIn("iree-base-compiler", text)

    # ---- Environment --------------------------------------------------------------------------------------------------

    def test_bad_variables_are_named(self):
        for name, value in (("BACKEND", "gpu"), ("CONTRACT", "exact99"), ("CTX_SIZE", "0"), ("CTX_SIZE", "many"), ("ENGINE", "tvm"), ("DEVICE", "npu"), ("PRECISION", "f8"),
                            ("QUANT", "sparse"), ("BUCKETS", "256;512"), ("ALLOW_UNQUALIFIED", "yes")):
            variables = {"LOCKSTEP_BACKEND": "xla", f"LOCKSTEP_{name}": value}
            for command in (["generate", LLAMA, *IDS], ["bench", LLAMA], ["run", LLAMA, "-p", "x"], ["inspect", LLAMA]):
                self.check(run(*command, **variables), 2, f'LOCKSTEP_{name} is "{value}"')
        self.check(run("qualify", LLAMA, LOCKSTEP_DEVICE="npu"), 2, "LOCKSTEP_DEVICE")
        self.check(run("generate", LLAMA, *IDS, LOCKSTEP_BACKEND="xla", LOCKSTEP_BUCKETS="512,256"), 1, 'buckets "512,256"')

    def test_variables_count_and_options_win(self):
        def generate(*args, **variables):
            return json.loads(self.check(run("generate", LLAMA, *IDS, "--json", *args, **variables), 0))
        self.assertEqual(generate(LOCKSTEP_CONTRACT="exact24")["contract"]["name"], "exact24")
        self.assertEqual(generate("--contract", "exact16", LOCKSTEP_CONTRACT="exact99")["contract"]["name"], "exact16")
        self.check(run("generate", LLAMA, *IDS, LOCKSTEP_CTX_SIZE="5"), 1, "more than the context of 5")
        generate("--ctx-size", "64", LOCKSTEP_CTX_SIZE="5")
        # those of backend xla count there alone
        self.assertNotIn("xla", generate(LOCKSTEP_DEVICE="cuda", LOCKSTEP_ENGINE="tvm", LOCKSTEP_BUCKETS="x"))
        for variable, value, part in (("DEVICE", "cuda", 'no PJRT plugin for device "cuda"'), ("ENGINE", "iree", "IREE"), ("PRECISION", "f16", "precision"), ("QUANT", "packed", "quant"),
                                      ("GPU_TARGET", "sm_80", "gpu-target"), ("PJRT_PLUGIN", "/nonexistent.so", "nonexistent.so"), ("BUCKETS", "2", "context of 2 ")):
            result = run("generate", LLAMA, *IDS, LOCKSTEP_BACKEND="xla", LOCKSTEP_ALLOW_UNQUALIFIED="1", **{f"LOCKSTEP_{variable}": value})
            if variable != "ENGINE" or result.returncode:  # a build with a runtime does run it
                self.check(result, 1, part)
        self.check(run("generate", LLAMA, *XLA, "--device", "rocm", LOCKSTEP_DEVICE="cuda"), 1, 'device "rocm"')

    def test_nothing_falls_back(self):
        for args, part in ((["--device", "cuda"], "no PJRT plugin"), (["--precision", "f16"], "is for contract float"), (["--quant", "packed"], "is for contract float"),
                           (["--gpu-target", "gfx942"], "is for engine iree"), (["--threads", "2"], "for backend native"), (["--pin"], "pin is for backend native"),
                           (["--level", "c"], "for backend native"), (["--ctx-size", "512", "--buckets", "256"], "the largest bucket holds 256")):
            self.check(run("generate", LLAMA, *XLA, "--allow-unqualified", *args), 1, part)
        for option in ("--engine", "--device", "--plugin", "--gpu-target", "--precision", "--quant", "--buckets"):
            self.check(run("generate", LLAMA, *IDS, option, "cpu"), 1, "is for backend xla; the backend is native")
        folder = shutil.copytree(LLAMA, os.path.join(CACHE, "unknown"))
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({**config, "model_type": "llamas", "architectures": ["LlamasForCausalLM"]}, f)
        for command in (["generate", folder, *XLA, "--allow-unqualified"], ["qualify", folder]):
            result = run(*command)
            self.check(result, 2 if command[0] == "qualify" else 1, "llamas")
            self.assertIn("UNIMPLEMENTED", result.stderr)

    def three_bits(self):
        """A copy of the MLX fixture whose last linear layer has words of 3 bits."""
        folder = shutil.copytree(LLAMA_MLX, os.path.join(CACHE, "three-bits"))
        path = os.path.join(folder, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["quantization"]["lm_head"] = {"bits": 3, "group_size": config["quantization"]["group_size"]}
        with open(path, "w") as f:
            json.dump(config, f)
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            header, data = json.loads(f.read(size)), f.read()
        tensors = {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items() if k != "__metadata__"}
        _, (rows, words), values = tensors["lm_head.weight"]
        tensors["lm_head.weight"] = "U32", [rows, words * 3 // 4], values[:len(values) * 3 // 4]
        write_tensors(path, tensors)
        return folder

    def test_packed_is_packed_or_refused(self):
        packed = ["--contract", "float", "--quant", "packed"]
        three = self.three_bits()
        for model, part in ((LLAMA, "INVALID_ARGUMENT: no linear weight is quantised, so none can stay packed"),
                            (three, 'UNIMPLEMENTED: weight "lm_head.weight" is MLX affine of 3 bits and cannot stay packed')):
            self.check(run("emit", model, "--entry", "decode", *packed), 1, part)
            self.check(run("generate", model, *XLA, *packed), 1, part)  # before anything is said about qualification
            self.check(run("generate", model, *XLA, "--allow-unqualified", "--contract", "float", LOCKSTEP_QUANT="packed"), 1, part)
            self.check(run("qualify", model, *packed), 2, part)
            self.check(run("verify", model, "--ids", "1,2", "--contract", "float", "--left", "reference", "--right", "xla:pjrt,quant=packed"), 2, part.split(": ")[1])
        self.check(run("emit", three, "--entry", "decode", "--contract", "float"), 0, "func.func")
        text = self.check(run("emit", LLAMA_MLX, "--entry", "decode", *packed), 0, "shift_right_logical")
        self.assertIn('loc("lm_head.weight")', text)
        d = json.loads(self.check(run("generate", LLAMA_MLX, *XLA, *packed, "--allow-unqualified", "--json"), 0))
        self.assertEqual(d["xla"]["quant"], "packed")

    # ---- Prefix cache -----------------------------------------------------------------------------------------------------

    def test_prefix_cache(self):
        args = ["generate", LLAMA, "--ids", ",".join(str(k * 37 % 90) for k in range(72)), "-n", "3", "--ignore-eos", "--json", "--chunk", "8"]
        native = json.loads(self.check(run(*args), 0))
        with tempfile.TemporaryDirectory() as folder:
            for reused in (0, 64):
                d = json.loads(self.check(run(*args, "--backend", "xla", "--allow-unqualified", "--prefix-cache", folder), 0))
                self.assertEqual((d["output_ids"], d["logits_sha256"]), (native["output_ids"], native["logits_sha256"]))
                self.assertEqual(d["statistics"]["reused_tokens"], reused)
            self.assertEqual(len(os.listdir(folder)), 1)
            d = json.loads(self.check(run(*args, "--prefix-cache", folder), 0))  # native has a file of its own
            self.assertEqual(d["statistics"]["reused_tokens"], 0)
            self.assertEqual(len(os.listdir(folder)), 2)

    # ---- Qualification --------------------------------------------------------------------------------------------------

    def test_qualification(self):
        native = json.loads(self.check(run("generate", LLAMA, *IDS, "--json"), 0))
        refusal = "llama under exact16 on pjrt cpu is not qualified: "
        for command in (["generate", LLAMA, *XLA], ["bench", LLAMA, "--backend", "xla", "-p", "3", "-n", "4"], ["inspect", LLAMA, "--measure", "--backend", "xla"]):
            self.check(run(*command), 1, refusal + "there is no record of it. Run lockstep qualify")
        # allowed, by option or variable, every reply says so
        result = run("generate", LLAMA, *XLA, "--json", "--allow-unqualified")
        d = json.loads(self.check(result, 0))
        self.assertEqual(result.stderr, "lockstep: unqualified: there is no record of it; lockstep qualify checks this family, contract and device\n")
        self.assertEqual((d["qualified"], d["output_ids"], d["logits_sha256"]), (False, native["output_ids"], native["logits_sha256"]))
        self.assertRegex(run("generate", LLAMA, *XLA, LOCKSTEP_ALLOW_UNQUALIFIED="1").stderr, "^lockstep: unqualified: ")
        # a reference that says otherwise
        wrong = read_ids(GOLDEN, "greedy_ids")[:8]
        wrong[5] ^= 1
        path = write_ids(os.path.join(CACHE, "wrong.safetensors"), prompt_ids=read_ids(GOLDEN, "prompt_ids"), greedy_ids=wrong)
        record = json.loads(self.check(run("qualify", LLAMA, "--reference", path, "--json"), 1))
        self.assertEqual((record["qualified"], record["same_input"]["passed"], record["tokens"]["passed"]), (False, True, False))
        self.assertEqual(record["tokens"]["first"], f"prompt 0 alone, token 5: {wrong[5] ^ 1}, the reference has {wrong[5]}")
        self.check(run("generate", LLAMA, *XLA), 1, refusal + f'"{LLAMA}" failed')
        # transformers' own tokens
        text = self.check(run("qualify", LLAMA, "--reference", GOLDEN, "--quiet"), 0, "\nQUALIFIED\n")
        self.assertIn("same input  pass: 49 nodes over", text)
        self.assertIn("; logits equal native's bit for bit", text)
        # the native executor under exact24
        record = json.loads(self.check(run("qualify", LLAMA, "--json"), 0))
        self.assertEqual(record["combination"]["architecture"], "llama")
        self.assertIn("tf32=off", record["combination"]["engine"])
        self.assertEqual((record["tokens"]["prompts"], record["tokens"]["compared"], record["tokens"]["equal_bits"]), (4, 256, True))
        self.assertTrue(os.path.exists(record["record"]))
        result = run("generate", LLAMA, *XLA, "--json")
        d = json.loads(self.check(result, 0))
        self.assertEqual((result.stderr, d["qualified"], d["xla"]["qualification"], d["logits_sha256"]), ("", True, LLAMA, native["logits_sha256"]))
        self.assertEqual((d["xla"]["tf32"], d["xla"]["kernel"], d["xla"]["engine"]["identity"]), ("off", "fixed by contract", record["combination"]["engine"]))
        # another contract, plugin or setting of the compiler is another combination
        self.check(run("generate", LLAMA, *XLA, "--contract", "exact24"), 1, "llama under exact24 on pjrt cpu is not qualified")
        self.check(run("generate", LLAMA, *XLA, "--plugin", os.path.join(PLUGINS, "fastatomstruct_xla_cpu", "libpjrt_cpu.so")), 1, refusal)
        self.check(run("generate", LLAMA, *XLA, XLA_FLAGS="--xla_cpu_enable_fast_math=true"), 1, refusal)
        self.bench()
        text = self.check(run("inspect", LLAMA, "--measure", "--backend", "xla"), 0, f"qualified      yes: {LLAMA}")
        self.assertIn("engine         runtime=pjrt;platform=cpu;", text)

    def bench(self):
        arguments = ["bench", LLAMA, "--backend", "xla", "-p", "3", "-n", "4", "-r", "1", "--json"]
        first, again = (json.loads(self.check(run(*arguments), 0)) for _ in range(2))
        self.assertGreater(again["prefill_tokens_per_second_best"], 0)
        self.assertGreater(again["decode_tokens_per_second_best"], 0)
        self.assertNotIn("level", again)
        compiling = again["xla"]["compiling"]
        self.assertEqual(compiling["cache_hits"], compiling["programs"])
        self.assertEqual(compiling["programs"], first["xla"]["compiling"]["programs"])
        self.check(run(*arguments[:-1]), 0, f"programs, {compiling['programs']} from the cache")

    def test_pictures_have_a_record_of_their_own(self):
        picture = ["--image", os.path.join(SEES, "one_0.png")]
        asked = ["generate", SEES, "-p", "x", "-n", "3", "--json"]
        self.check(run(*asked, *picture, "--backend", "xla"), 1, "gemma3 under exact16 on pjrt cpu is not qualified: there is no record of it")
        record = json.loads(self.check(run("qualify", SEES, "--json", "--quiet"), 0))
        vision = record["vision"]
        self.assertEqual([r["combination"]["architecture"] for r in (record, vision)], ["gemma3", "gemma3 vision"])
        self.assertNotEqual(record["model"]["fingerprint"], vision["model"]["fingerprint"])
        self.assertTrue(vision["qualified"])
        self.assertGreater(vision["same_input"]["nodes"], record["same_input"]["nodes"])
        self.assertEqual((vision["tokens"]["prompts"], vision["tokens"]["compared"], vision["tokens"]["equal_bits"]), (4, 256, True))
        native, judged = (json.loads(self.check(run(*asked, *picture, "--backend", backend), 0)) for backend in ("native", "xla"))
        self.assertEqual((judged["qualified"], judged["logits_sha256"]), (True, native["logits_sha256"]))
        # without it text is served, a picture is not
        os.remove(vision["record"])
        self.check(run(*asked, "--backend", "xla"), 0)
        self.check(run(*asked, *picture, "--backend", "xla"), 1, "images of this family are not qualified on this device: there is no record of it")

    def test_narrow_operands_do_not_qualify(self):
        narrow = ["--contract", "float", "--precision", "bf16"]
        record = json.loads(self.check(run("qualify", LLAMA, *narrow, "--json", "--quiet"), 1))
        self.assertEqual((record["combination"]["precision"], record["same_input"]["passed"], record["tokens"]["equal_bits"]), ("bf16", False, None))
        self.check(run("generate", LLAMA, *XLA, *narrow), 1, "llama under float on pjrt cpu is not qualified")
        d = json.loads(self.check(run("generate", LLAMA, *XLA, *narrow, "--allow-unqualified", "--json"), 0))
        self.assertEqual((d["qualified"], d["xla"]["precision"], d["xla"]["kernel"]), (False, "bf16", "unobserved"))

    def test_qualify_could_not(self):
        for args, part in (([], "give one model"), ([LLAMA, "--nonsense"], "--help"), ([LLAMA, "--device", "cuda"], "no PJRT plugin"), (["/nonexistent"], "NOT_FOUND"),
                           ([LLAMA, "--reference", "/nonexistent.safetensors"], "nonexistent"), ([LLAMA, "--contract", "exact99"], "exact99"), ([LLAMA, "--precision", "f16"], "contract float"),
                           ([LLAMA, "--reference", write_ids(os.path.join(CACHE, "prompt.safetensors"), prompt_ids=[1, 2])], "has no greedy_ids"),
                           ([LLAMA, "--reference", write_ids(os.path.join(CACHE, "far.safetensors"), prompt_ids=[1, 99999], greedy_ids=[1])], "the vocabulary has")):
            self.check(run("qualify", *args), 2, part)
        text = self.check(run("qualify", "--help"), 0, "Exit codes: 0 qualified, 1 not qualified, 2 could not tell.")
        self.assertEqual(text.count("\nExample: lockstep qualify"), 2)

    @unittest.skipUnless(SMOLLM2, "needs the downloaded model, which `make test` fetches")
    def test_chat_model(self):
        arguments = ["run", SMOLLM2, "-p", "What is the capital of France?", "--temp", "0", "-n", "12", "--ctx-size", "256"]
        native = self.check(run(*arguments), 0, "Paris")
        result = run(*arguments, "--backend", "xla", "--allow-unqualified")
        self.assertEqual(self.check(result, 0), native)
        self.assertEqual(result.stderr, "lockstep: unqualified: there is no record of it; lockstep qualify checks this family, contract and device\n")


if __name__ == "__main__":
    unittest.main()
