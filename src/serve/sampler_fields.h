// The fields that say which steps of the sampler a request wants, and which tokens it permits.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/options.h"
#include "serve/request_fields.h"

namespace vitrine {

/// llama-server's `samplers`: the steps to take, as a list of names or a text of letters. Those that are not named are
/// turned off in `options`. Temperature may be anywhere in the list: it is applied before the filters. Throws
/// RequestError for another order of the other steps, because theirs is fixed, and for steps that there are not.
void read_samplers(RequestFields& fields, GenerateOptions& options);

/// vLLM's `allowed_token_ids`: the ids from 0 to vocab_size - 1 that are not among them; none without the field. Throws
/// RequestError for ids outside the vocabulary.
std::vector<std::int32_t> read_ids_not_allowed(RequestFields& fields, std::int64_t vocab_size);

}  // namespace vitrine
