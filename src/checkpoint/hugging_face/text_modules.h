// modules.json of a folder of sentence-transformers: what reads a text, and the steps after it.
//
// Source: sentence-transformers 6.2.0, base/model.py and the modules of base, sentence_transformer, sparse_encoder,
// multi_vector_encoder and cross_encoder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/text_steps.h"

namespace vitrine {

class Tokenizer;

/// Tokens after a query up to a length, whose rows are vectors of it, too.
struct QueryExpansion {
  bool is_fixed = true;  ///< Longer queries are cut to the length.
  bool attends = false;  ///< The other tokens attend to them.
  std::string token{};   ///< "": the tokenizer's mask token, else its end of a text.
  std::int64_t length = 0;
};

/// The first module: a model, or a table of embeddings alone.
struct ReadingModule {
  std::string path{};               ///< Its folder, within the folder of modules.json.
  bool is_table = false;            ///< StaticEmbedding: no layers, and no special tokens around a text.
  bool is_chat = false;             ///< Texts are written as conversations, by the chat template.
  std::optional<bool> has_parts{};  ///< Their contents are lists of parts; nullopt: if the template reads such.
  bool lowercase = false;           ///< Texts are lowercased before they are tokenized.
  std::optional<std::int64_t> most_tokens{}, most_query_tokens{}, most_document_tokens{};
  std::optional<QueryExpansion> expansion{};
};

struct TextModules {
  ReadingModule reading{};
  TextSteps steps{};
};

/// The modules of a folder; nullopt if it has no modules.json. `tokenizer` finds the tokens that steps name, and may be
/// null. Throws BadInput and BadCheckpoint for files that are missing or malformed, Unsupported, with its name, for a
/// module, an option or an order of modules that is not supported.
std::optional<TextModules> read_text_modules(const std::string& folder, const Tokenizer* tokenizer);

/// What sentence_bert_config.json of a folder without modules.json says. Throws as read_text_modules().
ReadingModule read_reading_module(const std::string& folder);

/// The folder of modules.json that a folder with a model belongs to: itself, or the one around it in the layout of
/// sentence-transformers before 2.0 (0_Transformer).
std::string folder_of_modules(const std::string& folder);
/// The folder of the model whose modules.json is in `folder`, or `folder` itself.
std::string folder_of_model(const std::string& folder);
/// Whether the first module of `folder` is StaticEmbedding.
bool is_table_of_embeddings(const std::string& folder);

/// The id of a token that the vocabulary spells `token`; nullopt if there is none.
std::optional<std::int32_t> id_of_token(const Tokenizer& tokenizer, const std::string& token);

}  // namespace vitrine
