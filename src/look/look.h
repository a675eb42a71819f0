// Everything about one text in one model, on a page that needs nothing else.
//
//   plan_look ─▶ what fits in the size limit, in a fixed order      look_at ─▶ one recorded forward ─▶ the figures'
//   values
//                                                                              page_of ─▶ HTML: index, blocks, program
//
// The page's program is web/, compiled to web/dist, which CMake embeds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "generate/context.h"
#include "generate/sampler.h"
#include "look/data.h"

namespace vitrine {

struct LookOptions {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> words;       ///< Of the embedding figures; empty: the text's tokens.
  std::vector<std::int32_t> corrupted;   ///< Another text of the same length, for patching; may be empty.
  std::optional<std::int64_t> position;  ///< The followed one; absent: the last.
  SamplingConfig sampling;
  std::uint64_t seed = 0;
  std::int64_t max_bytes = std::int64_t{16} << 20;
};

/// A part of the page: its bytes are an upper bound, of the values in base64 before compression.
struct LookPart {
  enum class Kind : std::uint8_t { figures, rows, maps, trail, cells, sites };

  Kind kind;
  std::string what;
  std::int64_t bytes = 0;
  bool included = false;
  bool exact = true;   ///< False for maps of 8 bits.
  std::string option;  ///< What would include it, or make it exact.
};

struct LookPlan {
  std::vector<LookPart> parts;

  const LookPart& part(LookPart::Kind kind) const { return parts[static_cast<std::size_t>(kind)]; }
};

/// Decides what a page of `n_tokens` tokens contains. The order is that of LookPart::Kind.
LookPlan plan_look(const ModelConfig& config, std::int64_t n_tokens, std::int64_t max_bytes);

/// The values of a page, and what else it shows.
struct Look {
  Json about;  ///< Of the model and the text: whatever the page's program reads that is not an array.
  LookData data, maps;
};

/// What the caller knows about the model.
struct LookSubject {
  GenerateContext context;
  double bytes_per_weight = 4;                        ///< As stored.
  std::function<std::string(std::int32_t)> bytes_of;  ///< The bytes of a token.
  Json about;                                         ///< Passed on to the page.
};

/// Throws BadInput for a corrupted text of another length and a position outside the text, Unsupported for a model that
/// does not predict the next token.
void check_look(const LookSubject& subject, const LookOptions& options);

/// Throws as check_look() does.
Look look_at(const LookSubject& subject, const LookOptions& options, const LookPlan& plan);

/// A complete HTML document of at most about `max_bytes`: maps of 8 bits become coarser until they fit.
std::string page_of(Look& look, const std::string& title, std::int64_t max_bytes);

}  // namespace vitrine
