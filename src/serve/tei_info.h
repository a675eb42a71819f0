// The tokens of texts, as text-embeddings-inference's /tokenize has them.
#pragma once

#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// The fields `inputs`, `add_special_tokens` and `prompt_name`: for each text `[{"id", "text", "special", "start",
/// "stop"}]`. Throws RequestError.
Json tei_tokens(const ServedModel& model, RequestFields& fields);

}  // namespace vitrine
