#include "serve/foreign_fields.h"

#include "generate/options.h"

namespace vitrine {

namespace {

/// What requests for texts read, which changes nothing where no text is made.
void ignore_fields_of_texts(RequestFields& fields) {
  for (const OptionRow& row : option_rows()) {
    if (!row.is_in(kInServer)) continue;
    fields.ignore({row.field_name()});
    for (const char* name : row.other_fields) fields.ignore({name});
  }
  fields.ignore({"stream",
                 "stream_options",
                 "sse_ping_interval",
                 "n",
                 "n_cmpl",
                 "use_beam_search",
                 "best_of",
                 "seed",
                 "stop",
                 "stop_token_ids",
                 "ignore_eos",
                 "include_stop_str_in_output",
                 "skip_special_tokens",
                 "echo",
                 "logprobs",
                 "top_logprobs",
                 "n_probs",
                 "post_sampling_probs",
                 "prompt_logprobs",
                 "logprob_token_ids",
                 "repetition_detection",
                 "return_tokens_as_token_ids",
                 "return_token_ids",
                 "return_prompt_text",
                 "logit_bias",
                 "bad_words",
                 "allowed_token_ids",
                 "samplers",
                 "response_format",
                 "structured_outputs",
                 "json_schema",
                 "guided_json",
                 "guided_regex",
                 "guided_choice",
                 "guided_grammar",
                 "must_finish",
                 "cache_salt",
                 "add_special_tokens",
                 "documents",
                 "add_generation_prompt",
                 "continue_final_message",
                 "chat_template_kwargs",
                 "reasoning_effort"});
}

}  // namespace

const std::vector<ForeignField>& foreign_fields() {
  constexpr unsigned kOfText = kOfCompletion | kOfChat, kOfAny = kOfText | kOfVectors | kOfTokens;
  constexpr std::string_view kRefused = "is not supported", kOfChats = "/v1/chat/completions has tools",
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
      {"parallel_tool_calls", kOfCompletion},
      {"verbosity", kOfText},
      {"prediction", kOfCompletion},
      {"suffix", kOfChat, "is not supported: /v1/completions has it"},
      {"web_search_options", kOfText, kRefused},
      {"moderation", kOfText, kRefused},
      {"audio", kOfText, kText},
      {"modalities", kOfText, kText, {Json::array({"text"})}},
      {"tools", kOfCompletion, kOfChats},
      {"functions", kOfCompletion, kOfChats},
      {"tool_choice", kOfCompletion, kOfChats, {"none", "auto"}},
      {"function_call", kOfCompletion, kOfChats, {"none", "auto"}},
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
      {"logits_processors", kOfText, kRefused},
      {"watermarking", kOfText, kRefused},
      {"return_prompt_text", kOfCompletion},
      {"kv_transfer_params", kOfText},
      {"ec_transfer_params", kOfText},
      {"vllm_xargs", kOfText},
      {"prompt_embeds", kOfText, kRefused},
      {"chat_template", kOfChat | kOfTokens, "the template is the server's (--template)"},
      {"cache_salt", kOfVectors},
      {"embed_dtype", kOfVectors, kRefused, {"float32"}},
      {"endianness", kOfVectors, kRefused, {"native", "little"}},
      {"padding", kOfVectors, kRefused, {"do_not_pad"}},
      {"messages", kOfVectors, "vectors are made of \"input\""},
      {"additional_data", kOfVectors, kRefused},
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
      {"speculative.ngram_size_n", kOfText},
      {"speculative.ngram_size_m", kOfText},
      {"speculative.ngram_min_hits", kOfText},
      {"slot_id", kOfText},
      {"chat_format", kOfText},
      {"chat_parser", kOfText},
      {"generation_prompt", kOfText},
      {"reasoning_budget_start_tag", kOfText},
      {"reasoning_budget_end_tag", kOfText},
      {"reasoning_budget_end_tags", kOfText},
      {"reasoning_budget_message", kOfText},
      {"grammar_type", kOfText},
      {"grammar_lazy", kOfText},
      {"grammar_triggers", kOfText},
      {"preserved_tokens", kOfText},
      {"reasoning_format", kOfCompletion},
      {"lora", kOfText, "adapters are chosen by name: \"model\": \"MODEL:ADAPTER\", or \"vitrine\": {\"adapters\": …}"},
      {"t_max_prompt_ms", kOfText},
      {"tfs_z", kOfText, kSampler, {1}},
      {"penalize_nl", kOfText, kRefused},
      {"penalty_prompt", kOfText, kRefused},
      {"system_prompt", kOfText, kRefused},
      {"image_data", kOfText, kText},
      {"multimodal_data", kOfText, kText},
      {"mirostat", kOfText, kSampler, {0}},
      {"mirostat_tau", kOfText},
      {"mirostat_eta", kOfText},
      {"adaptive_target", kOfText, kSampler, {-1}},
      {"adaptive_decay", kOfText},
      // Of a chat, in a completion, and the other way round
      {"top_logprobs", kOfCompletion},
      {"chat_template", kOfCompletion},
      {"chat_template_kwargs", kOfCompletion},
      {"reasoning_effort", kOfCompletion},
      {"documents", kOfCompletion},
      {"add_generation_prompt", kOfCompletion},
      {"continue_final_message", kOfCompletion},
      {"messages", kOfCompletion, "/v1/chat/completions has messages; a completion has a \"prompt\""},
      {"prompt", kOfChat, "/v1/completions has a prompt; a chat has \"messages\""},
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
  const bool makes_no_text = of == kOfVectors || of == kOfTokens;
  if (makes_no_text) ignore_fields_of_texts(fields);
  for (const ForeignField& field : foreign_fields()) {
    const bool is_of_text = (field.in & (kOfCompletion | kOfChat)) != 0;
    if ((field.in & of) == 0) {
      if (makes_no_text && is_of_text) fields.ignore({field.name});
    } else if (field.refusal.empty()) {
      fields.ignore({field.name});
    } else {
      fields.refuse(field.name, field.refusal, field.off);
    }
  }
}

}  // namespace vitrine
