// OpenAI's field `prediction`: text that much of the answer may repeat.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// The ids of `{"type": "content", "content": TEXT}`, where TEXT may be a list of parts `{"type": "text", "text"}`;
/// none without the field. They are proposed to the model and change the speed alone. Throws RequestError.
std::vector<std::int32_t> read_prediction(const ServedModel& model, RequestFields& fields);

}  // namespace vitrine
