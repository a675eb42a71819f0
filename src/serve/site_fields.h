// The fields of requests that read and change the values of a forward.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/engine.h"
#include "inspect/feature_reader.h"
#include "inspect/sequence_recorder.h"
#include "inspect/text_recorder.h"
#include "serve/modifier_fields.h"
#include "serve/request_fields.h"
#include "serve/served_model.h"

namespace vitrine {

/// The fields `sites`, `set` and `features`.
struct SiteFields {
  std::vector<std::string> globs;
  std::vector<SiteWrite> writes;
  std::optional<std::size_t> top{};               ///< The strongest features of every token; none: not wanted.
  std::vector<AppliedDictionary> dictionaries{};  ///< Those of the request.

  bool empty() const { return globs.empty() && writes.empty() && !top; }
};

/// Reads the fields `sites`, `set` and `sae_use`, and attaches the server's dictionaries. Throws RequestError for what
/// is no list of texts, is not a write, or names a file; 403 if the server's values may not be read.
SiteFields read_sites(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers);

/// Reads the field `vitrine`: what is read and changed, if anything is, and adds what it chooses to `modifiers`. Where
/// no values may be read it may still choose adapters and control vectors. Throws as read_sites() and read_modifiers()
/// do.
std::optional<SiteFields> read_wishes(const ServedModel& model, RequestFields& fields, ChosenModifiers& modifiers);

/// The bytes of the features of `n` tokens that a request wants.
std::int64_t feature_bytes(const SiteFields& fields, std::int64_t n);

/// Throws RequestError if values of so many bytes exceed what the server returns. `where`: the field that selects them.
void check_trace_bytes(const ServedModel& model, std::int64_t bytes, const std::string& where);

/// Calls `f`, whose errors of sites and writes become RequestErrors of the fields of `fields`.
template <class F>
auto with_site_errors(const RequestFields& fields, F&& f);
RequestError site_error_of(const RequestFields& fields, const Error& error);

/// `[{"name", "site", "d_sae", "tokens": [[{"index", "value"}]]}]`
Json features_json(std::span<const ActiveFeatures> all);

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
