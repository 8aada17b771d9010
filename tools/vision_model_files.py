"""Every file of a tiny Gemma 3 vision checkpoint but its weights: configuration, tokenizer, chat template, processor.

The tokenizer has the form of Gemma's: a SentencePiece-like BPE with byte fallback in tokenizer.json, spaces as U+2581, runs
of newlines as tokens, special tokens for turns and images. Its 512 pieces are learned here from a fixed list of words, so the
files are the same wherever they are made.
"""

import json
from collections import Counter

VOCAB = 512
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
NEWLINES = ["\n" * n for n in range(1, 9)]
ID = {text: i for i, text in enumerate(SPECIAL + NEWLINES)}
IMAGE_SIZE = 64
WORDS = {  # of the little world, with a weight; U+2581 stands for the space before
    "!": 190, ",": 442, ".": 897, ":": 618, "?": 535, "A": 298, "Black": 37, "Blue": 40, "Both": 58, "Circles": 127,
    "Count": 126, "Describe": 280, "Eight": 43, "First": 261, "Five": 41, "Four": 105, "Green": 31, "Hello": 190,
    "How": 275, "I": 214, "Neither": 74, "Nothing": 154, "One": 186, "Red": 138, "Second": 200, "Seven": 34, "Six": 48,
    "The": 162, "Three": 130, "Top": 138, "Two": 138, "What": 300, "Where": 226, "Which": 263, "White": 30,
    "Yellow": 38, "Zero": 92, "model": 100, "user": 100, "\u2581Bottom": 388, "\u2581Second": 167, "\u2581Show": 134,
    "\u2581Top": 362, "\u2581a": 407, "\u2581after": 126, "\u2581and": 309, "\u2581are": 356, "\u2581at": 138,
    "\u2581black": 310, "\u2581blue": 312, "\u2581both": 167, "\u2581bottom": 105, "\u2581can": 120,
    "\u2581circle": 392, "\u2581circles": 67, "\u2581colour": 107, "\u2581colours": 132, "\u2581comes": 126,
    "\u2581describe": 120, "\u2581do": 220, "\u2581eight": 63, "\u2581first": 220, "\u2581five": 114,
    "\u2581four": 115, "\u2581green": 305, "\u2581has": 188, "\u2581in": 238, "\u2581is": 244, "\u2581know": 184,
    "\u2581left": 419, "\u2581many": 275, "\u2581me": 134, "\u2581no": 178, "\u2581nothing": 328, "\u2581of": 208,
    "\u2581one": 62, "\u2581picture": 574, "\u2581pictures": 206, "\u2581red": 283, "\u2581right": 415,
    "\u2581second": 232, "\u2581see": 178, "\u2581seven": 92, "\u2581shapes": 379, "\u2581six": 102,
    "\u2581square": 401, "\u2581squares": 149, "\u2581the": 467, "\u2581there": 217, "\u2581three": 131,
    "\u2581to": 126, "\u2581top": 89, "\u2581triangle": 394, "\u2581triangles": 140, "\u2581two": 134,
    "\u2581white": 310, "\u2581yellow": 312, "\u2581you": 220, "\u2581zero": 44,
}
PATCH_SIZE = 8
IMAGE_TOKENS = 16

CHAT_TEMPLATE = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] if messages[0]['content'] is string else messages[0]['content'][0]['text'] -%}
    {%- set prefix = first + '\\n\\n' -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set prefix = '' -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('user and assistant must take turns') }}
    {%- endif -%}
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' + (prefix if loop.first else '') }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- else -%}
        {%- for part in message['content'] -%}
            {%- if part['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif part['type'] == 'text' -%}
                {{ part['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""


def learn_pieces():
    """(characters, merges): byte-pair merges within words; ties go to the pair that sorts first."""
    split = {w: list(w) for w in WORDS}
    characters = sorted({c for w in WORDS for c in w})
    merges = []
    while len(SPECIAL) + len(NEWLINES) + 256 + len(characters) + len(merges) < VOCAB:
        pairs = Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += WORDS[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for parts in split.values():
            for i in range(len(parts) - 1):
                if tuple(parts[i:i + 2]) == best:
                    parts[i:i + 2] = ["".join(best)]
    return characters, merges


def tokenizer_json():
    characters, merges = learn_pieces()
    pieces = SPECIAL + NEWLINES + [f"<0x{b:02X}>" for b in range(256)]
    pieces += [a + b for a, b in merges] + characters
    assert len(set(pieces)) == len(pieces) <= VOCAB, len(pieces)
    pieces += [f"<unused{i}>" for i in range(VOCAB - len(pieces))]
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": t in SPECIAL}
             for i, t in enumerate(SPECIAL + NEWLINES)]
    bos = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
    a, b = ({"Sequence": {"id": s, "type_id": t}} for s, t in (("A", 0), ("B", 1)))
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing", "single": [bos, a],
            "pair": [bos, a, {"SpecialToken": {"id": "<bos>", "type_id": 1}}, b],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [ID["<bos>"]], "tokens": ["<bos>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}],
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
            "vocab": {p: i for i, p in enumerate(pieces)}, "merges": [list(m) for m in merges],
        },
    }


def tokenizer_config():
    decoder = {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": t in SPECIAL}
               for t, i in ID.items()}
    images = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    return {
        "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": decoder, "bos_token": "<bos>", "eos_token": "<eos>",
        "pad_token": "<pad>", "unk_token": "<unk>", "clean_up_tokenization_spaces": False, "extra_special_tokens": images, **images,
        "model_max_length": 1024, "processor_class": "Gemma3Processor", "spaces_between_special_tokens": False,
        "tokenizer_class": "GemmaTokenizer", "use_default_system_prompt": False, "chat_template": CHAT_TEMPLATE,
    }


def preprocessor_config():
    return {
        "do_convert_rgb": None, "do_normalize": True, "do_pan_and_scan": None, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_processor_type": "Gemma3ImageProcessor", "image_seq_length": IMAGE_TOKENS,
        "image_std": [0.5, 0.5, 0.5], "pan_and_scan_max_num_crops": None, "pan_and_scan_min_crop_size": None,
        "pan_and_scan_min_ratio_to_activate": None, "processor_class": "Gemma3Processor", "resample": 2, "rescale_factor": 1 / 255,
        "size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
    }


def config(text, vision):
    """config.json from the sizes of both halves, in the form of the published gemma-3-4b-it."""
    n_layers = text["num_hidden_layers"]
    text = {
        "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None, "final_logit_softcapping": None,
        "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02, "max_position_embeddings": 1024, "model_type": "gemma3_text",
        "layer_types": ["full_attention" if i % 2 else "sliding_attention" for i in range(n_layers)], "rms_norm_eps": 1e-6,
        "rope_local_base_freq": 10000.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 1000000.0, "sliding_window": 32,
        "use_cache": True, "vocab_size": VOCAB, **text,
    }
    vision = {
        "attention_dropout": 0.0, "hidden_act": "gelu_pytorch_tanh", "image_size": IMAGE_SIZE, "layer_norm_eps": 1e-6,
        "model_type": "siglip_vision_model", "num_channels": 3, "patch_size": PATCH_SIZE, "vision_use_head": False, **vision,
    }
    return {
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": ID["<start_of_image>"], "bos_token_id": ID["<bos>"],
        "eoi_token_index": ID["<end_of_image>"], "eos_token_id": [ID["<eos>"], ID["<end_of_turn>"]], "image_token_index": ID["<image_soft_token>"],
        "initializer_range": 0.02, "mm_tokens_per_image": IMAGE_TOKENS, "model_type": "gemma3", "pad_token_id": ID["<pad>"],
        "text_config": text, "torch_dtype": "bfloat16", "vision_config": vision,
    }


def generation_config():
    return {"bos_token_id": ID["<bos>"], "do_sample": False, "eos_token_id": [ID["<eos>"], ID["<end_of_turn>"]], "pad_token_id": ID["<pad>"],
            "transformers_version": "4.57.6"}


def write(folder, model_config):
    """All files but the weights. |model_config|: config()'s."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "config.json": model_config, "generation_config.json": generation_config(), "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": tokenizer_config(), "preprocessor_config.json": preprocessor_config(),
        "processor_config.json": {"image_seq_length": IMAGE_TOKENS, "processor_class": "Gemma3Processor"},
        "chat_template.json": {"chat_template": CHAT_TEMPLATE},
        "special_tokens_map.json": {k: v for k, v in tokenizer_config().items() if k.endswith("_token") and isinstance(v, str)},
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value, indent=1, sort_keys=name != "tokenizer.json", ensure_ascii=False) + "\n")
