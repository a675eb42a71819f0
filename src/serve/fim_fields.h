// The fields of requests that fill in the middle of a text (generate/fim_prompt.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/completion_request.h"
#include "serve/request_fields.h"

namespace vitrine {

/// Throws RequestError, naming the field `where`, if the model cannot do it.
void require_fim_tokens(const ServedModel& model, const std::string& where);

/// The field `prompt` of a completion that has a suffix: what comes before the middle, as texts or ids. Throws
/// RequestError, and what the tokenizer throws.
std::vector<Prompt> read_fim_prompts(const ServedModel& model, RequestFields& fields, const std::string& suffix,
                                     bool adds_bos);

/// llama-server's fields `input_prefix` and `input_suffix`, of which there must be one, `input_extra` and `prompt`, the
/// beginning of the middle. `n_new`: the number of tokens that may follow. Throws RequestError, and what the tokenizer
/// throws.
Prompt read_infill(const ServedModel& model, RequestFields& fields, std::int64_t n_new);

}  // namespace vitrine
