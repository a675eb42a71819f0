// The fields of requests that read and change the values of a forward.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/engine.h"
#include "inspect/sequence_recorder.h"
#include "inspect/text_recorder.h"
#include "serve/modifier_fields.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// The fields `sites` and `set`.
struct SiteFields {
  std::vector<std::string> globs;
  std::vector<SiteWrite> writes;
};

/// Throws RequestError for what is no list of texts, is not a write, or names a file; 403 if the server's values may
/// not be read.
SiteFields read_sites(const ServedModel& model, RequestFields& fields);

/// Reads the field `vitrine`: what is read and changed, if anything is, and adds what it chooses to `modifiers`. Where
/// no values may be read it may still choose adapters and control vectors. Throws as read_sites() and read_modifiers()
/// do.
std::optional<SiteFields> read_wishes(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers);

/// Throws RequestError if values of so many bytes exceed what the server returns. `where`: the field that selects them.
void check_trace_bytes(const ServedModel& model, std::int64_t bytes, const std::string& where);

/// Calls `f`, whose errors of sites and writes become RequestErrors of the fields of `fields`.
template <class F>
auto with_site_errors(const RequestFields& fields, F&& f);
RequestError site_error_of(const RequestFields& fields, const Error& error);

/// `[{"name", "shape", "data"}]` with base64 of the float32 values in little-endian order.
Json sites_json(std::span<const SequenceRecorder::Recorded> values);

template <class F>
auto with_site_errors(const RequestFields& fields, F&& f) {
  try {
    return f();
  } catch (const BadInput& e) {
    throw site_error_of(fields, e);
  } catch (const Unsupported& e) {
    throw site_error_of(fields, e);
  }
}

// /v1/trace: the values of a forward of a text, as the file that `vitrine trace` writes.

struct TraceRequest {
  std::vector<std::int32_t> ids;
  std::shared_ptr<TextRecorder> recorder;
  std::optional<ModifierList> modifiers{};  ///< Absent: those of all requests.

  /// A sequence that reads the text.
  GenerateRequest sequence() const;
  /// The safetensors file, after the end of the sequence. Throws BadInput for a site that no token had.
  std::string file() const;
};

/// Parses a body. Throws RequestError, and what the tokenizer throws.
TraceRequest parse_trace(const ServedModel& model, std::string_view body);

}  // namespace vitrine
