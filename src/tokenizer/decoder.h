// The decoders of tokenizer.json: they convert pieces to bytes, one token at a time.
//
// Source: Hugging Face's `tokenizers`, src/decoders. Unlike there, bytes that are not UTF-8 are not replaced.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace vitrine {

class Decoder {
 public:
  /// Throws BadCheckpoint if `json` is malformed, Unsupported for an unknown type or one that depends on the tokens
  /// that follow. Null: tokens are joined by spaces.
  Decoder(const Json& json, std::string_view where);

  struct Context {
    bool is_first;              ///< no piece was decoded before
    std::string_view previous;  ///< the piece decoded before this one
  };

  /// The bytes that `piece` adds to a text.
  std::string operator()(std::string_view piece, const Context& context) const;

 private:
  using Step = std::function<void(std::string&, const Context&)>;
  void parse(const Json& json, std::string_view where, bool& is_fused);

  std::vector<Step> steps_;
};

}  // namespace vitrine
