// The routes that need no forward: models, the tokenizer, the chat template.
#pragma once

#include <string_view>

#include "base/json.h"
#include "serve/request_head.h"
#include "serve/served_model.h"

namespace vitrine {

/// The response to a request for one of these routes. Throws RequestError, and what the tokenizer and the template
/// throw.
Json answer(const ServedModel& model, const AdmittedHead& head, std::string_view body);

}  // namespace vitrine
