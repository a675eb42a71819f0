"""The cases of the golden oracle: which tiny checkpoints exist, and what each must be sensitive to.

A case is a configuration, how its files look on disk, and a list of ablations: deliberate mistakes
(a forgotten softcap, the wrong GELU, ...) that must move the logits by at least the given relative
amount, so that an engine which makes the mistake cannot pass the golden.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from transformers import (
    CohereForCausalLM,
    FalconForCausalLM,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    GemmaForCausalLM,
    GPT2LMHeadModel,
    GPTNeoXForCausalLM,
    GraniteForCausalLM,
    LlamaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    Olmo2ForCausalLM,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen2MoeForCausalLM,
    Qwen3ForCausalLM,
    Qwen3MoeForCausalLM,
    Starcoder2ForCausalLM,
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
    "embed_in": 3.0,
    "word_embeddings": 3.0,
    "query_key_value": 1.7,
    "qkv_proj": 1.7,
    "attention.dense": 1.5,
    "gate_up_proj": 1.6,
    "dense_h_to_4h": 1.6,
    "dense_4h_to_h": 3.0,
}
NEUTRAL_SPREAD = 0.3
QK_NORM_GAIN = 1.5  # of the norms of q and k, else their scores would be flat

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

SMALL = dict(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=29,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)

# config.json in the style of mistralai/Mistral-7B-v0.1.
PUBLISHED_MISTRAL = {
    "architectures": ["MistralForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "model_type": "mistral",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0",
    "use_cache": True,
    "vocab_size": 29,
}

# config.json in the style of google/gemma-3-1b-pt: two RoPE bases in keys of their own, a pattern and no layer_types.
PUBLISHED_GEMMA3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": 1,
    "final_logit_softcapping": None,
    "head_dim": 8,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 6,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 100.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "rope_theta": 10000.0,
    "sliding_window": 5,
    "sliding_window_pattern": 2,
    "torch_dtype": "float32",
    "transformers_version": "4.50.0.dev0",
    "use_cache": True,
    "vocab_size": 29,
}

# config.json in the style of EleutherAI/pythia-160m.
PUBLISHED_NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 64,
    "model_type": "gpt_neox",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "rotary_emb_base": 100,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.24.0",
    "use_cache": True,
    "use_parallel_residual": True,
    "vocab_size": 29,
}

# config.json in the style of tiiuae/falcon-7b.
PUBLISHED_FALCON = {
    "alibi": False,
    "apply_residual_connection_post_layernorm": False,
    "architectures": ["FalconForCausalLM"],
    "attention_dropout": 0.0,
    "bias": False,
    "bos_token_id": 11,
    "eos_token_id": 11,
    "hidden_dropout": 0.0,
    "hidden_size": 24,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "falcon",
    "multi_query": True,
    "new_decoder_architecture": False,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "parallel_attn": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.27.4",
    "use_cache": True,
    "vocab_size": 29,
}

# config.json in the style of microsoft/Phi-3-mini-128k-instruct: the original context outside the table.
PUBLISHED_PHI3 = {
    "architectures": ["Phi3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "embd_pdrop": 0.0,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "model_type": "phi3",
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "num_key_value_heads": 3,
    "original_max_position_embeddings": 16,
    "pad_token_id": 0,
    "resid_pdrop": 0.0,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "long_factor": [1.5, 2.5, 6.0, 9.0],
        "short_factor": [1.0, 1.1, 1.3, 1.7],
        "type": "longrope",
    },
    "rope_theta": 1000.0,
    "sliding_window": 20,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.2",
    "use_cache": True,
    "vocab_size": 29,
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
    Case(
        name="qwen2_window",
        model_class=Qwen2ForCausalLM,
        config=SMALL
        | dict(
            num_hidden_layers=3,
            rms_norm_eps=1e-5,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=1,
            tie_word_embeddings=True,
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="mistral",
        model_class=MistralForCausalLM,
        config=PUBLISHED_MISTRAL,
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="qwen3",
        model_class=Qwen3ForCausalLM,
        config=SMALL | dict(head_dim=6, tie_word_embeddings=True),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="gemma3",
        model_class=Gemma3ForCausalLM,
        config=PUBLISHED_GEMMA3,
        published=True,
        tokens=13,
        ablations={"embed_scale": STRONG},
    ),
    Case(
        name="gemma3_tables",
        model_class=Gemma3ForCausalLM,
        config=SMALL
        | dict(
            head_dim=10,
            sliding_window=5,
            query_pre_attn_scalar=7,
            final_logit_softcapping=3.0,
            layer_types=["full_attention", "sliding_attention"],
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        ),
        tokens=13,
        ablations={"embed_scale": STRONG, "final_softcap": STRONG},
    ),
    Case(
        name="olmo2",
        model_class=Olmo2ForCausalLM,
        config=SMALL,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="gpt_neox",
        model_class=GPTNeoXForCausalLM,
        config=PUBLISHED_NEOX,
        published=True,
        dtype=torch.float16,
        tokens=13,
        ablations={"biases": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gpt_neox_serial",
        model_class=GPTNeoXForCausalLM,
        config={key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
        | dict(
            use_parallel_residual=False,
            attention_bias=False,
            num_attention_heads=2,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={},
    ),
    Case(
        name="falcon",
        model_class=FalconForCausalLM,
        config=PUBLISHED_FALCON,
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={},
    ),
    Case(
        name="falcon_new",
        model_class=FalconForCausalLM,
        config=dict(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_kv_heads=2,
            vocab_size=29,
            new_decoder_architecture=True,
            ffn_hidden_size=40,
            max_position_embeddings=64,
            bos_token_id=11,
            eos_token_id=11,
        ),
        tokens=13,
        ablations={},
    ),
    Case(
        name="falcon_serial",
        model_class=FalconForCausalLM,
        config=dict(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            vocab_size=29,
            multi_query=False,
            parallel_attn=False,
            bias=True,
            ffn_hidden_size=24,
            max_position_embeddings=64,
            bos_token_id=11,
            eos_token_id=11,
        ),
        tokens=13,
        ablations={"biases": STRONG},
    ),
    Case(
        name="cohere",
        model_class=CohereForCausalLM,
        config=SMALL | dict(logit_scale=0.4, rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="phi3_long",
        model_class=Phi3ForCausalLM,
        config=PUBLISHED_PHI3,
        published=True,
        dtype=torch.bfloat16,
        tokens=23,
        ablations={},
        gains={"qkv_proj": 1.4},
    ),
    Case(
        name="phi3_short",
        model_class=Phi3ForCausalLM,
        config=PUBLISHED_PHI3
        | dict(partial_rotary_factor=0.75, num_key_value_heads=1)
        | dict(
            rope_scaling={
                "long_factor": [1.5, 2.5, 6.0],
                "short_factor": [1.0, 1.1, 1.3],
                "type": "longrope",
            }
        ),
        published=True,
        tokens=13,
        ablations={},
    ),
    Case(
        name="starcoder2",
        model_class=Starcoder2ForCausalLM,
        config=SMALL | dict(sliding_window=5),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="granite",
        model_class=GraniteForCausalLM,
        config=SMALL
        | dict(
            embedding_multiplier=2.0,
            logits_scaling=3.0,
            residual_multiplier=0.6,
            attention_multiplier=0.4,
            mlp_bias=True,
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="llama_yarn_rope",
        model_class=LlamaForCausalLM,
        config=SMALL
        | dict(
            num_attention_heads=2,
            head_dim=16,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 4.0,
                "beta_fast": 4.0,
                "beta_slow": 0.5,
                "original_max_position_embeddings": 16,
            },
        ),
        tokens=23,
        ablations={"rope": STRONG, "rope_scaling": STRONG},
    ),
    Case(
        name="llama_yarn_mscale",
        model_class=LlamaForCausalLM,
        config=SMALL
        | dict(
            num_attention_heads=2,
            head_dim=16,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 4.0,
                "beta_fast": 4.0,
                "beta_slow": 0.5,
                "mscale": 2.0,
                "mscale_all_dim": 0.5,
                "truncate": False,
                "original_max_position_embeddings": 16,
            },
        ),
        tokens=13,
        ablations={"rope": STRONG, "rope_scaling": STRONG},
    ),
    Case(
        name="llama_dynamic_rope",
        model_class=LlamaForCausalLM,
        config=PUBLISHED_LLAMA
        | dict(max_position_embeddings=16, rope_scaling={"type": "dynamic", "factor": 4.0}),
        published=True,
        tokens=23,
        ablations={},
    ),
    Case(
        name="mixtral",
        model_class=MixtralForCausalLM,
        config=SMALL | dict(num_local_experts=5, num_experts_per_tok=2, sliding_window=7),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="qwen3_moe",
        model_class=Qwen3MoeForCausalLM,
        config=SMALL
        | dict(
            num_hidden_layers=3,
            head_dim=6,
            num_experts=6,
            num_experts_per_tok=3,
            moe_intermediate_size=12,
            norm_topk_prob=True,
            mlp_only_layers=[1],
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="qwen2_moe",
        model_class=Qwen2MoeForCausalLM,
        config=SMALL
        | dict(
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=12,
            shared_expert_intermediate_size=14,
            norm_topk_prob=False,
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
        gains={"mlp.gate": 2.0, "q_proj": 1.3, "k_proj": 1.3},
    ),
]
