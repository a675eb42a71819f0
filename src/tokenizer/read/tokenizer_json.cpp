#include "tokenizer/read/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/algorithms/subword_model.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/placed.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

/// The components of a tokenizer.json.
struct Parts {
  std::unique_ptr<const Normalizer> normalizer;  // may be null
  PreTokenizers pre_tokenizers;
  std::unique_ptr<const SubwordModel> model;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  std::unique_ptr<const Tokenizer> target = nullptr;  // null: the tokenizer itself
  bool cleans_up = false;
};

/// Whether a token names a language as in NLLB ("fra_Latn"), mBART ("fr_XX") or M2M-100 ("__fr__").
bool is_language_code(std::string_view text) {
  const auto all = [](std::string_view part, char first, char last) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [&](char c) { return c >= first && c <= last; });
  };
  if (text.size() > 4 && text.starts_with("__") && text.ends_with("__")) {
    return all(text.substr(2, text.size() - 4), 'a', 'z');
  }
  const std::size_t end = text.find('_');
  if (end == text.npos || end < 2 || end > 3 || !all(text.substr(0, end), 'a', 'z')) return false;
  const std::string_view region = text.substr(end + 1);
  return (region.size() == 2 && all(region, 'A', 'Z')) ||
         (region.size() == 4 && all(region.substr(0, 1), 'A', 'Z') && all(region.substr(1), 'a', 'z'));
}

class JsonTokenizer final : public Tokenizer {
 public:
  explicit JsonTokenizer(Parts parts);
  void use_source_language(const std::string& language);

  std::string piece(std::int32_t id) const override { return std::string(piece_view(id)); }
  std::string bytes(std::int32_t id) const override;
  bool is_text(std::int32_t id) const override { return id != parts_.model->unknown() && Tokenizer::is_text(id); }
  std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  std::string spelled_after(std::optional<std::int32_t> previous, std::int32_t id) const override;
  std::optional<std::int64_t> language_place() const override { return language_place_; }
  bool keeps_start(std::int32_t id) const override { return is_control(id); }
  bool cleans_up() const override { return parts_.cleans_up; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<std::int32_t> bos() const override { return bos_; }
  const std::vector<std::int32_t>& stop_ids() const override { return stop_ids_; }
  PlacedTexts with_template(const PlacedIds& first, const PlacedIds* second, SpecialTokens policy) const override;
  std::string continuing_prefix() const override { return parts_.model->spelling().continuing_prefix; }
  std::optional<std::int32_t> unknown() const override {
    return parts_.model->unknown() < 0 ? std::nullopt : std::optional(parts_.model->unknown());
  }
  std::string join(std::span<const std::string> pieces) const override;

 private:
  /// The places of the ids, in bytes of the text.
  struct Placing {
    std::string_view text;
    TextPlaces places{};
    std::vector<std::int32_t> words{};  // of each id
    std::int32_t word = 0;

    void add(TextPlace place) {
      places.push_back(place);
      words.push_back(word);
    }
  };
  /// One call of encode.
  struct Job {
    const SpecialRule& rule;
    SubwordWorkspace& workspace;
    EncodingRecorder* recorder;
    std::vector<std::int32_t>& ids;
    Placing* placing = nullptr;  // null: places are not wanted
  };

  std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                   EncodingRecorder* recorder) const override;
  PairEncoding encode_texts(std::string_view a, std::string_view b, SpecialTokens policy,
                            std::optional<std::int64_t> most) const override;
  PlacedIds encode_places(std::string_view text, SpecialTokens policy) const override;
  void encode_text(std::string_view text, Job& job) const;
  std::string_view piece_view(std::int32_t id) const;
  std::string_view spelling(std::int32_t id) const;  ///< What the decoder gets.
  bool is_control(std::int32_t id) const;            ///< Whether `id` is a special added token, which decoding omits.
  void encode_valid(std::string_view text, bool at_start, Job& job) const;
  void encode_raw(std::string_view text, bool at_start, Job& job) const;
  void encode_word(std::string_view word, Job& job, std::span<const TextPlace> places = {}) const;

  Parts parts_;
  bool is_byte_level_;
  std::int64_t vocab_size_;
  std::optional<std::int32_t> bos_;
  std::optional<std::int64_t> language_place_;
  std::vector<std::int32_t> stop_ids_;  // empty: other files of a checkpoint define them
  mutable ObjectPool<SubwordWorkspace> workspaces_;
};

JsonTokenizer::JsonTokenizer(Parts parts) : Tokenizer(std::move(parts.target)), parts_(std::move(parts)) {
  is_byte_level_ = parts_.pre_tokenizers.is_byte_level();
  vocab_size_ = parts_.model->pieces().size();
  for (const AddedToken& token : parts_.added.tokens()) vocab_size_ = std::max(vocab_size_, std::int64_t{token.id} + 1);
  const std::vector<std::int32_t>&before = parts_.post_processor.before, &after = parts_.post_processor.after;
  const auto is_language = [this](std::int32_t id) { return is_language_code(piece_view(id)); };
  if (const auto it = std::find_if(before.begin(), before.end(), is_language); it != before.end()) {
    language_place_ = it - before.begin();
  } else if (const auto last = std::find_if(after.begin(), after.end(), is_language); last != after.end()) {
    language_place_ = last - after.end();
  }
  if (!before.empty()) bos_ = before.front();
  set_fim_tokens(find_fim_tokens([this](std::string_view text) {
    for (const AddedToken& token : parts_.added.tokens()) {
      if (token.content == text) return token.id;
    }
    return parts_.model->pieces().find(text);
  }));
  parts_.added.mark_fim(fim_tokens().all());
}

/// Throws BadInput if the post-processor adds no token of a language, or if there is none of this one.
void JsonTokenizer::use_source_language(const std::string& language) {
  PostProcessor& around = parts_.post_processor;
  std::vector<std::int32_t> added = around.before;
  added.insert(added.end(), around.after.begin(), around.after.end());
  if (!language_place_) throw BadInput("--source-lang", "the tokenizer does not mark texts with their language");
  const std::int32_t from =
      added[static_cast<std::size_t>(*language_place_ < 0 ? std::ssize(added) + *language_place_ : *language_place_)];
  const std::int32_t to = language_token(*this, language, "--source-lang");
  const auto replace = [&](std::vector<std::int32_t>& ids) { std::replace(ids.begin(), ids.end(), from, to); };
  replace(around.before);
  replace(around.after);
  if (!around.pair) return;
  for (PairPart& part : *around.pair) replace(part.ids);
}

std::vector<std::int32_t> JsonTokenizer::encode(std::string_view text, const SpecialRule& rule,
                                                EncodingRecorder* recorder) const {
  const auto lease = workspaces_.lease();
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 16);
  lease->bpe.recorder = recorder;
  Job job = {rule, *lease, recorder, ids};
  const auto put = [&](const std::vector<std::int32_t>& added) {
    if (rule.policy != SpecialTokens::apply) return;
    for (const std::int32_t id : added) add_token(id, Explanation::Token::From::policy, ids, recorder);
  };
  put(parts_.post_processor.before);
  encode_text(text, job);
  put(parts_.post_processor.after);
  return ids;
}

PairEncoding JsonTokenizer::encode_texts(std::string_view a, std::string_view b, SpecialTokens policy,
                                         std::optional<std::int64_t> most) const {
  if (!parts_.post_processor.pair) return Tokenizer::encode_texts(a, b, policy, most);
  const auto lease = workspaces_.lease();
  lease->bpe.recorder = nullptr;
  const SpecialRule rule = policy;
  const auto encode_one = [&](std::string_view text) {
    std::vector<std::int32_t> ids;
    Job job = {rule, *lease, nullptr, ids};
    encode_text(text, job);
    return ids;
  };
  std::vector<std::int32_t> first = encode_one(a), second = encode_one(b);
  return join_pair(*parts_.post_processor.pair, std::move(first), std::move(second), policy == SpecialTokens::apply,
                   most);
}

PlacedIds JsonTokenizer::encode_places(std::string_view text, SpecialTokens policy) const {
  const auto lease = workspaces_.lease();
  lease->bpe.recorder = nullptr;
  const SpecialRule rule = policy;
  PlacedIds result;
  Placing placing{text};
  Job job = {rule, *lease, nullptr, result.ids, &placing};
  encode_text(text, job);
  result.places = std::move(placing.places);
  result.words = std::move(placing.words);
  count_characters(text, result.places);
  std::vector<std::string> pieces;
  for (const std::int32_t id : result.ids) pieces.push_back(piece(id));
  for (const bool has_prefix : parts_.post_processor.trims) trim_places(pieces, has_prefix, result.places);
  return result;
}

PlacedTexts JsonTokenizer::with_template(const PlacedIds& first, const PlacedIds* second, SpecialTokens policy) const {
  using Kind = PairPart::Kind;
  std::vector<PairPart> parts = {{Kind::added, 0, parts_.post_processor.before}, {Kind::first}};
  parts.push_back({Kind::added, 0, parts_.post_processor.after});
  if (second != nullptr) {
    if (!parts_.post_processor.pair) encode_texts("", "", policy, {});  // throws
    parts = *parts_.post_processor.pair;
  }
  return place_in_template(parts, first, second, policy == SpecialTokens::apply);
}

std::string JsonTokenizer::join(std::span<const std::string> pieces) const {
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    text += parts_.decoder(pieces[i], {i == 0, i == 0 ? std::string_view() : std::string_view(pieces[i - 1])});
  }
  return with_replacements(text);
}

/// Appends the ids of a text without those of a template.
void JsonTokenizer::encode_text(std::string_view text, Job& job) const {
  if (is_valid_utf8(text)) {
    encode_valid(text, true, job);
  } else if (is_byte_level_) {
    for_each_valid_run(
        text, [&](std::string_view run) { encode_valid(run, run.data() == text.data(), job); },
        [&](char byte) {
          encode_word(byte_level({&byte, 1}), job);
        });
  } else {
    std::string valid;
    for_each_valid_run(
        text, [&](std::string_view run) { valid += run; }, [&](char) { valid += "\uFFFD"; });
    if (job.recorder != nullptr) job.recorder->normalized("U+FFFD for invalid UTF-8", text, valid);
    encode_valid(valid, true, job);
  }
}

void JsonTokenizer::encode_valid(std::string_view text, bool at_start, Job& job) const {
  parts_.added.split_raw(
      text, job.rule, [&](std::string_view part) { encode_raw(part, at_start && part.data() == text.data(), job); },
      [&](std::int32_t id, std::string_view match) {
        add_token(id, Explanation::Token::From::text, job.ids, job.recorder);
        if (job.placing == nullptr) return;
        const auto begin = static_cast<std::uint32_t>(match.data() - job.placing->text.data());
        job.placing->add({begin, begin + static_cast<std::uint32_t>(match.size())});
        ++job.placing->word;
      });
}

void JsonTokenizer::encode_raw(std::string_view text, bool at_start, Job& job) const {
  std::string buffer;
  std::string_view normalized = text;
  if (job.recorder != nullptr) job.recorder->part(text);
  TextPlaces places;
  if (job.placing != nullptr)
    places = places_of(text, static_cast<std::size_t>(text.data() - job.placing->text.data()));
  if (parts_.normalizer != nullptr) {
    buffer = job.placing != nullptr ? (*parts_.normalizer)(std::string(text), places)
                                    : (*parts_.normalizer)(std::string(text), job.recorder);
    normalized = buffer;
  }
  const auto placed = [&](std::string_view part) {
    return std::span<const TextPlace>(places).subspan(static_cast<std::size_t>(part.data() - normalized.data()),
                                                      part.size());
  };
  const auto encode_part = [&](std::string_view part) {
    const bool starts = at_start && part.data() == normalized.data();
    if (job.placing != nullptr) {
      return parts_.pre_tokenizers.with_places(
          part, starts, placed(part),
          [&](std::string_view word, std::span<const TextPlace> own) { encode_word(word, job, own); });
    }
    parts_.pre_tokenizers(
        part, starts, [&](std::string_view word, bool) { encode_word(word, job); }, job.recorder);
  };
  parts_.added.split_normalized(normalized, job.rule, encode_part, [&](std::int32_t id, std::string_view match) {
    add_token(id, Explanation::Token::From::text, job.ids, job.recorder);
    if (job.placing == nullptr) return;
    job.placing->add(joined(placed(match)));
    ++job.placing->word;
  });
}

void JsonTokenizer::encode_word(std::string_view word, Job& job, std::span<const TextPlace> places) const {
  const std::size_t first = job.ids.size();
  record_word(job.recorder, word, job.ids, [&] { parts_.model->encode(word, job.workspace, job.ids); });
  if (job.placing == nullptr) return;
  for (const TextPlace& p : places_in_word(*parts_.model, word, std::span(job.ids).subspan(first))) {
    job.placing->add(joined(places.subspan(p.begin, p.end - p.begin)));
  }
  ++job.placing->word;
}

std::string_view JsonTokenizer::piece_view(std::int32_t id) const {
  checked_index(id);
  const AddedToken* added = parts_.added.find(id);
  return added != nullptr ? std::string_view(added->content) : parts_.model->pieces().piece(id);
}

std::string_view JsonTokenizer::spelling(std::int32_t id) const {
  const std::string* added = parts_.added.spelling(id);
  return added != nullptr ? std::string_view(*added) : piece_view(id);
}

bool JsonTokenizer::is_control(std::int32_t id) const {
  const AddedToken* added = parts_.added.find(id);
  return added != nullptr && added->special;
}

std::string JsonTokenizer::bytes(std::int32_t id) const {
  const std::string_view piece = spelling(id);
  if (is_control(id)) return "";
  return parts_.decoder(piece, {false, {}});
}

std::string JsonTokenizer::spelled_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  const std::string_view piece = spelling(id);
  return parts_.decoder(piece, {!previous, previous ? spelling(*previous) : std::string_view()});
}

std::string JsonTokenizer::bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const {
  const std::string_view piece = spelling(id);
  if (is_control(id)) return "";
  return parts_.decoder(piece, {!previous, previous ? spelling(*previous) : std::string_view()});
}

/// Throws unless the ids that a template adds are those of tokens.
void check_template(const PostProcessor& around, std::int64_t n_pieces, const AddedTokens& added,
                    std::string_view path) {
  const auto check = [&](std::int32_t id) {
    const auto is_it = [id](const AddedToken& token) { return token.id == id; };
    if (id < n_pieces || std::any_of(added.tokens().begin(), added.tokens().end(), is_it)) return;
    throw BadCheckpoint(path, "the template adds the id {}, which no token has", id);
  };
  std::for_each(around.before.begin(), around.before.end(), check);
  std::for_each(around.after.begin(), around.after.end(), check);
  if (!around.pair) return;
  for (const PairPart& part : *around.pair) std::for_each(part.ids.begin(), part.ids.end(), check);
}

}  // namespace

std::unique_ptr<const Tokenizer> parse_tokenizer_json(std::string_view file, std::string_view path,
                                                      const std::string& source_lang,
                                                      std::unique_ptr<const Tokenizer> target) {
  return make_json_tokenizer(parse_tokenizer_document(file, path), path, source_lang, std::move(target));
}

std::unique_ptr<const Tokenizer> make_json_tokenizer(TokenizerDocument document, std::string_view path,
                                                     const std::string& source_lang,
                                                     std::unique_ptr<const Tokenizer> target) {
  const JsonFields root(document.rest, "the tokenizer", path);
  root.allow({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "model",
              "post_processor", "decoder"});
  const auto part = [&](std::string_view key) { return root.find(key) == nullptr ? Json() : *root.find(key); };
  auto normalizer = parse_normalizer(part("normalizer"), path);
  auto pre_tokenizers = parse_pre_tokenizers(part("pre_tokenizer"), path);
  auto model = parse_subword_model(document, path);
  AddedTokens added(parse_added_tokens(part("added_tokens"), model->pieces(), path), normalizer.get(),
                    document.splits_special);
  PostProcessor post_processor = parse_post_processor(part("post_processor"), path);
  check_template(post_processor, model->pieces().size(), added, path);
  // A processor without a template, such as ByteLevel, puts the second text after the first.
  if (!post_processor.pair && post_processor.before.empty() && post_processor.after.empty() &&
      !post_processor.trims.empty()) {
    post_processor.pair = {{PairPart::Kind::first}, {PairPart::Kind::second}};
  }
  auto tokenizer = std::make_unique<JsonTokenizer>(
      Parts{std::move(normalizer), std::move(pre_tokenizers), std::move(model), std::move(added),
            std::move(post_processor), Decoder(part("decoder"), path), std::move(target), document.cleans_up});
  if (!source_lang.empty()) tokenizer->use_source_language(source_lang);
  return tokenizer;
}

TokenizerDocument parse_vocab_and_merges(std::string_view vocab, std::string_view vocab_path, std::string_view merges,
                                         std::string_view merges_path) {
  TokenizerDocument document;
  if (merges.size() > kMaxTokenizerBytes) {
    throw Unsupported(merges_path, "more than {} bytes of merges are not supported", kMaxTokenizerBytes);
  }
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    if (document.merges.size() >= MergeTable::kMaxMerges) {
      throw BadCheckpoint(merges_path, "expected at most {} merges", MergeTable::kMaxMerges);
    }
    add_merge_line(line, document.merges, merges_path);
  }
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  document.pieces = parse_vocab_json(vocab, vocab_path);
  document.has_vocab = document.has_merges = true;
  document.rest = {{"added_tokens", Json::array()},
                   {"pre_tokenizer", level},
                   {"decoder", level},
                   {"model", {{"type", "BPE"}, {"vocab", nullptr}, {"merges", nullptr}}}};
  const char* const kEndOfText = "<|endoftext|>";
  const std::int32_t end_of_text = document.pieces.find(kEndOfText);
  if (end_of_text != kNoId) {
    document.rest["added_tokens"].push_back(
        {{"id", static_cast<std::uint64_t>(end_of_text)}, {"content", kEndOfText}, {"special", true}});
  }
  return document;
}

}  // namespace vitrine
