"""Makes tests/goldens/lens: the results of python/tests/lens_results.py and lens_more_results.py in TransformerLens 3.9.

    pip install torch transformer_lens==3.9.0
    python tools/goldens lens
"""

import sys

import numpy as np
import torch
import transformer_lens
import transformers
from goldens.files import GOLDENS, ROOT
from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights, convert_llama_weights, convert_mistral_weights

sys.path.insert(0, str(ROOT / "python" / "tests"))
from lens_models import MODELS, tokens_of  # noqa: E402
import lens_more_results  # noqa: E402, F401
from lens_results import RESULTS  # noqa: E402

CONVERSIONS = {"gpt2": convert_gpt2_weights, "llama": convert_llama_weights, "mistral": convert_mistral_weights}


def config_of(c: transformers.PretrainedConfig) -> dict:
    """TransformerLens has no configs of local folders, so this is one by hand."""
    common = dict(
        n_layers=c.num_hidden_layers, d_model=c.hidden_size, n_ctx=c.max_position_embeddings, n_heads=c.num_attention_heads,
        d_head=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads, d_vocab=c.vocab_size, device="cpu",
        model_name=c.model_type,
    )
    if c.model_type == "gpt2":
        return common | dict(
            d_mlp=4 * c.hidden_size, act_fn=c.activation_function, eps=c.layer_norm_epsilon, normalization_type="LN",
            original_architecture="GPT2LMHeadModel",
        )
    kv_heads = c.num_key_value_heads
    has_window = getattr(c, "sliding_window", None) is not None
    return common | dict(
        d_mlp=c.intermediate_size, act_fn=c.hidden_act, eps=c.rms_norm_eps, normalization_type="RMS", gated_mlp=True,
        positional_embedding_type="rotary", rotary_dim=common["d_head"], rotary_base=int(c.rope_parameters["rope_theta"]),
        rotary_adjacent_pairs=False, final_rms=True, original_architecture=c.architectures[0],
        n_key_value_heads=kv_heads if kv_heads != common["n_heads"] or c.model_type == "mistral" else None,
        use_local_attn=has_window, window_size=c.sliding_window if has_window else None,
        attn_types=["local"] * common["n_layers"] if has_window else None,
    )


def main() -> None:
    torch.manual_seed(0)
    for name in MODELS:
        folder = GOLDENS / name
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        cfg = transformer_lens.HookedTransformerConfig(**config_of(theirs.config))
        model = transformer_lens.HookedTransformer(cfg)
        state = CONVERSIONS[theirs.config.model_type](theirs, cfg)
        model.load_and_process_state_dict(
            state, fold_ln=False, center_writing_weights=False, center_unembed=False, fold_value_biases=False
        )
        model.eval()
        tokens = tokens_of(cfg.d_vocab)
        values = {}
        for key, function in RESULTS.items():
            values[key] = function(transformer_lens, model, tokens).detach().to(torch.float32).numpy()
            model.reset_hooks(including_permanent=True)
        out = GOLDENS / "lens" / f"{name}.npz"
        out.parent.mkdir(exist_ok=True)
        np.savez_compressed(out, **values)
        print(name, len(values), out.stat().st_size)
