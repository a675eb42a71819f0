// The fields of configs that mutation tests do not change, or whose change a golden cannot detect.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace vitrine::test {

/// Fields that the logits of a golden cannot depend on, by the ends of their paths.
inline const std::vector<std::string> kWithoutEffect = {
    "max_seq_len",   // a limit
    "untrained_id",  // of training
    "coef_limit",   "is_bias_trained",
    "has_head",      // a golden with logits has one
    "pad_token_id",  // no golden of a decoder has a context
    "frequency",     // computed from the others
    "slopes",
};

/// Changes that a golden cannot detect.
inline const std::set<std::string> kUndetected = {
    // Its prompt is shorter than the window.
    "phi3_short blocks.attention.window",
    "phi3_short blocks.attention.chunked",
    // A norm of attention's output takes the scale away.
    "gemma2 blocks.attention.value_scale",
    "gemma2_f16 blocks.attention.value_scale",
    "gemma3 blocks.attention.value_scale",
    "gemma3_tables blocks.attention.value_scale",
    "gemma3n blocks.attention.value_scale",
    "gemma4 blocks.attention.value_scale",
    "gemma4_moe blocks.attention.value_scale",
    // A norm of the projection does.
    "gemma3n per_layer.per_layer_projection_scale",
    // A norm of the sum does.
    "opt_350m blocks.residual_sum_scale",
    // Each has one of the lists for its prompt.
    "phi3_short blocks.attention.rope.scaling.longrope.long_factor",
    "phi3_long blocks.attention.rope.scaling.longrope.short_factor",
    // Each head rotates one pair, whose frequency is 1.
    "codegen blocks.attention.rope.layout",
    "codegen blocks.attention.rope.theta",
    // The weights of the chosen are not divided by their sum.
    "dots1 blocks.experts.router.eps",
    "dots1 blocks.experts.router.min",
    "olmoe blocks.experts.router.eps",
    "olmoe blocks.experts.router.min",
    "deepseek_v2 blocks.experts.router.eps",
    "deepseek_v2 blocks.experts.router.min",
    "qwen2_moe blocks.experts.router.eps",
    "qwen2_moe blocks.experts.router.min",
    "llama4 blocks.experts.router.eps",
    "llama4 blocks.experts.router.min",
    "llama4 blocks.experts.router.groups",         // the best expert is in the best group
    "llama4 blocks.attention.qk_norm.after_rope",  // a norm without a weight commutes with a rotation
    // Their sums are larger.
    "afmoe blocks.experts.router.min",
    "mimo_v2_flash blocks.experts.router.min",
    // Its sums are larger, and either rank of a group gives the same choice.
    "glm4_moe blocks.experts.router.min",
    "glm4_moe blocks.experts.router.group_rank",
    // A norm of the experts' sum follows.
    "gemma4_moe blocks.experts.renormalize",
    "gemma4_moe blocks.experts.router.eps",
    "gemma4_moe blocks.experts.router.min",
    "gemma4_moe blocks.experts.router.scale",
    "deepseek_v3 blocks.experts.router.min",
    "deepseek_v3 blocks.experts.router.group_rank",
    "deepseek_v2 blocks.experts.router.group_rank",
    // A norm of keys takes their scale away.
    "afmoe blocks.attention.key_scale",
    "dots1 blocks.attention.key_scale",
    "gemma3 blocks.attention.key_scale",
    "gemma3_tables blocks.attention.key_scale",
    "gemma3n blocks.attention.key_scale",
    "gemma4 blocks.attention.key_scale",
    "gemma4_moe blocks.attention.key_scale",
    "lfm2 blocks.attention.key_scale",
    "lfm2_moe blocks.attention.key_scale",
    "minimax_m2 blocks.attention.key_scale",
    "olmo_hybrid blocks.attention.key_scale",
    "qwen3 blocks.attention.key_scale",
    "qwen3_5 blocks.attention.key_scale",
    "qwen3_5_moe blocks.attention.key_scale",
    "qwen3_moe blocks.attention.key_scale",
    "qwen3_next blocks.attention.key_scale",
    "stablelm_parallel blocks.attention.key_scale",
    // A norm of the FFN's output does.
    "exaone4 blocks.mlp.ffn_out_scale",
    "gemma2 blocks.mlp.ffn_out_scale",
    "gemma2_f16 blocks.mlp.ffn_out_scale",
    "gemma3 blocks.mlp.ffn_out_scale",
    "gemma3_tables blocks.mlp.ffn_out_scale",
    "gemma3n blocks.mlp.ffn_out_scale",
    "gemma4 blocks.mlp.ffn_out_scale",
    "gemma4_moe blocks.experts.expert.ffn_out_scale",
    "gemma4_moe blocks.experts.shared.ffn_out_scale",
    "olmo2 blocks.mlp.ffn_out_scale",
    "olmo3 blocks.mlp.ffn_out_scale",
    // The stream is that before the block where a block has one sublayer.
    "falcon_mamba blocks.input",
    "mamba blocks.input",
    "mamba2 blocks.input",
    "mamba_short blocks.input",
    "nemotron_h blocks.input",
    // Nothing is rotated, or one pair, whose frequency is 1.
    "kimi_linear blocks.latent_attention.rope.layout",
    "kimi_linear blocks.latent_attention.rope.magnitude",
    "kimi_linear blocks.latent_attention.rope.theta",
    "kimi_linear blocks.latent_attention.rope_pairs",
    "qwen3_5 blocks.attention.rope.layout",
    "qwen3_5 blocks.attention.rope.theta",
    "qwen3_5_moe blocks.attention.rope.layout",
    "qwen3_5_moe blocks.attention.rope.theta",
    "qwen3_next blocks.attention.rope.layout",
    "qwen3_next blocks.attention.rope.theta",
    // The weights of the chosen are not divided by their sum, or either rank of a group gives the same choice.
    "jamba blocks.experts.router.eps",
    "jamba blocks.experts.router.min",
    "nemotron_h blocks.experts.router.group_rank",
    // A norm of attention's output takes the scale away.
    "olmo_hybrid blocks.attention.value_scale",
    // Its ramp begins and ends at whole pairs.
    "deepseek_v2 blocks.latent_attention.rope.scaling.yarn.truncate",
};

/// Fields that cannot be changed with the parameters of the goldens: sizes, and what none of them has.
inline const std::set<std::string> kNotTried = {
    "altup",
    "altup.n_streams",
    "altup.router_norm.bias",
    "blocks",
    "blocks.attention.head_dim",
    "blocks.attention.n_heads",
    "blocks.attention.n_kv_heads",
    "blocks.attention.position_terms",
    "blocks.attention.qk_norm.norm.bias",
    "blocks.attention.v_norm.bias",
    "blocks.attention.v_norm.weight",
    "blocks.attention.v_norm.weight_offset",
    "blocks.attention.value_dim",
    "blocks.conv.d_conv",
    "blocks.conv.n_conv_channels",
    "blocks.delta_net.d_conv",
    "blocks.delta_net.decay_by_channel",
    "blocks.delta_net.gate_rank",
    "blocks.delta_net.n_state_groups",
    "blocks.delta_net.n_state_heads",
    "blocks.delta_net.state_key_dim",
    "blocks.delta_net.state_norm.bias",
    "blocks.delta_net.state_projections",
    "blocks.delta_net.state_value_dim",
    "blocks.experts.latent_bias",
    "blocks.experts.latent_experts",
    "blocks.mamba.d_conv",
    "blocks.mamba.d_inner",
    "blocks.mamba.d_state",
    "blocks.mamba.dt_rank",
    "blocks.mamba.step_norm.bias",
    "blocks.mamba2.d_conv",
    "blocks.mamba2.d_state",
    "blocks.mamba2.mixer_bias",
    "blocks.mamba2.mixer_out_bias",
    "blocks.mamba2.n_state_groups",
    "blocks.mamba2.n_state_heads",
    "blocks.mamba2.state_norm.bias",
    "blocks.mamba2.state_value_dim",
    "blocks.experts.expert.d_ff",
    "blocks.experts.expert.gate_cutoff",
    "blocks.experts.expert.xielu",
    "blocks.experts.experts_norm_after.bias",
    "blocks.experts.experts_norm_before.bias",
    "blocks.experts.n_experts",
    "blocks.experts.router_norm.bias",
    "blocks.experts.shared.clamped_swiglu",
    "blocks.experts.shared.d_ff",
    "blocks.experts.shared.ffn_bias",
    "blocks.experts.shared.gate_cutoff",
    "blocks.experts.shared.xielu",
    "blocks.experts.shared_norm_after.bias",
    "blocks.latent_attention.keys_apart",
    "blocks.latent_attention.kv_rank",
    "blocks.latent_attention.latent_norm.bias",
    "blocks.latent_attention.n_heads",
    "blocks.latent_attention.nope_dim",
    "blocks.latent_attention.q_rank",
    "blocks.latent_attention.rope.dim",
    "blocks.latent_attention.rope.reversed",
    "blocks.latent_attention.value_dim",
    "blocks.laurel.laurel_norm.bias",
    "blocks.laurel.laurel_rank",
    "blocks.mlp.clamped_swiglu",
    "blocks.mlp.d_ff",
    "blocks.norm_after.bias",
    "blocks.norm_of_sum_after.weight",
    "blocks.per_layer.per_layer_width",
    "context",
    "d_model",
    "distance_table",
    "embedding_norm.weight",
    "embedding_width",
    "head_width",
    "encoder",
    "first_position",
    "head_transform",
    "n_types",
    "per_layer",
    "per_layer.per_layer_norm.bias",
    "per_layer.per_layer_vocab_size",
    "pooler",
    "relative_bias",
    "sinusoid",
    "uncounted_id",
    "vocab_size",
    "blocks.experts.expert.down_bias",
    "blocks.experts.shared.down_bias",
    "blocks.mlp.down_bias",
    "blocks.same_as",
    "projects_sum",
    "task",
};

}  // namespace vitrine::test
