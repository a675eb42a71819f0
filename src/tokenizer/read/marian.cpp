#include "tokenizer/read/marian.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/algorithms/sentencepiece_encoder.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/read/tokenizer_document.h"
#include "tokenizer/read/tokenizer_folder.h"

namespace vitrine {
namespace {

/// The contents of tokenizer_config.json that determine ids.
struct MarianConfig {
  std::string unk = "<unk>", eos = "</s>", pad = "<pad>";
  bool separate_vocabs = false, cleans_up = false;
  Json added;                        // "added_tokens_decoder", in the form of a tokenizer.json
  std::vector<std::string> special;  // the other special tokens
  std::string source_language = "en", language_codes = "m2m100";
  std::string where;  // the file
};

/// A vocabulary and its special tokens.
struct MarianVocabulary {
  PieceTable pieces;
  AddedTokens added;
  std::int32_t unk = 0, eos = 0;
  std::optional<std::int32_t> language = std::nullopt;  // of M2M-100's texts, which begin with its token
  bool cleans_up = false;
};

class MarianTokenizer final : public Tokenizer {
 public:
  MarianTokenizer(SentencePieceModel model, MarianVocabulary vocabulary, std::unique_ptr<const Tokenizer> target);

  std::string piece(std::int32_t id) const override { return std::string(piece_view(id)); }
  std::string bytes(std::int32_t id) const override;
  bool is_text(std::int32_t id) const override { return id != vocabulary_.unk && Tokenizer::is_text(id); }
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  bool keeps_start(std::int32_t id) const override;
  bool cleans_up() const override { return vocabulary_.cleans_up; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }
  std::optional<std::int64_t> language_place() const override {
    return vocabulary_.language ? std::optional<std::int64_t>(0) : std::nullopt;
  }

 private:
  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const override;
  void encode_part(std::string_view text, std::vector<std::int32_t>& ids, EncodingRecorder* recorder) const;
  std::int32_t id_of(std::string_view piece) const;
  std::string_view piece_view(std::int32_t id) const;

  SentencePieceEncoder encoder_;
  MarianVocabulary vocabulary_;
  std::int64_t vocab_size_;
  std::vector<std::int32_t> stop_ids_;
};

MarianTokenizer::MarianTokenizer(SentencePieceModel model, MarianVocabulary vocabulary,
                                 std::unique_ptr<const Tokenizer> target)
    : Tokenizer(std::move(target)),
      encoder_(std::move(model)),
      vocabulary_(std::move(vocabulary)),
      vocab_size_(vocabulary_.pieces.size()),
      stop_ids_{vocabulary_.eos} {
  for (const AddedToken& token : vocabulary_.added.tokens()) {
    vocab_size_ = std::max(vocab_size_, std::int64_t{token.id} + 1);
  }
}

std::vector<std::int32_t> MarianTokenizer::encode(std::string_view text, const SpecialRule& rule,
                                                  EncodingRecorder* recorder) const {
  std::vector<std::int32_t> ids;
  const auto put = [&](std::int32_t id) { add_token(id, Explanation::Token::From::text, ids, recorder); };
  const auto encode_text = [&](std::string_view part) {
    if (rule.policy != SpecialTokens::none && !vocabulary_.language && part.starts_with(">>")) {
      const std::size_t end = part.find("<<");
      const std::size_t length = end == part.npos ? 0 : end + 2;
      if (length > 0) put(id_of(part.substr(0, length)));
      part.remove_prefix(length);
    }
    encode_part(part, ids, recorder);
  };
  if (rule.policy == SpecialTokens::apply && vocabulary_.language) {
    add_token(*vocabulary_.language, Explanation::Token::From::policy, ids, recorder);
  }
  vocabulary_.added.split_raw(text, rule, encode_text, [&](std::int32_t id, std::string_view) { put(id); });
  if (rule.policy == SpecialTokens::apply) {
    add_token(vocabulary_.eos, Explanation::Token::From::policy, ids, recorder);
  }
  return ids;
}

void MarianTokenizer::encode_part(std::string_view text, std::vector<std::int32_t>& ids,
                                  EncodingRecorder* recorder) const {
  const SentencePieceEncoder::Spelling spelling = encoder_.spell(text);
  if (recorder != nullptr && !text.empty()) {
    recorder->part(text);
    recorder->normalized("SentencePiece", text, spelling.normalized);
  }
  if (spelling.normalized.empty()) return;
  record_word(recorder, spelling.normalized, ids, [&] {
    for (const std::string& piece : spelling.pieces) ids.push_back(id_of(piece));
  });
}

std::int32_t MarianTokenizer::id_of(std::string_view piece) const {
  const std::int32_t id = vocabulary_.pieces.find(piece);
  return id != kNoId ? id : vocabulary_.unk;
}

std::string_view MarianTokenizer::piece_view(std::int32_t id) const {
  checked_index(id);
  const AddedToken* added = vocabulary_.added.find(id);
  return added != nullptr ? std::string_view(added->content) : vocabulary_.pieces.piece(id);
}

std::string MarianTokenizer::bytes(std::int32_t id) const {
  const std::string_view piece = piece_view(id);
  const AddedToken* added = vocabulary_.added.find(id);
  if (added != nullptr && added->special) return "";
  if (encoder_.model().byte_fallback && byte_of_piece(piece)) {
    return std::string(1, static_cast<char>(*byte_of_piece(piece)));
  }
  return with_spaces(piece);
}

/// A text has no spaces at its start.
std::string MarianTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  std::string text = bytes(id);
  if (!previous) text.erase(0, text.find_first_not_of(' '));
  return text;
}

bool MarianTokenizer::keeps_start(std::int32_t id) const { return bytes_after(std::nullopt, id).empty(); }

MarianConfig marian_config(const std::string& path) {
  const TokenizerFolder folder = read_tokenizer_folder(path);
  const JsonFields fields(folder.config, "the configuration", folder.config_path);
  const Json* options = fields.find("sp_model_kwargs");
  if (options != nullptr && !options->empty()) {
    throw Unsupported(fields.where(), "sp_model_kwargs: options of the SentencePiece library are not supported");
  }
  if (fields.boolean("split_special_tokens", false)) {
    throw Unsupported(folder.config_path, "split_special_tokens of this class is not supported; set it to false");
  }
  MarianConfig config;
  config.separate_vocabs = fields.boolean("separate_vocabs", false);
  const Json* cleans_up = fields.find("clean_up_tokenization_spaces");
  config.cleans_up = cleans_up != nullptr && !cleans_up->is_null() && fields.boolean("clean_up_tokenization_spaces");
  config.added = folder.added;
  config.where = folder.config_path;
  config.source_language = fields.string("src_lang", "en");
  config.language_codes = fields.string("language_codes", "m2m100");
  if (const Json* extra = fields.find("extra_special_tokens"); extra != nullptr && extra->is_array()) {
    for (const Json& token : *extra) config.special.push_back(token_text(token, config.where));
  }
  for (const auto& [name, token] : folder.named) {
    config.special.push_back(token_text(token, config.where));
    if (name == "unk_token") config.unk = token_text(token, config.where);
    if (name == "eos_token") config.eos = token_text(token, config.where);
    if (name == "pad_token") config.pad = token_text(token, config.where);
  }
  return config;
}

/// `added` has the ids of vocab.json, so that a vocabulary of its own for the target ignores it.
MarianVocabulary marian_vocabulary(const std::string& path, const MarianConfig& config, const Json& added) {
  MarianVocabulary result;
  result.pieces = parse_vocab_json(MappedFile::open(path)->text(), path);
  result.cleans_up = config.cleans_up;
  const auto required = [&](const std::string& name) {
    const std::int32_t id = result.pieces.find(name);
    if (id == kNoId) throw BadCheckpoint(path, "expected the token \"{}\" in the vocabulary, got none", name);
    return id;
  };
  result.unk = required(config.unk);
  result.eos = required(config.eos);
  std::vector<AddedToken> tokens = parse_added_tokens(added, result.pieces, config.where);
  for (const std::string& name : {config.unk, config.eos, config.pad}) {
    const std::int32_t id = result.pieces.find(name);
    const auto is_it = [&](const AddedToken& token) { return token.id == id; };
    if (id == kNoId || std::any_of(tokens.begin(), tokens.end(), is_it)) continue;
    tokens.push_back({id, name, false, false, false, false, true});
  }
  result.added = AddedTokens(std::move(tokens), nullptr);
  return result;
}

}  // namespace

std::unique_ptr<const Tokenizer> load_marian_tokenizer(const std::string& folder) {
  const auto file = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  const auto model = [&](const char* name) {
    return parse_sentencepiece_model(MappedFile::open(file(name))->bytes(), file(name));
  };
  const MarianConfig config = marian_config(folder);
  const bool two = config.separate_vocabs;
  auto target_vocabulary =
      marian_vocabulary(file(two ? "target_vocab.json" : "vocab.json"), config, two ? Json() : config.added);
  auto target = std::make_unique<MarianTokenizer>(model("target.spm"), std::move(target_vocabulary), nullptr);
  return std::make_unique<MarianTokenizer>(
      model("source.spm"), marian_vocabulary(file("vocab.json"), config, config.added), std::move(target));
}

std::unique_ptr<const Tokenizer> load_m2m100_tokenizer(const std::string& folder, const std::string& language) {
  const auto file = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  MarianConfig config = marian_config(folder);
  for (const std::string& usual : {std::string("<s>"), config.unk, config.eos, config.pad}) {
    config.special.push_back(usual);
  }
  MarianVocabulary vocabulary = marian_vocabulary(file("vocab.json"), config, Json());
  PieceTable& pieces = vocabulary.pieces;
  for (const std::string& code : m2m100_languages(config.language_codes)) {
    pieces.add("__" + code + "__", pieces.size(), true);
  }
  std::vector<AddedToken> tokens = parse_added_tokens(config.added, pieces, config.where);
  for (const std::string& name : config.special) {
    const std::int32_t id = pieces.find(name);
    const auto is_it = [&](const AddedToken& token) { return token.id == id; };
    if (id == kNoId || std::any_of(tokens.begin(), tokens.end(), is_it)) continue;
    tokens.push_back({id, name, false, false, false, false, true});
  }
  vocabulary.added = AddedTokens(std::move(tokens), nullptr);
  const std::string mark = "__" + (language.empty() ? config.source_language : language) + "__";
  const std::int32_t known = pieces.find(mark), spelled = pieces.find(language);
  vocabulary.language = known != kNoId ? known : spelled;
  if (*vocabulary.language == kNoId) throw BadInput("--source-lang", "the vocabulary has no token {}", mark);
  const std::string model = file("sentencepiece.bpe.model");
  return std::make_unique<MarianTokenizer>(parse_sentencepiece_model(MappedFile::open(model)->bytes(), model),
                                           std::move(vocabulary), nullptr);
}

}  // namespace vitrine
