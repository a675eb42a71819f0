// The tokenizer classes of transformers that build their own normalizer, pre-tokenizer, model and decoder, even from a
// tokenizer.json, of which they take only the vocabulary, the merges and, if they have none, the post-processor.
//
// Source: transformers 5.24.0, models/*/tokenization_*.py, convert_slow_tokenizer.py (convert_from_spm).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/read/json_fields.h"

namespace vitrine {

/// The special tokens that transformers names, in its order.
inline constexpr std::array<const char*, 7> kTokenRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                           "pad_token", "cls_token", "mask_token"};

/// What a class puts around a text. `stored`: the post-processor of tokenizer.json, or BOS and EOS if the configuration
/// wants them.
enum class Around { stored, bos_eos, bert, albert, roberta, xlm_roberta, eos, prefix_language, suffix_language };

/// How a class changes the order of a SentencePiece model's pieces.
enum class PieceOrder { kept, fairseq, fairseq_languages, nllb, pegasus };

struct TokenizerClass {
  std::string_view name;
  std::string_view model;            ///< The type of the subword model.
  std::array<const char*, 7> roles;  ///< The default tokens of kTokenRoles; null: none.
  Json (*pipeline)(const JsonFields& config, const Json& charsmap);
  Around around = Around::stored;
  PieceOrder order = PieceOrder::kept;
  std::vector<std::string> (*languages)() = nullptr;  ///< Special tokens besides those of the configuration.
  const char* source_language = nullptr;              ///< Without "src_lang".
  bool mask_takes_space = false;  ///< A mask token without flags includes the white space before it.
};

/// The class, by the name of it or of a class that differs only in name ("Fast" at the end does not count); null if it
/// has no pipeline of its own here.
const TokenizerClass* find_tokenizer_class(std::string_view name);

/// Whether transformers has a class of this name that is not built here: only its tokenizer.json can be used.
bool is_other_tokenizer_class(std::string_view name);

/// The codes of M2M-100's languages, in the order of their ids; `set` is "m2m100" or "wmt21".
std::vector<std::string> m2m100_languages(std::string_view set);

/// The class of a model_type of config.json: "" if transformers registers none, "TokenizersBackend" if tokenizer.json
/// is used as it is. `is_misnamed`: tokenizer_class of published folders is known to be wrong and does not count.
std::string_view tokenizer_class_of(std::string_view model_type);
bool is_misnamed(std::string_view model_type);

}  // namespace vitrine
