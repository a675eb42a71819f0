// /v1/trace: the values of a forward of a text, as the file that `vitrine trace` writes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generate/engine.h"
#include "inspect/text_recorder.h"
#include "serve/served_model.h"

namespace vitrine {

struct TraceRequest {
  std::vector<std::int32_t> ids;
  std::shared_ptr<TextRecorder> recorder;

  /// A sequence that reads the text.
  GenerateRequest sequence() const;
  /// The safetensors file, after the end of the sequence. Throws BadInput for a site that no token had.
  std::string file() const;
};

/// Parses a body. Throws RequestError, and what the tokenizer throws.
TraceRequest parse_trace(const ServedModel& model, std::string_view body);

}  // namespace vitrine
