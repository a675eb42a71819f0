"""The cases of the golden oracle: which tiny checkpoints exist, and what each must be sensitive to.

A case is a configuration, how its files look on disk, and a list of ablations: deliberate mistakes
(a forgotten softcap, the wrong GELU, ...) that must move the logits by at least the given relative
amount, so that an engine which makes the mistake cannot pass the golden.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from transformers import (
    Gemma2ForCausalLM,
    GemmaForCausalLM,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
)

# Spread of the random weights. A matrix gets std gain / sqrt(fan_in); the entry whose name is the
# longest suffix of the module's name wins. Norm weights and biases have std NEUTRAL_SPREAD around
# their neutral value.
GAINS: Mapping[str, float] = {
    "": 1.0,
    "embed_tokens": 3.0,
    "wte": 3.0,
    "wpe": 2.0,
    "lm_head": 3.0,
    "q_proj": 1.7,
    "k_proj": 1.7,
    "c_attn": 1.7,
    "gate_proj": 1.6,
    "c_fc": 1.6,
    "o_proj": 1.5,
    "attn.c_proj": 1.5,
    "down_proj": 3.0,
    "mlp.c_proj": 3.0,
}
NEUTRAL_SPREAD = 0.3

STRONG = 1e-2  # relative change of the logits which a semantic mistake must cause
GELU = 1e-4  # tanh and exact GELU differ by less than 5e-4 anywhere, so the bar is lower


@dataclass(frozen=True)
class Case:
    """One golden: a model family, its configuration and the form of its files."""

    name: str
    model_class: type[PreTrainedModel]
    config: dict
    tokens: int
    ablations: Mapping[str, float]
    published: bool = False  # write `config` itself as config.json, as an old release would have it
    dtype: torch.dtype = torch.float32  # of the stored weights; the forward is always float32
    shard_size: str = "1GB"
    bare_names: bool = False  # GPT-2 without the "transformer." prefix and with its mask buffers
    positions: tuple[int, ...] = ()  # if given, store only the logits at these positions
    gains: Mapping[str, float] = field(default_factory=dict)


GEMMA_SHAPE = dict(
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    max_position_embeddings=64,
    bos_token_id=2,
    eos_token_id=1,
    pad_token_id=0,
)

GEMMA2_CAPS = dict(
    query_pre_attn_scalar=13,
    sliding_window=5,
    attn_logit_softcapping=5.0,
    final_logit_softcapping=3.0,
)

GEMMA2_ABLATIONS = {
    "embed_scale": STRONG,
    "rope": STRONG,
    "attn_softcap": STRONG,
    "final_softcap": STRONG,
    "window": STRONG,
    "query_scalar": STRONG,
    "gelu_form": GELU,
}

LLAMA_SHAPE = dict(
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
)

# config.json as google/gemma-7b was published: "gelu" meant the tanh form.
PUBLISHED_GEMMA = {
    "architectures": ["GemmaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "head_dim": 12,
    "hidden_act": "gelu",
    "hidden_activation": None,
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "model_type": "gemma",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "transformers_version": "4.38.0.dev0",
    "use_cache": True,
    "vocab_size": 41,
}

# config.json as google/gemma-2-2b was published: no layer_types, both activation keys.
PUBLISHED_GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": 5.0,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": 1,
    "final_logit_softcapping": 3.0,
    "head_dim": 8,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "model_type": "gemma2",
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 13,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 5,
    "torch_dtype": "float16",
    "transformers_version": "4.42.4",
    "use_cache": True,
    "vocab_size": 43,
}

# config.json of the first Llama: no rope_theta, no num_key_value_heads, no head_dim.
PUBLISHED_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformers_version": "4.28.0.dev0",
    "use_cache": True,
    "vocab_size": 47,
}

# The same with grouped keys and a linearly stretched context, as Llama 2 derivatives have it.
PUBLISHED_LLAMA_LINEAR = PUBLISHED_LLAMA | {
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"type": "linear", "factor": 3.0},
    "rope_theta": 10000.0,
    "transformers_version": "4.31.0",
    "vocab_size": 37,
}

# config.json in the style of openai-community/gpt2, with every key that changes the arithmetic.
PUBLISHED_GPT2 = {
    "activation_function": "gelu",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 36,
    "embd_pdrop": 0.1,
    "eos_token_id": 36,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-3,
    "model_type": "gpt2",
    "n_ctx": 24,
    "n_embd": 24,
    "n_head": 2,
    "n_inner": 44,
    "n_layer": 3,
    "n_positions": 24,
    "resid_pdrop": 0.1,
    "scale_attn_by_inverse_layer_idx": True,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "tie_word_embeddings": False,
    "vocab_size": 37,
}

CASES = [
    Case(
        name="gemma_mqa",
        model_class=GemmaForCausalLM,
        config=GEMMA_SHAPE
        | dict(vocab_size=37, num_attention_heads=4, num_key_value_heads=1, head_dim=10),
        tokens=17,
        ablations={"embed_scale": STRONG, "rope": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gemma_mha_exact_key",
        model_class=GemmaForCausalLM,
        config=PUBLISHED_GEMMA,
        published=True,
        tokens=15,
        ablations={"embed_scale": STRONG, "rope": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gemma2",
        model_class=Gemma2ForCausalLM,
        config=GEMMA_SHAPE
        | GEMMA2_CAPS
        | dict(
            vocab_size=41,
            intermediate_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            # not the alternation which old files imply, so layer_types has to be read
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        ),
        tokens=17,
        ablations=GEMMA2_ABLATIONS | {"layer_types": STRONG},
    ),
    Case(
        name="gemma2_f16",
        model_class=Gemma2ForCausalLM,
        config=PUBLISHED_GEMMA2,
        published=True,
        dtype=torch.float16,
        tokens=17,
        ablations=GEMMA2_ABLATIONS,
    ),
    Case(
        name="llama_mha",
        model_class=LlamaForCausalLM,
        config=PUBLISHED_LLAMA,
        published=True,
        tokens=16,
        ablations={"rope": STRONG},
    ),
    Case(
        name="llama_gqa_bf16_sharded",
        model_class=LlamaForCausalLM,
        config=LLAMA_SHAPE
        | dict(
            vocab_size=53,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=6,
            tie_word_embeddings=True,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        ),
        dtype=torch.bfloat16,
        shard_size="10KB",
        tokens=16,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="llama3_rope",
        model_class=LlamaForCausalLM,
        config=LLAMA_SHAPE
        | dict(
            vocab_size=41,
            intermediate_size=32,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=24,
            max_position_embeddings=224,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                # the shortest wavelength is 2 pi, so below 8 pi no band would be kept
                "original_max_position_embeddings": 28,
            },
        ),
        tokens=29,
        ablations={"rope": STRONG, "rope_scaling": STRONG},
    ),
    Case(
        name="llama_linear_rope",
        model_class=LlamaForCausalLM,
        config=PUBLISHED_LLAMA_LINEAR,
        published=True,
        tokens=19,
        ablations={"rope": STRONG, "rope_scaling": STRONG},
    ),
    Case(
        name="llama_long",
        model_class=LlamaForCausalLM,
        config=LLAMA_SHAPE
        | dict(
            vocab_size=61,
            hidden_size=32,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        tokens=1100,
        positions=(0, 1, 64, 500, 1000, 1099),
        ablations={"rope": STRONG},
    ),
    Case(
        name="gpt2",
        model_class=GPT2LMHeadModel,
        config=dict(
            vocab_size=43,
            n_embd=24,
            n_head=3,
            n_layer=2,
            n_positions=32,
            bos_token_id=42,
            eos_token_id=42,
        ),
        tokens=16,
        ablations={"positions": STRONG, "biases": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gpt2_variant",
        model_class=GPT2LMHeadModel,
        config=PUBLISHED_GPT2,
        published=True,
        bare_names=True,
        tokens=15,
        ablations={
            "positions": STRONG,
            "biases": STRONG,
            "layer_scale": STRONG,
            "norm_eps": STRONG,
            "gelu_form": GELU,
        },
        # a small residual stream, so that the epsilon counts; the layer index divides the scores
        gains={"wte": 0.5, "wpe": 0.3, "c_attn": 2.2, "attn.c_proj": 1.2},
    ),
    Case(
        name="gpt2_relu",
        model_class=GPT2LMHeadModel,
        config=dict(
            vocab_size=37,
            n_embd=24,
            n_head=1,
            n_layer=1,
            n_positions=13,  # exactly the prompt
            activation_function="relu",
            bos_token_id=36,
            eos_token_id=36,
        ),
        tokens=13,
        ablations={"positions": STRONG, "biases": STRONG},
    ),
]
