#include "serve/foreign_fields.h"

namespace vitrine {

const std::vector<ForeignField>& foreign_fields() {
  constexpr unsigned kOfText = kOfCompletion | kOfChat, kOfAny = kOfText | kOfVectors | kOfTokens;
  constexpr std::string_view kRefused = "is not supported", kTools = "tools are not supported",
                             kSampler = "the sampler is not supported", kText = "the model reads text only";
  static const std::vector<ForeignField> fields = {
      // OpenAI
      {"user", kOfAny},
      {"metadata", kOfText},
      {"store", kOfText},
      {"service_tier", kOfText},
      {"safety_identifier", kOfText},
      {"prompt_cache_key", kOfText},
      {"prompt_cache_options", kOfText},
      {"prompt_cache_retention", kOfText},
      {"parallel_tool_calls", kOfText},
      {"verbosity", kOfText},
      {"prediction", kOfText},
      {"suffix", kOfText, kRefused},
      {"web_search_options", kOfText, kRefused},
      {"moderation", kOfText, kRefused},
      {"audio", kOfText, kText},
      {"modalities", kOfText, kText, {Json::array({"text"})}},
      {"tools", kOfText | kOfTokens, kTools},
      {"functions", kOfText, kTools},
      {"tool_choice", kOfText, kTools, {"none", "auto"}},
      {"function_call", kOfText, kTools, {"none", "auto"}},
      // vLLM
      {"priority", kOfAny},
      {"request_id", kOfAny},
      {"session_id", kOfText},
      {"mm_processor_kwargs", kOfAny},
      {"media_io_kwargs", kOfAny},
      {"return_mm_kwargs", kOfText},
      {"return_token_offsets", kOfText},
      {"routed_experts_prompt_start", kOfText},
      {"spaces_between_special_tokens", kOfText},
      {"stream_interval", kOfText},
      {"length_penalty", kOfText},
      {"early_stopping", kOfText},
      {"include_reasoning", kOfText},
      {"guided_decoding_backend", kOfText},
      {"guided_whitespace_pattern", kOfText},
      {"use_beam_search", kOfText, kRefused},
      {"watermarking", kOfText, kRefused},
      {"allowed_token_ids", kOfText, kRefused},
      {"prompt_logprobs", kOfText, "is not supported: a completion has \"echo\" and \"logprobs\""},
      {"logprob_token_ids", kOfText, kRefused},
      {"return_prompt_text", kOfText, "is not supported: /apply-template returns the text"},
      {"repetition_detection", kOfText, kRefused},
      {"thinking_token_budget", kOfText, kRefused, {-1}},
      {"kv_transfer_params", kOfText, kRefused},
      {"ec_transfer_params", kOfText, kRefused},
      {"vllm_xargs", kOfText, kRefused},
      {"prompt_embeds", kOfText, kRefused},
      {"chat_template", kOfChat | kOfTokens, "the template is the server's (--template)"},
      {"echo", kOfChat, kRefused},
      {"add_special_tokens", kOfChat, "the template writes special tokens"},
      {"cache_salt", kOfVectors},
      {"embed_dtype", kOfVectors, kRefused, {"float32"}},
      {"endianness", kOfVectors, kRefused, {"native", "little"}},
      {"padding", kOfVectors, kRefused, {"do_not_pad"}},
      {"truncation_side", kOfVectors, kRefused, {"right"}},
      {"messages", kOfVectors, "vectors are made of \"input\""},
      // llama-server
      {"cache_prompt", kOfText},
      {"id_slot", kOfText},
      {"n_keep", kOfText},
      {"n_discard", kOfText},
      {"n_cache_reuse", kOfText},
      {"backend_sampling", kOfText},
      {"timings_per_token", kOfText},
      {"return_progress", kOfText},
      {"return_tokens", kOfText},
      {"response_fields", kOfText},
      {"verbose", kOfText},
      {"parse_tool_calls", kOfText},
      {"reasoning_control", kOfText},
      {"reasoning_in_content", kOfText},
      {"speculative.n_max", kOfText},
      {"speculative.n_min", kOfText},
      {"speculative.p_min", kOfText},
      {"speculative.type", kOfText},
      {"grammar_lazy", kOfText},
      {"grammar_triggers", kOfText},
      {"preserved_tokens", kOfText},
      {"reasoning_format", kOfText, "texts keep their reasoning", {"none", "auto"}},
      {"thinking_budget_tokens", kOfText, kRefused, {-1}},
      {"lora", kOfText, "adapters are the server's (--adapter)"},
      {"samplers", kOfText, "the order of the sampler's steps is fixed"},
      {"min_keep", kOfText, kRefused, {0, 1}},
      {"n_indent", kOfText, kRefused, {0}},
      {"t_max_predict_ms", kOfText, kRefused, {0, -1}},
      {"t_max_prompt_ms", kOfText, kRefused, {0, -1}},
      {"post_sampling_probs", kOfText, kRefused},
      {"mirostat", kOfText, kSampler, {0}},
      {"mirostat_tau", kOfText},
      {"mirostat_eta", kOfText},
      {"dynatemp_range", kOfText, kSampler, {0}},
      {"dynatemp_exponent", kOfText},
      {"adaptive_target", kOfText, kSampler, {-1}},
      {"adaptive_decay", kOfText},
      // Messages, and the parts of their content
      {"type", kOfMessage},
      {"id", kOfMessage | kOfPart},
      {"status", kOfMessage},
      {"weight", kOfMessage},
      {"annotations", kOfMessage | kOfPart},
      {"reasoning_details", kOfMessage},
      {"thinking_blocks", kOfMessage},
      {"provider_specific_fields", kOfMessage},
      {"cache_control", kOfMessage | kOfPart},
      {"prompt_cache_breakpoint", kOfMessage | kOfPart},
      {"audio", kOfMessage, kText},
  };
  return fields;
}

void read_foreign(RequestFields& fields, FieldsOf of) {
  for (const ForeignField& field : foreign_fields()) {
    if ((field.in & of) == 0) continue;
    if (field.refusal.empty()) {
      fields.ignore({field.name});
    } else {
      fields.refuse(field.name, field.refusal, field.off);
    }
  }
}

}  // namespace vitrine
