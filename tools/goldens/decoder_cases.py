"""The cases of the golden oracle: the tiny checkpoints, and the mistakes that each must detect.

A case is a configuration, the names of its modules, the form of its files, and a list of ablations: deliberate mistakes
(a forgotten softcap, the wrong GELU, ...) that must change the logits by at least the given relative amount, so that an
engine with that mistake cannot pass the golden.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
import transformers
from goldens.sites import LLAMA, Layout
from transformers import PreTrainedModel

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

# Families whose modules have other names than Llama's.
GEMMA2 = replace(
    LLAMA,
    ln1_post="post_attention_layernorm",
    ln2="pre_feedforward_layernorm",
    ln2_post="post_feedforward_layernorm",
)
GPT2 = Layout(
    blocks="transformer.h",
    embed="transformer.wte",
    pos_embed="transformer.wpe",
    final_norm="transformer.ln_f",
    ln1="ln_1",
    ln2="ln_2",
    attn_proj="attn.c_proj",
    mlp="mlp",
    mlp_pre="mlp.c_fc",
    mlp_down="mlp.c_proj",
)
OLMO2 = replace(
    LLAMA,
    ln1=None,
    ln2=None,
    ln1_post="post_attention_layernorm",
    ln2_post="post_feedforward_layernorm",
)
NEOX = Layout(
    blocks="gpt_neox.layers",
    embed="gpt_neox.embed_in",
    final_norm="gpt_neox.final_layer_norm",
    ln1="input_layernorm",
    ln2="post_attention_layernorm",
    attn_proj="attention.dense",
    mlp="mlp",
    mlp_pre="mlp.dense_h_to_4h",
    mlp_down="mlp.dense_4h_to_h",
)
FALCON = replace(
    NEOX,
    blocks="transformer.h",
    embed="transformer.word_embeddings",
    final_norm="transformer.ln_f",
    attn_proj="self_attention.dense",
)
COHERE = replace(LLAMA, ln2=None, parallel=True)
PHI3 = replace(LLAMA, mlp_gate_up="mlp.gate_up_proj")
GLM4 = replace(
    PHI3,
    ln1_post="post_self_attn_layernorm",
    ln2_post="post_mlp_layernorm",
)
HUNYUAN = replace(
    LLAMA,
    q_norm="self_attn.query_layernorm",
    k_norm="self_attn.key_layernorm",
    norm_after_rope=True,
)
UNGATED = replace(LLAMA, mlp_pre="mlp.up_proj", mlp_up=None)
STABLELM = replace(LLAMA, q_norm="self_attn.q_layernorm", k_norm="self_attn.k_layernorm")
STARCODER2 = replace(LLAMA, mlp_pre="mlp.c_fc", mlp_up=None, mlp_down="mlp.c_proj")


class InternLM3ForCausalLM(transformers.LlamaForCausalLM):
    """transformers has the config of InternLM 3, and computes it with the classes of Llama."""

    config_class = transformers.InternLM3Config
    __module__ = transformers.LlamaForCausalLM.__module__


@dataclass(frozen=True)
class Case:
    """One golden: a model family, its configuration and the form of its files."""

    name: str
    proves: str
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
    layout: Layout = LLAMA


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
        proves=(
            "Gemma with one key/value head, head width not d/H, tied unembedding, `config.json` "
            "as transformers 5 writes it"
        ),
        model_class=transformers.GemmaForCausalLM,
        config=GEMMA_SHAPE
        | dict(vocab_size=37, num_attention_heads=4, num_key_value_heads=1, head_dim=10),
        tokens=17,
        ablations={"embed_scale": STRONG, "rope": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gemma_mha_exact_key",
        proves=(
            "Gemma's first published config: old keys, and `hidden_act` gelu, which means the tanh form"
        ),
        model_class=transformers.GemmaForCausalLM,
        config=PUBLISHED_GEMMA,
        published=True,
        tokens=15,
        ablations={"embed_scale": STRONG, "rope": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gemma2",
        proves=(
            "Gemma 2: both softcaps, query scalar, sliding window 5, four norms, grouped keys; "
            "`layer_types` (full, sliding, sliding) must be read and not assumed"
        ),
        model_class=transformers.Gemma2ForCausalLM,
        layout=GEMMA2,
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
        proves=(
            "the same from float16 weights and old keys without `layer_types` (then: sliding, "
            "full, sliding), one key/value head"
        ),
        model_class=transformers.Gemma2ForCausalLM,
        layout=GEMMA2,
        config=PUBLISHED_GEMMA2,
        published=True,
        dtype=torch.float16,
        tokens=17,
        ablations=GEMMA2_ABLATIONS,
    ),
    Case(
        name="llama_mha",
        proves=(
            "the first Llama's config: no `rope_theta`, no `num_key_value_heads`, no `head_dim`; "
            "own unembedding"
        ),
        model_class=transformers.LlamaForCausalLM,
        config=PUBLISHED_LLAMA,
        published=True,
        tokens=16,
        ablations={"rope": STRONG},
    ),
    Case(
        name="llama_gqa_bf16_sharded",
        proves=(
            "bfloat16 in three shards with an index, grouped keys, biases everywhere, tied, head "
            "width not d/H, `rope_theta` 1000"
        ),
        model_class=transformers.LlamaForCausalLM,
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
        proves=(
            "Llama 3's RoPE scaling with all three bands (kept, blended, divided), prompt longer "
            "than the original context"
        ),
        model_class=transformers.LlamaForCausalLM,
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
        proves=(
            "linear RoPE scaling in the old key `rope_scaling` with `type`, grouped keys, "
            "`rms_norm_eps` 1e-5"
        ),
        model_class=transformers.LlamaForCausalLM,
        config=PUBLISHED_LLAMA_LINEAR,
        published=True,
        tokens=19,
        ablations={"rope": STRONG, "rope_scaling": STRONG},
    ),
    Case(
        name="llama_long",
        proves="1100 positions: RoPE angles and sums stay accurate far out",
        model_class=transformers.LlamaForCausalLM,
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
        proves=(
            "GPT-2 with the tanh GELU, LayerNorm and biases, learned positions, tied, names with "
            "the prefix `transformer.`"
        ),
        model_class=transformers.GPT2LMHeadModel,
        layout=GPT2,
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
        proves=(
            "exact GELU, `n_inner`, scores divided by the layer number, large epsilon, own "
            "unembedding, names without prefix, mask buffers among the weights (one of them a "
            "scalar)"
        ),
        model_class=transformers.GPT2LMHeadModel,
        layout=GPT2,
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
        proves="ReLU, one head, one layer, a prompt of exactly `n_positions` tokens",
        model_class=transformers.GPT2LMHeadModel,
        layout=GPT2,
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
        proves="Qwen 2: biases on q, k, v only, a window from layer `max_window_layers` on",
        model_class=transformers.Qwen2ForCausalLM,
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
        proves="Mistral's published keys: a window in all layers, bfloat16",
        model_class=transformers.MistralForCausalLM,
        config=PUBLISHED_MISTRAL,
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="qwen3",
        proves="q and k normalized over each head, head width not d/H",
        model_class=transformers.Qwen3ForCausalLM,
        config=SMALL | dict(head_dim=6, tie_word_embeddings=True),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="gemma3",
        proves=(
            "Gemma 3's published keys: two RoPE bases, scaling for the full layers only, a "
            "pattern without `layer_types`, q and k normalized with 1 + w"
        ),
        model_class=transformers.Gemma3ForCausalLM,
        layout=GEMMA2,
        config=PUBLISHED_GEMMA3,
        published=True,
        tokens=13,
        ablations={"embed_scale": STRONG},
    ),
    Case(
        name="gemma3_tables",
        proves=(
            "the same in the keys of transformers 5: a RoPE table for each type of layer; final "
            "softcap"
        ),
        model_class=transformers.Gemma3ForCausalLM,
        layout=GEMMA2,
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
        proves="norms after the sublayers only, q and k normalized over their full width",
        model_class=transformers.Olmo2ForCausalLM,
        layout=OLMO2,
        config=SMALL,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="gpt_neox",
        proves=(
            "parallel residual with two norms, RoPE on a quarter of each head, q, k, v mixed head "
            "by head, float16"
        ),
        model_class=transformers.GPTNeoXForCausalLM,
        layout=replace(NEOX, parallel=True),
        config=PUBLISHED_NEOX,
        published=True,
        dtype=torch.float16,
        tokens=13,
        ablations={"biases": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="gpt_neox_serial",
        proves="the same without parallel residual and without biases of attention",
        model_class=transformers.GPTNeoXForCausalLM,
        layout=NEOX,
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
        proves="Falcon's first kind: one K/V head, parallel residual on one norm",
        model_class=transformers.FalconForCausalLM,
        layout=replace(FALCON, ln2=None, parallel=True),
        config=PUBLISHED_FALCON,
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={},
    ),
    Case(
        name="falcon_new",
        proves="the second kind: grouped heads in one tensor, two norms",
        model_class=transformers.FalconForCausalLM,
        layout=replace(FALCON, ln1="ln_attn", ln2="ln_mlp", parallel=True),
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
        proves="the first kind, neither parallel nor multi-query, with biases",
        model_class=transformers.FalconForCausalLM,
        layout=FALCON,
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
        proves=(
            "LayerNorm without bias, interleaved RoPE, parallel residual on one norm, scaled "
            "logits"
        ),
        model_class=transformers.CohereForCausalLM,
        layout=COHERE,
        config=SMALL | dict(logit_scale=0.4, rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="cohere_qk_norm",
        proves="Command R+'s published keys: LayerNorm of q and k with a weight for each head, float16",
        model_class=transformers.CohereForCausalLM,
        layout=COHERE,
        config={
            "architectures": ["CohereForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 5,
            "eos_token_id": 6,
            "hidden_act": "silu",
            "hidden_size": 16,
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "layer_norm_eps": 1e-05,
            "logit_scale": 0.8333333333333334,
            "max_position_embeddings": 64,
            "model_max_length": 64,
            "model_type": "cohere",
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "pad_token_id": 0,
            "rope_theta": 1000.0,
            "torch_dtype": "float16",
            "transformers_version": "4.40.0.dev0",
            "use_cache": True,
            "use_qk_norm": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.float16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="cohere2",
        proves="Cohere 2's published keys: layers with RoPE and a window, and full layers without RoPE; bfloat16",
        model_class=transformers.Cohere2ForCausalLM,
        layout=COHERE,
        config={
            "architectures": ["Cohere2ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 5,
            "cache_implementation": "hybrid",
            "eos_token_id": 6,
            "head_dim": 4,
            "hidden_act": "silu",
            "hidden_size": 16,
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "layer_norm_eps": 1e-05,
            "layer_switch": 3,
            "logit_scale": 0.25,
            "max_position_embeddings": 64,
            "model_type": "cohere2",
            "num_attention_heads": 4,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "order_of_interleaved_layers": "local_attn_first",
            "pad_token_id": 0,
            "position_embedding_type": "rope_gptj",
            "rope_scaling": None,
            "rope_theta": 50.0,
            "rotary_pct": 1.0,
            "sliding_window": 5,
            "sliding_window_pattern": 3,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.48.0.dev0",
            "use_cache": True,
            "use_embedding_sharing": True,
            "use_gated_activation": True,
            "use_parallel_block": True,
            "use_parallel_embedding": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="cohere2_layer_types",
        proves="the same in the keys of transformers 5: `layer_types` that no pattern gives, biases",
        model_class=transformers.Cohere2ForCausalLM,
        layout=COHERE,
        config=SMALL
        | dict(
            num_hidden_layers=3,
            attention_bias=True,
            logit_scale=0.3,
            sliding_window=4,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="phi",
        proves="Phi-2's published keys: a parallel block on one norm, RoPE on half of each head, a bias of the unembedding",
        model_class=transformers.PhiForCausalLM,
        layout=replace(
            COHERE,
            final_norm="model.final_layernorm",
            attn_proj="self_attn.dense",
            mlp_pre="mlp.fc1",
            mlp_up=None,
            mlp_down="mlp.fc2",
        ),
        config={
            "architectures": ["PhiForCausalLM"],
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "embd_pdrop": 0.0,
            "eos_token_id": 1,
            "hidden_act": "gelu_new",
            "hidden_size": 32,
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 64,
            "model_type": "phi",
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 2,
            "partial_rotary_factor": 0.5,
            "qk_layernorm": False,
            "resid_pdrop": 0.1,
            "rope_scaling": None,
            "rope_theta": 100.0,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "transformers_version": "4.37.0",
            "use_cache": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.float16,
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG, "gelu_form": GELU},
        gains={"dense": 1.5, "fc1": 1.6, "fc2": 3.0},
    ),
    Case(
        name="phi3_long",
        proves=(
            "fused qkv and gate_up; LongRoPE beyond the original context and within it (there a "
            "part of each head)"
        ),
        model_class=transformers.Phi3ForCausalLM,
        layout=PHI3,
        config=PUBLISHED_PHI3,
        published=True,
        dtype=torch.bfloat16,
        tokens=23,
        ablations={},
        gains={"qkv_proj": 1.4},
    ),
    Case(
        name="phi3_short",
        proves=(
            "fused qkv and gate_up; LongRoPE beyond the original context and within it (there a "
            "part of each head)"
        ),
        model_class=transformers.Phi3ForCausalLM,
        layout=PHI3,
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
        name="smollm3",
        proves="SmolLM 3's published keys: a layer without RoPE",
        model_class=transformers.SmolLM3ForCausalLM,
        config={
            "architectures": ["SmolLM3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_size": 16,
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "layer_types": ["full_attention"] * 4,
            "max_position_embeddings": 64,
            "max_window_layers": 28,
            "mlp_bias": False,
            "model_type": "smollm3",
            "no_rope_layer_interval": 4,
            "no_rope_layers": [1, 1, 1, 0],
            "num_attention_heads": 4,
            "num_hidden_layers": 4,
            "num_key_value_heads": 2,
            "pad_token_id": 0,
            "pretraining_tp": 2,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 100.0,
            "sliding_window": None,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.54.0.dev0",
            "use_cache": False,
            "use_sliding_window": False,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="starcoder2",
        proves="LayerNorm, biases everywhere, a plain FFN, window",
        model_class=transformers.Starcoder2ForCausalLM,
        layout=STARCODER2,
        config=SMALL | dict(sliding_window=5),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG, "gelu_form": GELU},
    ),
    Case(
        name="granite",
        proves="four multipliers: embedding, scores, residual, logits",
        model_class=transformers.GraniteForCausalLM,
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
        proves=(
            "YaRN: kept, blended and divided pairs beyond the original context; its magnitude by "
            "factor, and by `mscale`; ends of the ramp truncated or not"
        ),
        model_class=transformers.LlamaForCausalLM,
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
        proves=(
            "YaRN: kept, blended and divided pairs beyond the original context; its magnitude by "
            "factor, and by `mscale`; ends of the ramp truncated or not"
        ),
        model_class=transformers.LlamaForCausalLM,
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
        proves="dynamic NTK, a prompt beyond the original context",
        model_class=transformers.LlamaForCausalLM,
        config=PUBLISHED_LLAMA
        | dict(max_position_embeddings=16, rope_scaling={"type": "dynamic", "factor": 4.0}),
        published=True,
        tokens=23,
        ablations={},
    ),
    Case(
        name="mixtral",
        proves="experts with renormalized weights, window",
        model_class=transformers.MixtralForCausalLM,
        config=SMALL | dict(num_local_experts=5, num_experts_per_tok=2, sliding_window=7),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="qwen3_moe",
        proves="experts and a dense layer, normalized q and k",
        model_class=transformers.Qwen3MoeForCausalLM,
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
        proves="experts without renormalization, and a shared one with its gate",
        model_class=transformers.Qwen2MoeForCausalLM,
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
    Case(
        name="olmo3",
        proves=(
            "OLMo 3: OLMo 2's block, `layer_types` that no pattern gives, YaRN on the full layer alone"
        ),
        model_class=transformers.Olmo3ForCausalLM,
        layout=OLMO2,
        config=SMALL
        | dict(
            hidden_size=32,
            intermediate_size=20,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            sliding_window=5,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters={
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 1000.0,
                    "factor": 4.0,
                    "beta_fast": 4.0,
                    "beta_slow": 0.5,
                    "attention_factor": 1.2,
                    "original_max_position_embeddings": 16,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
            },
        ),
        tokens=15,
        ablations={"layer_types": STRONG},
    ),
    Case(
        name="seed_oss",
        proves="Seed-OSS: biases of q, k and v, but not of the output",
        model_class=transformers.SeedOssForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            intermediate_size=28,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=6,
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="ernie4_5",
        proves="ERNIE 4.5: interleaved RoPE",
        model_class=transformers.Ernie4_5ForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=8,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        ),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="hunyuan_v1_dense",
        proves="Hunyuan's published keys: q and k normalized after RoPE, whose theta `alpha` stretches; bfloat16",
        model_class=transformers.HunYuanDenseV1ForCausalLM,
        layout=HUNYUAN,
        config={
            "architectures": ["HunYuanDenseV1ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attention_head_dim": 8,
            "bos_token_id": 1,
            "cla_share_factor": 2,
            "eod_token_id": 3,
            "eos_token_id": 2,
            "head_dim": 8,
            "hidden_act": "silu",
            "hidden_size": 20,
            "initializer_range": 0.02,
            "intermediate_size": 28,
            "max_position_embeddings": 64,
            "mlp_bias": False,
            "model_type": "hunyuan_v1_dense",
            "norm_type": "rms",
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "num_key_value_heads": 1,
            "pad_token_id": 0,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "alpha": 50.0,
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "type": "dynamic",
            },
            "rope_theta": 100.0,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.41.2",
            "use_cache": True,
            "use_cla": False,
            "use_qk_norm": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="helium",
        proves="Helium: interleaved RoPE, biases of q, k, v and of the FFN, none of the output",
        model_class=transformers.HeliumForCausalLM,
        config=SMALL
        | dict(
            hidden_size=24,
            num_attention_heads=3,
            num_key_value_heads=1,
            head_dim=8,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="glm",
        proves="GLM 4: interleaved RoPE on half of each head, fused gate_up, biases of q, k and v",
        model_class=transformers.GlmForCausalLM,
        layout=PHI3,
        config=SMALL
        | dict(
            hidden_size=20,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=12,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="glm4",
        proves="the same with norms after the sublayers, in the keys of older files",
        model_class=transformers.Glm4ForCausalLM,
        layout=GLM4,
        config={
            "architectures": ["Glm4ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "eos_token_id": [2, 3],
            "head_dim": 8,
            "hidden_act": "silu",
            "hidden_size": 20,
            "initializer_range": 0.02,
            "intermediate_size": 24,
            "max_position_embeddings": 64,
            "model_type": "glm4",
            "num_attention_heads": 5,
            "num_hidden_layers": 2,
            "num_key_value_heads": 1,
            "pad_token_id": 0,
            "partial_rotary_factor": 0.5,
            "rms_norm_eps": 1e-05,
            "rope_theta": 100.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.52.0.dev0",
            "use_cache": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.bfloat16,
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="ministral",
        proves="Ministral: a window in the layers that `layer_types` names",
        model_class=transformers.MinistralForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=3,
            head_dim=6,
            sliding_window=5,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        ),
        tokens=13,
        ablations={"rope": STRONG, "layer_types": STRONG},
    ),
    Case(
        name="internlm3",
        proves="InternLM 3's published keys: `qkv_bias` and `bias`, dynamic NTK beyond the original context",
        model_class=InternLM3ForCausalLM,
        config={
            "architectures": ["InternLM3ForCausalLM"],
            "bias": True,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "head_dim": 8,
            "hidden_act": "silu",
            "hidden_size": 24,
            "initializer_range": 0.02,
            "intermediate_size": 20,
            "max_position_embeddings": 16,
            "model_type": "internlm3",
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "num_key_value_heads": 1,
            "pad_token_id": 0,
            "qkv_bias": True,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"},
            "rope_theta": 10000,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.47.1",
            "use_cache": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.bfloat16,
        tokens=23,
        ablations={"biases": STRONG},
    ),
    Case(
        name="arcee",
        proves="Arcee: a plain FFN with ReLU²",
        model_class=transformers.ArceeForCausalLM,
        layout=UNGATED,
        config=SMALL
        | dict(
            hidden_size=24,
            num_attention_heads=3,
            num_key_value_heads=1,
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"up_proj": 1.4, "down_proj": 2.0},
    ),
    Case(
        name="nemotron",
        proves="Nemotron: LayerNorm with 1 + w, RoPE on half of each head, a plain FFN with ReLU², biases",
        model_class=transformers.NemotronForCausalLM,
        layout=UNGATED,
        config=SMALL
        | dict(
            hidden_size=20,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=8,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
        gains={"up_proj": 1.4, "down_proj": 2.0},
    ),
    Case(
        name="stablelm",
        proves="StableLM 2 1.6B's published keys: LayerNorm, RoPE on a quarter of each head, biases of q, k and v",
        model_class=transformers.StableLmForCausalLM,
        config={
            "architectures": ["StableLmForCausalLM"],
            "bos_token_id": 1,
            "eos_token_id": 2,
            "hidden_act": "silu",
            "hidden_dropout": 0.1,
            "hidden_size": 24,
            "initializer_range": 0.02,
            "intermediate_size": 20,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 64,
            "model_type": "stablelm",
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "num_key_value_heads": 1,
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "transformers_version": "4.38.0",
            "use_cache": True,
            "use_parallel_residual": False,
            "use_qkv_bias": True,
            "vocab_size": 29,
        },
        published=True,
        dtype=torch.float16,
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
    ),
    Case(
        name="stablelm_parallel",
        proves="StableLM 2 12B: a parallel block on one norm, LayerNorm of q and k with a tensor for each head",
        model_class=transformers.StableLmForCausalLM,
        layout=replace(STABLELM, ln2=None, parallel=True),
        config=SMALL
        | dict(
            hidden_size=24,
            num_attention_heads=3,
            num_key_value_heads=3,
            qk_layernorm=True,
            use_parallel_residual=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="olmo",
        proves="OLMo: LayerNorm without a weight, q, k and v clipped",
        model_class=transformers.OlmoForCausalLM,
        config=SMALL
        | dict(
            hidden_size=24,
            num_attention_heads=3,
            num_key_value_heads=1,
            clip_qkv=2.0,
        ),
        tokens=13,
        ablations={"rope": STRONG, "clip": STRONG},
    ),
    Case(
        name="exaone4",
        proves=(
            "EXAONE 4: norms after the sublayers, q and k normalized over each head, full layers without RoPE"
        ),
        model_class=transformers.Exaone4ForCausalLM,
        layout=OLMO2,
        config=SMALL
        | dict(
            hidden_size=20,
            num_hidden_layers=3,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=8,
            sliding_window=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        ),
        tokens=13,
        ablations={"rope": STRONG},
    ),
    Case(
        name="olmoe",
        proves="OLMoE: experts without renormalization, q and k normalized over all heads",
        model_class=transformers.OlmoeForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            intermediate_size=12,
            num_attention_heads=5,
            num_key_value_heads=1,
            num_experts=6,
            num_experts_per_tok=3,
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="granitemoe",
        proves="Granite 3 with experts: four multipliers, all experts in one tensor, the gate and the up projection together",
        model_class=transformers.GraniteMoeForCausalLM,
        layout=replace(LLAMA, mlp="block_sparse_moe"),
        config=SMALL
        | dict(
            hidden_size=24,
            intermediate_size=12,
            num_attention_heads=3,
            num_key_value_heads=1,
            num_local_experts=5,
            num_experts_per_tok=2,
            embedding_multiplier=1.5,
            residual_multiplier=0.7,
            attention_multiplier=0.3,
            logits_scaling=1.3,
            tie_word_embeddings=True,
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"moe.router": 2.0, "embed_tokens": 2.0},
    ),
    Case(
        name="ernie4_5_moe",
        proves=(
            "ERNIE 4.5 with experts: a softmax router with a correction, a sum of at least moe_norm_min, shared experts, "
            "two dense layers"
        ),
        model_class=transformers.Ernie4_5_MoeForCausalLM,
        config=SMALL
        | dict(
            hidden_size=24,
            num_hidden_layers=4,
            num_attention_heads=3,
            num_key_value_heads=1,
            moe_num_experts=6,
            moe_k=2,
            moe_intermediate_size=12,
            moe_num_shared_experts=2,
            moe_layer_start_index=1,
            moe_layer_end_index=2,
            moe_norm_min=0.5,
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="dots1",
        proves="dots.1: two dense layers, sigmoid scores with a correction, the best two of three groups of experts",
        model_class=transformers.Dots1ForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            num_hidden_layers=4,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=6,
            n_routed_experts=9,
            num_experts_per_tok=3,
            n_shared_experts=2,
            moe_intermediate_size=12,
            n_group=3,
            topk_group=2,
            first_k_dense_replace=2,
            norm_topk_prob=False,
            routed_scaling_factor=1.7,
            sliding_window=5,
            max_window_layers=3,
        ),
        tokens=13,
        ablations={"rope": STRONG, "window": 1e-3},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="glm4_moe",
        proves="GLM 4.5: RoPE on half of each head, two dense layers, normalized weights of three groups of experts, scaled",
        model_class=transformers.Glm4MoeForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            num_hidden_layers=4,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=8,
            n_routed_experts=9,
            num_experts_per_tok=3,
            n_shared_experts=1,
            moe_intermediate_size=12,
            n_group=3,
            topk_group=1,
            first_k_dense_replace=2,
            norm_topk_prob=True,
            routed_scaling_factor=2.5,
            attention_bias=True,
            use_qk_norm=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="minimax_m2",
        proves="MiniMax M2: sigmoid scores with a correction, q and k normalized over all heads, RoPE on half of each",
        model_class=transformers.MiniMaxM2ForCausalLM,
        config=SMALL
        | dict(
            hidden_size=20,
            intermediate_size=12,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=8,
            num_local_experts=6,
            num_experts_per_tok=3,
            rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        ),
        tokens=13,
        ablations={"rope": STRONG},
        gains={"mlp.gate": 2.0},
    ),
    Case(
        name="solar_open",
        proves="Solar Open: the best of three groups of experts in every layer",
        model_class=transformers.SolarOpenForCausalLM,
        config={key: value for key, value in SMALL.items() if key != "intermediate_size"}
        | dict(
            hidden_size=20,
            num_attention_heads=5,
            num_key_value_heads=1,
            head_dim=6,
            n_routed_experts=9,
            num_experts_per_tok=2,
            n_shared_experts=1,
            moe_intermediate_size=12,
            n_group=3,
            topk_group=1,
            routed_scaling_factor=1.5,
            attention_bias=True,
        ),
        tokens=13,
        ablations={"rope": STRONG, "biases": STRONG},
        gains={"mlp.gate": 2.0},
    ),
]
