// The added tokens of a tokenizer that is being made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/algorithms/piece_table.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/read/tokenizer_folder.h"

namespace vitrine {

/// The added tokens of a tokenizer, with ids as `tokenizers` gives them. Source: src/tokenizer/added_vocabulary.rs.
class AddedTokenList {
 public:
  AddedTokenList(const PieceTable& pieces, Json tokens, std::string_view where) : pieces_(pieces) {
    if (tokens.is_null()) tokens = Json::array();
    if (!tokens.is_array()) throw BadCheckpoint(where, "expected an array of added_tokens, got {}", tokens.type_name());
    for (Json& token : tokens) {
      Json added = added_token(token, where);
      added["id"] = static_cast<std::uint64_t>(JsonFields(token, "an added token", where).integer("id"));
      put(std::move(added));
    }
  }

  /// Adds a token, or changes the flags of the one with its text.
  void add(Json token) {
    const std::string text = token["content"].get<std::string>();
    if (text.empty()) return;
    token["id"] = static_cast<std::uint64_t>(id_of(text).value_or(next_id()));
    put(std::move(token));
  }
  bool has(const std::string& text) const { return places_.contains(text); }

  std::optional<std::int64_t> id_of(const std::string& text) const {
    const auto found = places_.find(text);
    if (found != places_.end()) return tokens_[found->second]["id"].get<std::int64_t>();
    const std::int32_t id = pieces_.find(text);
    return id == kNoId ? std::nullopt : std::optional<std::int64_t>(id);
  }
  Json take() { return std::move(tokens_); }

 private:
  void put(Json token) {
    const auto id = token["id"].get<std::int64_t>();
    last_ = std::max(last_, id);
    const auto [place, is_new] = places_.emplace(token["content"].get<std::string>(), tokens_.size());
    if (is_new) {
      tokens_.push_back(std::move(token));
    } else {
      tokens_[place->second] = std::move(token);
    }
  }
  std::int64_t next_id() const { return std::max(last_ + 1, std::int64_t{pieces_.n_pieces()}); }

  const PieceTable& pieces_;
  Json tokens_ = Json::array();
  std::unordered_map<std::string, std::size_t> places_;
  std::int64_t last_ = -1;
};

}  // namespace vitrine
