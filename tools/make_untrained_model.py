"""Write models/default as long as no trained model ships: a tiny model with random weights and a byte tokenizer.

It has every feature of a Gemma 2 (four norms, window, softcaps, shared key/value heads), so that the program can be
tried end to end. Only Python's standard library is needed. Usage: python tools/make_untrained_model.py
"""

import json
import random
import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "models" / "default"
VOCAB_SIZE = 259  # <unk>, <s>, </s> and 256 bytes
CONFIG = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "sliding_window": 128,
    "query_pre_attn_scalar": 16,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}


def tensors() -> dict[str, list[int]]:
    """Names and shapes, as transformers stores this family."""
    d, ff = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    d_q = CONFIG["num_attention_heads"] * CONFIG["head_dim"]
    d_kv = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    shapes = {"model.embed_tokens.weight": [VOCAB_SIZE, d], "model.norm.weight": [d]}
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            shapes[f"{at}{norm}_layernorm.weight"] = [d]
        shapes[at + "self_attn.q_proj.weight"] = [d_q, d]
        shapes[at + "self_attn.k_proj.weight"] = [d_kv, d]
        shapes[at + "self_attn.v_proj.weight"] = [d_kv, d]
        shapes[at + "self_attn.o_proj.weight"] = [d, d_q]
        shapes[at + "mlp.gate_proj.weight"] = [ff, d]
        shapes[at + "mlp.up_proj.weight"] = [ff, d]
        shapes[at + "mlp.down_proj.weight"] = [d, ff]
    return shapes


def bfloat16(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


def weights(shape: list[int], draw: random.Random) -> bytes:
    """Norms store w - 1, so zero is neutral; matrices have sigma 1/sqrt(fan in)."""
    if len(shape) == 1:
        return bytes(2 * shape[0])
    sigma = shape[1] ** -0.5
    return b"".join(bfloat16(draw.gauss(0, sigma)) for _ in range(shape[0] * shape[1]))


def write_safetensors(path: Path) -> None:
    draw = random.Random(1)
    header, data = {}, b""
    for name, shape in tensors().items():
        part = weights(shape, draw)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_tokenizer(path: Path) -> None:
    """The llama2.c format: a score and a piece for each id."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % byte for byte in range(256)]
    entries = b"".join(struct.pack("<fi", 0.0, len(piece)) + piece for piece in pieces)
    path.write_bytes(struct.pack("<i", max(map(len, pieces))) + entries)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    write_safetensors(FOLDER / "model.safetensors")
    write_tokenizer(FOLDER / "tokenizer.bin")
    (FOLDER / "UNTRAINED").write_text("These weights are random. Made by tools/make_untrained_model.py.\n")


main()
