// Pieces back to bytes: the decoders of tokenizer.json, one token at a time.
//
// Source: Hugging Face's `tokenizers`, src/decoders. Bytes come out as they are; what is not UTF-8 is not replaced.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace vitrine {

class Decoder {
 public:
  /// Throws BadCheckpoint where `json` is malformed, Unsupported for a type that is not known or that needs the tokens
  /// behind a token. Null: tokens are joined by spaces.
  Decoder(const Json& json, std::string_view where);

  struct Context {
    bool is_first;              ///< nothing was decoded before
    std::string_view previous;  ///< the piece decoded before
  };

  /// What `piece` adds to a text.
  std::string operator()(std::string_view piece, const Context& context) const;

 private:
  using Step = std::function<void(std::string&, const Context&)>;
  void parse(const Json& json, std::string_view where, bool& is_fused);

  std::vector<Step> steps_;
};

}  // namespace vitrine
