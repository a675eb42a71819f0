// Makes the tokenizer.json of a folder from its vocabulary and configuration.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/read/added_token_list.h"
#include "tokenizer/read/bert_vocab.h"
#include "tokenizer/read/sentencepiece_document.h"
#include "tokenizer/read/tokenizer_folder.h"
#include "tokenizer/read/tokenizer_json.h"

namespace vitrine {
namespace {

/// A list of the post-processor's template: "$A" and "$B" are the texts, with their types.
Json template_of(const std::vector<std::pair<std::string, unsigned>>& parts) {
  Json list = Json::array();
  for (const auto& [part, type] : parts) {
    const bool is_text = part == "$A" || part == "$B";
    list.push_back(
        {{is_text ? "Sequence" : "SpecialToken", {{"id", is_text ? part.substr(1) : part}, {"type_id", type}}}});
  }
  return list;
}

/// The merges.txt next to a vocab.json.
std::string merges_of(const std::string& vocabulary) {
  return vocabulary.substr(0, vocabulary.size() - std::string_view("vocab.json").size()) + "merges.txt";
}

class FolderReader {
 public:
  explicit FolderReader(const TokenizerFolder& folder)
      : folder_(folder), config_(folder.config, "the configuration", folder.config_path), rules_(folder.rules) {}

  TokenizerDocument read(std::span<const std::byte> vocabulary, std::string_view merges) {
    read_vocabulary(vocabulary, merges);
    Json& rest = document_.rest;
    Json known = is_tokenizer_json() ? rest.value("added_tokens", Json()) : Json();
    const bool has_pipeline = is_tokenizer_json() && folder_.class_name == "ConvBertTokenizer";  // builds none itself
    if (rules_ != nullptr && !has_pipeline) use_rules();
    read_names(known);
    if (folder_.vocabulary.ends_with("vocab.txt")) check_words();
    AddedTokenList added(document_.pieces, rules_ == nullptr || has_pipeline ? std::move(known) : Json(),
                         folder_.vocabulary);
    add_tokens(added);
    rest["post_processor"] = post_processor(added);
    document_.splits_special = config_.boolean("split_special_tokens", false);
    rest["added_tokens"] = added.take();
    document_.cleans_up = cleans_up();
    return std::move(document_);
  }

 private:
  using Parts = std::vector<std::pair<std::string, unsigned>>;

  void read_vocabulary(std::span<const std::byte> vocabulary, std::string_view merges);
  void read_sentencepiece(std::span<const std::byte> file);
  void use_rules();
  void read_names(const Json& known);
  void check_words() const;
  void add_tokens(AddedTokenList& added) const;
  std::vector<Json> special_tokens() const;
  Json post_processor(const AddedTokenList& added) const;
  Json processor(const Parts& single, const Parts& pair, const AddedTokenList& added) const;
  Json bos_eos_processor(const AddedTokenList& added) const;
  Json language_processor(const AddedTokenList& added) const;
  std::string named(std::string_view role) const;
  bool cleans_up() const;
  bool is_tokenizer_json() const { return folder_.vocabulary.ends_with("tokenizer.json"); }

  const TokenizerFolder& folder_;
  JsonFields config_;
  const TokenizerClass* rules_;
  TokenizerDocument document_;
  Json charsmap_;                                    // base64; null: none
  std::optional<std::vector<Json>> control_pieces_;  // of a SentencePiece model: its control and user-defined pieces
  bool matches_raw_text_ = false;                    // the configuration's added tokens are not normalized
  std::vector<Json> by_id_;                          // these tokens
  std::vector<std::pair<std::string, Json>> model_names_;  // tokens that only a SentencePiece model names
  std::vector<std::pair<std::string, Json>> named_;
};

/// BPE cleans up only if the configuration insists on it.
bool FolderReader::cleans_up() const {
  const auto is_set = [&](const char* key) {
    return config_.find(key) != nullptr && !config_.find(key)->is_null() && config_.boolean(key);
  };
  const Json model = document_.rest.value("model", Json());
  const bool is_bpe = !model.is_object() || model.value("type", Json("BPE")) == "BPE";
  return is_set("clean_up_tokenization_spaces") &&
         (!is_bpe || is_set("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"));
}

/// The character map of a normalizer or of a sequence of them.
Json charsmap_of(const Json& normalizer) {
  if (!normalizer.is_object()) return nullptr;
  const Json list = normalizer.value("normalizers", Json::array({normalizer}));
  for (const Json& step : list) {
    if (step.is_object() && step.contains("precompiled_charsmap")) return step["precompiled_charsmap"];
  }
  return nullptr;
}

void FolderReader::read_vocabulary(std::span<const std::byte> vocabulary, std::string_view merges) {
  const std::string& path = folder_.vocabulary;
  const std::string_view text(reinterpret_cast<const char*>(vocabulary.data()), vocabulary.size());
  const auto expect = [&](bool is_supported) {
    if (is_supported) return;
    throw Unsupported(folder_.config_path,
                      "tokenizer_class: {} of a {} is not supported; save_pretrained of transformers' AutoTokenizer "
                      "writes a tokenizer.json, which is",
                      path.substr(path.rfind('/') + 1), folder_.class_name);
  };
  const auto has_model = [&](std::string_view model) { return rules_ != nullptr && rules_->model == model; };
  expect(!is_refused(folder_));
  if (is_tokenizer_json()) {
    document_ = parse_tokenizer_document(text, path);
    charsmap_ = charsmap_of(document_.rest.value("normalizer", Json()));
  } else if (path.ends_with(".model")) {
    expect(!has_model("WordPiece"));
    read_sentencepiece(vocabulary);
  } else if (path.ends_with("vocab.txt")) {
    expect(has_model("WordPiece"));
    document_.pieces = parse_vocab_lines(text, path);
    document_.has_vocab = true;
    document_.rest = Json::object();
  } else {
    if (rules_ == nullptr) rules_ = find_tokenizer_class("GPT2Tokenizer");
    expect(has_model("BPE"));
    document_ = parse_vocab_and_merges(text, path, merges, merges_of(path));
  }
}

void FolderReader::read_sentencepiece(std::span<const std::byte> file) {
  const SentencePieceModel model = parse_sentencepiece_model(file, folder_.vocabulary);
  control_pieces_.emplace();
  for (const VocabularyPiece& piece : model.pieces) {
    if (piece.type != PieceType::control && piece.type != PieceType::user_defined) continue;
    control_pieces_->push_back(
        added_token({{"content", piece.text}, {"normalized", false}, {"special", piece.type == PieceType::control}},
                    folder_.vocabulary));
  }
  if (!model.charsmap_base64.empty()) charsmap_ = model.charsmap_base64;
  if (rules_ != nullptr) {
    document_ = class_document(model, *rules_, config_);
    return;
  }
  document_ = backend_document(model, folder_);
  const auto is_text = [](const Json& piece) { return !piece["special"].get<bool>(); };
  control_pieces_->erase(std::remove_if(control_pieces_->begin(), control_pieces_->end(), is_text),
                         control_pieces_->end());
  matches_raw_text_ = model.add_dummy_prefix;
  const auto name_piece = [&](const char* role, std::optional<std::int32_t> id) {
    if (!id || config_.find(role) != nullptr) return;
    model_names_.emplace_back(role, model.pieces[static_cast<std::size_t>(*id)].text);
  };
  name_piece("bos_token", model.bos);
  name_piece("eos_token", model.eos);
  name_piece("unk_token", model.unk);
}

/// Replaces everything but the vocabulary, the merges and the post-processor. A tokenizer.json with another kind of
/// model than the class has is used as it is.
void FolderReader::use_rules() {
  const bool fits = document_.is_scored ? rules_->model == "Unigram" : rules_->model != "Unigram";
  if (!fits || document_.has_merges != (rules_->model == "BPE")) {
    rules_ = nullptr;
    return;
  }
  Json pipeline = rules_->pipeline(config_, charsmap_);
  Json& model = pipeline["model"];
  model["type"] = std::string(rules_->model);
  model["vocab"] = nullptr;
  model["merges"] = nullptr;
  if (rules_->model != "BPE") model.erase("merges");
  if (model.contains("unk_piece")) {
    const std::int32_t unk = document_.pieces.find(model["unk_piece"].get<std::string>());
    if (unk != kNoId) model["unk_id"] = static_cast<std::uint64_t>(unk);
    model.erase("unk_piece");
  }
  Json stored = document_.rest.value("post_processor", Json());
  document_.rest = std::move(pipeline);
  document_.rest["post_processor"] = std::move(stored);
}

/// Without added_tokens_decoder, `known`, the tokens of tokenizer.json, count like those of added_tokens.json.
void FolderReader::read_names(const Json& known) {
  std::map<std::int64_t, Json> by_id;
  for (const Json& token : folder_.added) by_id[token["id"].get<std::int64_t>()] = token;
  if (known.is_array() && config_.find("added_tokens_decoder") == nullptr) {
    for (const Json& token : known) {
      by_id[JsonFields(token, "an added token", folder_.vocabulary).integer("id")] =
          added_token(token, folder_.vocabulary);
    }
  }
  std::unordered_map<std::string, Json> by_text;
  for (auto& [id, token] : by_id) {
    token.erase("id");
    by_text[token["content"].get<std::string>()] = token;
    by_id_.push_back(std::move(token));
  }
  named_ = model_names_;
  for (const auto& [name, token] : folder_.named) {
    const bool is_role = std::find(kTokenRoles.begin(), kTokenRoles.end(), name) != kTokenRoles.end();
    const bool is_usual = is_role && config_.find(name) == nullptr;  // of the class
    if (!is_usual || rules_ != nullptr) named_.emplace_back(name, token);
  }
  for (auto& [name, token] : named_) {
    const auto found = by_text.find(token_text(token, folder_.config_path));
    if (found != by_text.end()) token = found->second;
  }
}

/// A vocab.txt without the tokens that every text needs is no vocabulary of BERT. (transformers adds them.)
void FolderReader::check_words() const {
  for (const char* role : {"unk_token", "sep_token", "cls_token"}) {
    if (document_.pieces.find(named(role)) != kNoId) continue;
    throw BadCheckpoint(folder_.vocabulary, "expected the {} \"{}\" in the vocabulary, got none", role, named(role));
  }
}

/// The special tokens without a name: those of the configuration, otherwise those of the class.
std::vector<Json> FolderReader::special_tokens() const {
  const Json* const extra = config_.find("extra_special_tokens");
  std::vector<Json> tokens;
  const auto append = [&](const Json& list) {
    for (const Json& token : list) tokens.push_back(added_token(token, folder_.config_path));
  };
  if (extra != nullptr && extra->is_array()) {
    append(*extra);
    return tokens;
  }
  if (config_.is_null("extra_special_tokens") && (rules_ == nullptr || rules_->order != PieceOrder::nllb))
    return tokens;
  const Json* const additional = config_.find("additional_special_tokens");
  if (control_pieces_) {
    tokens = *control_pieces_;
  } else if (additional != nullptr && additional->is_array()) {
    append(*additional);
  }
  if (rules_ == nullptr) return tokens;
  if (rules_->name == "T5Tokenizer") {
    const auto is_extra = [](const Json& t) { return t["content"].get<std::string>().starts_with("<extra_id_"); };
    if (std::any_of(tokens.begin(), tokens.end(), is_extra)) return tokens;
    for (std::int64_t i = 0; i < config_.integer("extra_ids", kUsualExtraIds); ++i) append({extra_id(i)});
  } else if (rules_->order == PieceOrder::pegasus) {
    tokens.clear();
    append({"<mask_1>"});
    for (std::int64_t i = 2; i < config_.integer("offset", kUsualOffset); ++i) append({unk_piece(i)});
  } else if (rules_->languages != nullptr && (rules_->order != PieceOrder::nllb || tokens.empty())) {
    for (const std::string& language : rules_->languages()) append({language});
  }
  return tokens;
}

void FolderReader::add_tokens(AddedTokenList& added) const {
  const auto is_named = [&](const Json& token) {
    return std::any_of(named_.begin(), named_.end(), [&](const auto& named) {
      return token_text(named.second, folder_.config_path) == token["content"];
    });
  };
  for (Json token : by_id_) {
    if (matches_raw_text_) token["normalized"] = false;
    if (!token["special"].get<bool>() && is_named(token)) token["special"] = true;
    added.add(std::move(token));
  }
  for (const auto& [name, value] : named_) {
    Json token = added_token(value, folder_.config_path);
    if (added.has(token["content"].get<std::string>())) continue;
    token["special"] = true;
    if (value.is_string() && rules_ != nullptr && rules_->mask_takes_space) {
      const bool is_mask = name == "mask_token";
      token["lstrip"] = is_mask;
      token["normalized"] = is_mask || rules_->model == "WordPiece";
    }
    added.add(std::move(token));
  }
  for (const Json& token : special_tokens()) {
    if (!added.has(token["content"].get<std::string>())) added.add(token);
  }
  const bool is_qwen = rules_ != nullptr && rules_->name.starts_with("Qwen");  // resets the flags
  for (const auto& [name, value] : named_) {
    if (is_qwen) added.add(added_token(token_text(value, folder_.config_path), folder_.config_path));
  }
}

std::string FolderReader::named(std::string_view role) const {
  for (const auto& [name, token] : named_) {
    if (name == role) return token_text(token, folder_.config_path);
  }
  return "";
}

Json FolderReader::processor(const Parts& single, const Parts& pair, const AddedTokenList& added) const {
  Json tokens = Json::object();
  for (const auto& [part, type] : pair) {
    if (part == "$A" || part == "$B") continue;
    const std::optional<std::int64_t> id = added.id_of(part);
    if (!id) throw BadCheckpoint(folder_.vocabulary, "expected the token \"{}\" in the vocabulary, got none", part);
    tokens[part] = {{"ids", Json::array({static_cast<std::uint64_t>(*id)})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", template_of(single)},
          {"pair", template_of(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json FolderReader::bos_eos_processor(const AddedTokenList& added) const {
  const bool counts = !is_tokenizer_json();  // otherwise transformers ignores the keys
  const std::string bos = named("bos_token"), eos = named("eos_token");
  const bool usual = rules_ != nullptr && rules_->name == "CodeLlamaTokenizer";
  const bool adds_bos = !bos.empty() && (counts ? config_.boolean("add_bos_token", usual) : usual);
  const bool adds_eos = !eos.empty() && counts && config_.boolean("add_eos_token", false);
  Parts single = {{"$A", 0}}, second = {{"$B", 1}};
  if (adds_bos) single.insert(single.begin(), {bos, 0});
  if (adds_bos) second.insert(second.begin(), {bos, 1});
  if (adds_eos) single.emplace_back(eos, 0);
  if (adds_eos) second.emplace_back(eos, 1);
  Parts pair = single;
  pair.insert(pair.end(), second.begin(), second.end());
  return processor(single, pair, added);
}

Json FolderReader::language_processor(const AddedTokenList& added) const {
  const std::string language = config_.string("src_lang", rules_->source_language), eos = named("eos_token");
  if (!added.id_of(language)) {
    throw BadCheckpoint(folder_.config_path, "src_lang: the vocabulary has no token {}", language);
  }
  const bool is_prefix = rules_->around == Around::prefix_language && !config_.boolean("legacy_behaviour", false);
  const Parts before = is_prefix ? Parts{{language, 0}} : Parts{};
  const Parts after = is_prefix ? Parts{{eos, 0}} : Parts{{eos, 0}, {language, 0}};
  const auto around = [&](const Parts& texts) {
    Parts all = before;
    all.insert(all.end(), texts.begin(), texts.end());
    all.insert(all.end(), after.begin(), after.end());
    return all;
  };
  return processor(around({{"$A", 0}}), around({{"$A", 0}, {"$B", 0}}), added);
}

Json FolderReader::post_processor(const AddedTokenList& added) const {
  const Json stored = document_.rest.value("post_processor", Json());
  const Around around = rules_ == nullptr ? Around::stored : rules_->around;
  const std::string cls = named("cls_token"), sep = named("sep_token"), bos = named("bos_token"),
                    eos = named("eos_token");
  const auto roberta = [&](const std::string& first, const std::string& last) {
    return processor({{first, 0}, {"$A", 0}, {last, 0}},
                     {{first, 0}, {"$A", 0}, {last, 0}, {last, 0}, {"$B", 0}, {last, 0}}, added);
  };
  switch (around) {
    case Around::stored:
      return is_tokenizer_json() && !stored.is_null() && folder_.class_name != "CodeLlamaTokenizer"
                 ? stored
                 : bos_eos_processor(added);
    case Around::bos_eos:
      return bos_eos_processor(added);
    case Around::albert:
      if (!stored.is_null()) return stored;
      if (config_.find("add_bos_token") != nullptr || config_.find("add_eos_token") != nullptr) {
        return bos_eos_processor(added);
      }
      [[fallthrough]];
    case Around::bert:
      return processor({{cls, 0}, {"$A", 0}, {sep, 0}}, {{cls, 0}, {"$A", 0}, {sep, 0}, {"$B", 1}, {sep, 1}}, added);
    case Around::roberta:
      return roberta(cls, sep);
    case Around::xlm_roberta:
      return roberta(bos, eos);
    case Around::eos: {
      Parts pair = {{"$A", 0}, {eos, 0}, {"$B", 0}, {eos, 0}};
      if (rules_->order == PieceOrder::pegasus) pair.erase(pair.begin() + 1);
      return processor({{"$A", 0}, {eos, 0}}, pair, added);
    }
    case Around::prefix_language:
    case Around::suffix_language:
      return language_processor(added);
  }
  return stored;
}

}  // namespace

TokenizerDocument folder_document(const TokenizerFolder& folder, std::span<const std::byte> vocabulary,
                                  std::string_view merges) {
  return FolderReader(folder).read(vocabulary, merges);
}

TokenizerDocument folder_document(const TokenizerFolder& folder) {
  const auto file = MappedFile::open(folder.vocabulary);
  if (!folder.vocabulary.ends_with("vocab.json")) return folder_document(folder, file->bytes(), "");
  return folder_document(folder, file->bytes(), MappedFile::open(merges_of(folder.vocabulary))->text());
}

}  // namespace vitrine
