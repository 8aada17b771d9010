"""The lines of `lockstep bench --steps`, for other engines: a word and numbers on standard input, one JSON object a line back."""
import argparse
import json
import sys


def serve(engine, version):
    """engine: a class made from the options, with open(sequences, tokens), decode(steps) and greedy(tokens, n)."""
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--ctx-size", type=int, default=1024)
    e = engine(p.parse_args())
    print(json.dumps({"loaded": 0, "version": version}), flush=True)
    for line in sys.stdin:
        word = line.split()
        if word[0] == "prefill":
            r = e.open(1, int(word[1]))
        elif word[0] == "open":
            r = e.open(int(word[1]), int(word[2]))
        elif word[0] == "decode":
            r = e.decode(int(word[1]))
        elif word[0] == "greedy":
            r = {"tokens": e.greedy([int(t) for t in word[2].split(",")], int(word[1]))}
        else:
            r = {"read": 0, "seconds": 0}
        print(json.dumps(r), flush=True)
