"""Makes fixtures/vision/tower/: a small Gemma 3 with random weights, and what transformers' tower and projector give for two images.

    python tools/make_vision_tower_fixture.py           (packages: tools/requirements-goldens.txt)

Its sizes are those that kernels find awkward: heads of 72 columns, as in the published checkpoints, an inner width that is no multiple
of 16, patch rows of 48 numbers, 324 patches, so that attention crosses a range of 256 keys, and squares of 36 patches. golden.safetensors:
    pixel_values                                f32 [2, 3, 72, 72]
    vision_tower.vision_model.post_layernorm    f32 [2 * 324, 144]   after the last norm, float32 on the CPU
    multi_modal_projector.mm_input_projection   f32 [2 * 9, 32]      projected rows, float32
    features_f64                                i32 [2 * 9, 32, 2]   the bytes of the float64 evaluation, as pairs of little-endian words

Nodes have their names, so the file is also a side of `lockstep verify --pixels`.
"""

from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "vision" / "tower"
TEXT = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
            query_pre_attn_scalar=16, max_position_embeddings=512, sliding_window=8)
VISION = dict(hidden_size=144, intermediate_size=196, num_hidden_layers=2, num_attention_heads=2, image_size=72, patch_size=4, vision_use_head=False)


def randomise(model):
    """Gaussian matrices scaled by their fan-in, norm weights around their neutral value, biases that matter."""
    gen = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            neutral = 1.0 if "layer" in name and "norm" in name and "vision" in name and name.endswith("weight") else 0.0
            p.copy_(neutral + 0.25 * noise if p.dim() == 1 else 1.5 * noise / p[0].numel() ** 0.5)


def features(model, pixels):
    with torch.no_grad():
        tower = model.model.vision_tower(pixel_values=pixels).last_hidden_state
        return tower, model.model.multi_modal_projector(tower)


def main():
    config = Gemma3Config(text_config=TEXT, vision_config=VISION, mm_tokens_per_image=9, image_token_index=90, boi_token_index=91, eoi_token_index=92)
    config._attn_implementation = "eager"
    model = Gemma3ForConditionalGeneration(config).eval()
    randomise(model)
    model = model.to(torch.bfloat16)
    FOLDER.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    model = model.float()
    pixels = torch.rand(2, 3, 72, 72, generator=torch.Generator().manual_seed(6)) * 2 - 1
    tower, rows = features(model, pixels)
    _, exact = features(model.double(), pixels.double())
    error = ((rows.double() - exact).square().mean() / exact.square().mean()).sqrt().item()
    print(f"features: std {exact.std().item():.3f}, float32 differs from float64 by {error:.2e} relative RMS")
    save_file({"pixel_values": pixels.numpy(), "vision_tower.vision_model.post_layernorm": tower.reshape(-1, tower.shape[-1]).contiguous().numpy(),
               "multi_modal_projector.mm_input_projection": rows.reshape(-1, rows.shape[-1]).contiguous().numpy(),
               "features_f64": np.frombuffer(exact.numpy().tobytes(), dtype="<i4").reshape(-1, exact.shape[-1], 2)}, FOLDER / "golden.safetensors")


if __name__ == "__main__":
    main()
