// The constraint of a request, under the names of OpenAI, vLLM and llama-server.
#pragma once

#include <string_view>

#include "generate/options.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// Reads response_format, json_schema, structured_outputs, guided_json and their relatives, and must_finish. `body` is
/// the text of the fields: schemas keep the order of their members. Throws RequestError.
void read_constraint(std::string_view body, RequestFields& fields, GenerateOptions& options);

/// Compiles the constraint that the options name, if there is one. Throws RequestError, naming the constraint.
void compile_constraint(const ServedModel& model, const GenerateOptions& options);

}  // namespace vitrine
