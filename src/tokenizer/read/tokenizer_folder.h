// The tokenizer of a folder: which file has the vocabulary, and what tokenizer_config.json, special_tokens_map.json,
// added_tokens.json and config.json add to it or change in it. Texts, templates, vectors, checkpoints and GGUF files
// all get these facts here.
//
// Source: AutoTokenizer.from_pretrained of transformers 5.24.0 (models/auto/tokenization_auto.py,
// tokenization_utils_base.py, tokenization_utils_tokenizers.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/read/tokenizer_classes.h"
#include "tokenizer/read/tokenizer_document.h"

namespace vitrine {

struct TokenizerFolder {
  std::string path;
  std::string vocabulary;                 ///< The file with the vocabulary; "": there is none.
  std::string class_name;                 ///< Of transformers; "": no file names one.
  const TokenizerClass* rules = nullptr;  ///< The class's own pipeline; null: that of `vocabulary`.
  bool is_configured = false;             ///< Another file than the vocabulary and config.json exists.
  Json config = Json::object();           ///< tokenizer_config.json, or special_tokens_map.json where that counts.
  std::string config_path;                ///< For errors.
  Json added = Json::array();  ///< Of added_tokens_decoder or added_tokens.json, in the form of tokenizer.json.
  /// The tokens with a name, in the order in which they are added: text, or an added token without an id.
  std::vector<std::pair<std::string, Json>> named;
};

/// The files of a folder besides the vocabulary; an empty object stands for a missing file.
struct TokenizerFiles {
  Json config = Json::object();              ///< tokenizer_config.json
  Json special_tokens_map = Json::object();  ///< special_tokens_map.json
  Json added_tokens = Json::object();        ///< added_tokens.json
  Json model = Json::object();               ///< config.json
  std::vector<std::string> config_order{};   ///< The keys of `config` and of the objects in it, as its text has them.
};

/// Throws BadCheckpoint if a file is malformed. The vocabulary itself is not read. `vocabulary`: this file, not the one
/// that counts in the folder.
TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& vocabulary = "");

/// The same for files in memory. `is_byte_level`: the vocabulary is a tokenizer.json with a part "ByteLevel".
TokenizerFolder make_tokenizer_folder(const std::string& path, const std::string& vocabulary, TokenizerFiles files,
                                      bool is_byte_level);

/// The vocabulary of the folder as the tokenizer.json that transformers would write of it. Throws BadCheckpoint,
/// Unsupported.
TokenizerDocument folder_document(const TokenizerFolder& folder);

/// The same for the contents of the vocabulary's file, and of merges.txt if it is a vocab.json.
TokenizerDocument folder_document(const TokenizerFolder& folder, std::span<const std::byte> vocabulary,
                                  std::string_view merges);

/// Whether the vocabulary is no tokenizer.json and its class is not built here. folder_document then throws
/// Unsupported.
bool is_refused(const TokenizerFolder& folder);

/// Whether nothing but the file of the vocabulary defines the tokenizer.
bool is_plain(const TokenizerFolder& folder);

/// "model_max_length"; none if it is missing or no size (transformers writes 1e30 for "no limit").
std::optional<std::int64_t> model_max_length(const TokenizerFolder& folder);

/// The text of a token, which is text or has a "content". Throws BadCheckpoint for anything else.
/// `what` names it in errors.
std::string token_text(const Json& token, std::string_view where, std::string_view what = "a special token");

/// A token of a configuration in the form of a tokenizer.json, with all flags and without an id. Text becomes a special
/// token.
Json added_token(const Json& token, std::string_view where, std::string_view what = "an added token");

}  // namespace vitrine
