// The wrappers whose text half is read. Sources: transformers, models/*/configuration_*.py and conversion_mapping.py;
// the published config.json files.
#include "checkpoint/hugging_face/wrapper.h"

namespace vitrine {
namespace {

using Keys = std::vector<std::string_view>;

const Keys kTower = {"vision_tower", "multi_modal_projector"};
const Keys kTowerWithNewline = {"vision_tower", "multi_modal_projector", "image_newline"};
const Keys kGemmaTowers = {"vision_tower", "embed_vision", "audio_tower", "embed_audio"};

const std::vector<PlaceholderKey> kImageIndex = {{"image_token_index", "image"}, {"image_token_id", "image"}};
const std::vector<PlaceholderKey> kImageAndVideo = {{"image_token_index", "image"},
                                                    {"video_token_index", "video"},
                                                    {"image_token_id", "image"},
                                                    {"video_token_id", "video"}};
const std::vector<PlaceholderKey> kAll = {
    {"image_token_id", "image"}, {"video_token_id", "video"}, {"audio_token_id", "audio"}};

const Keys kLlavaKeys = {"ignore_index",
                         "image_grid_pinpoints",
                         "image_seq_length",
                         "multimodal_projector_bias",
                         "projector_hidden_act",
                         "projector_layernorm_eps",
                         "spatial_pool_mode",
                         "spatial_pool_stride",
                         "use_image_newline_parameter",
                         "video_seq_length",
                         "vision_aspect_ratio",
                         "vision_feature_layer",
                         "vision_feature_select_strategy",
                         "vocab_size"};
const Keys kStartAndEnd = {"vision_start_token_id", "vision_end_token_id",  "vision_token_id",   "image_start_token_id",
                           "image_end_token_id",    "video_start_token_id", "video_end_token_id"};
const Keys kGemmaKeys = {
    "audio_soft_tokens_per_image", "boa_token_id", "boi_token_id", "eoa_token_id", "eoa_token_index", "eoi_token_id",
    "vision_soft_tokens_per_image"};

Wrapper llava_like(std::string_view model_type, std::string_view architecture, std::string_view text_type,
                   bool text_may_tie = false) {
  return {.model_type = model_type,
          .architecture = architecture,
          .text_type = text_type,
          .any_text = true,
          .text_may_tie = text_may_tie,
          .placeholders = kImageAndVideo,
          .keys = kLlavaKeys,
          .unread = kTowerWithNewline};
}

Wrapper qwen_like(std::string_view model_type, std::string_view architecture, std::string_view text_type) {
  return {.model_type = model_type,
          .architecture = architecture,
          .text_type = text_type,
          .text_may_tie = true,
          .flat = true,
          .placeholders = kAll,
          .keys = kStartAndEnd,
          .unread = {"visual"}};
}

/// The same with a layer that predicts further tokens, and without keys of the text half outside of it.
Wrapper qwen_hybrid(std::string_view model_type, std::string_view architecture, std::string_view text_type) {
  Wrapper wrapper = qwen_like(model_type, architecture, text_type);
  wrapper.flat = false;
  return wrapper;
}

const std::vector<Wrapper> kWrappers = {
    {.model_type = "gemma3",
     .architecture = "Gemma3ForConditionalGeneration",
     .text_type = "gemma3_text",
     .tied = true,
     // templates write the beginning of an image; the processor puts the placeholders after it
     .placeholders = {{"image_token_index", "image"}, {"boi_token_index", "image"}},
     .keys = {"eoi_token_index", "mm_tokens_per_image"},
     .unread = kTower},
    {.model_type = "gemma3n",
     .architecture = "Gemma3nForConditionalGeneration",
     .text_type = "gemma3n_text",
     .tied = true,
     .placeholders = kAll,
     .keys = kGemmaKeys,
     .unread = kGemmaTowers},
    {.model_type = "gemma4",
     .architecture = "Gemma4ForConditionalGeneration",
     .text_type = "gemma4_text",
     .tied = true,
     .placeholders = kAll,
     .keys = kGemmaKeys,
     .unread = kGemmaTowers},
    {.model_type = "mistral3",
     .architecture = "Mistral3ForConditionalGeneration",
     .text_type = "mistral",
     .any_text = true,
     .tied = true,
     .placeholders = kImageIndex,
     .keys = {"multimodal_projector_bias", "projector_hidden_act", "spatial_merge_size", "vision_feature_layer"},
     .unread = kTower},
    {.model_type = "llama4",
     .architecture = "Llama4ForConditionalGeneration",
     .text_type = "llama4_text",
     .placeholders = kImageIndex,
     .keys = {"boi_token_index", "eoi_token_index"},
     .unread = {"vision_model", "multi_modal_projector"}},
    llava_like("llava", "LlavaForConditionalGeneration", "llama", true),
    llava_like("llava_next", "LlavaNextForConditionalGeneration", "llama"),
    llava_like("llava_next_video", "LlavaNextVideoForConditionalGeneration", "llama", true),
    llava_like("llava_onevision", "LlavaOnevisionForConditionalGeneration", "qwen2", true),
    llava_like("vipllava", "VipLlavaForConditionalGeneration", "llama"),
    {.model_type = "internvl",
     .architecture = "InternVLForConditionalGeneration",
     .text_type = "qwen2",
     .any_text = true,
     .tied = true,
     .placeholders = kImageIndex,
     .keys = {"downsample_ratio", "image_seq_length", "projector_hidden_act", "vision_feature_layer",
              "vision_feature_select_strategy"},
     .unread = kTower},
    qwen_like("qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text"),
    qwen_like("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text"),
    qwen_like("qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text"),
    qwen_hybrid("qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"),
    qwen_hybrid("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"),
    qwen_like("glm4v", "Glm4vForConditionalGeneration", "glm4v_text"),
    qwen_like("glm4v_moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe_text"),
    {.model_type = "kimi_k25",
     .architecture = "KimiK25ForConditionalGeneration",
     .other_architecture = "Kimi_K25ForConditionalGeneration",
     .text_type = "deepseek_v3",
     .any_text = true,
     .tied = true,
     .placeholders = {{"media_placeholder_token_id", "image"},
                      {"image_token_id", "image"},
                      {"video_token_id", "video"}},
     .keys = {"ignore_index", "projection_hidden_size", "projection_layer_norm_eps", "use_unified_vision_chunk",
              "video_placeholder", "vision_end_token_id", "vision_start_token_id"},
     .layers = "blocks",
     .unread = {"vision_tower", "mm_projector", "multi_modal_projector"}},
};

constexpr std::string_view kDeepseekV3Sizes =
    R"({"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
        "num_attention_heads": 128})";

const std::vector<TextType> kTextTypes = {
    {"deepseek_v3", "deepseek_v3", kDeepseekV3Sizes},
    {"kimi_k2", "deepseek_v3", kDeepseekV3Sizes},
    {"gemma3_text", "gemma3_text",
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256})"},
    {"gemma3n_text", "gemma3n_text",
     R"({"vocab_size": 262400, "hidden_size": 2048, "num_hidden_layers": 35, "num_attention_heads": 8,
         "num_key_value_heads": 2})"},
    {"gemma4_text", "gemma4_text",
     R"({"vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256})"},
    {"llama", "llama",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
         "num_attention_heads": 32})"},
    {"llama4_text", "llama4_text",
     R"({"vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
         "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128})"},
    {"ministral3", "ministral3",
     R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128})"},
    {"mistral", "mistral",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8})"},
    {"mistral4", "mistral4",
     R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
         "num_attention_heads": 32})"},
    {"qwen2", "qwen2",
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32})"},
    {"qwen3", "qwen3",
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128})"},
    {"qwen2_vl_text", "qwen2",
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "rope_theta": 1000000.0})",
     true},
    {"qwen2_5_vl_text", "qwen2",
     R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "rope_theta": 1000000.0})",
     true},
    {"qwen3_vl_text", "qwen3",
     R"({"vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 128000,
         "rope_theta": 500000.0})",
     true},
};

}  // namespace

std::span<const Wrapper> all_wrappers() { return kWrappers; }

std::span<const TextType> text_types() { return kTextTypes; }

}  // namespace vitrine
