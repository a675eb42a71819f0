// Converts text to token ids and back: the interface that every tokenizer format implements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/explanation.h"
#include "tokenizer/fim_tokens.h"

namespace vitrine {

/// How encode treats special tokens (BOS, EOS, control tokens).
enum class SpecialTokens {
  apply,    ///< adds the tokenizer's BOS and EOS and recognizes special tokens that are written in the text
  none,     ///< adds none and recognizes none
  written,  ///< recognizes those that are written in the text and adds none: for text that a chat template has made
};

/// Parts of a text: bytes [begin, end), in ascending order and disjoint.
using TextSpans = std::span<const std::pair<std::int64_t, std::int64_t>>;

/// A policy, and the parts of the text in which special tokens may be written.
class SpecialRule {
 public:
  SpecialRule(SpecialTokens p) : policy(p) {}  // NOLINT(google-explicit-constructor): a policy alone is a rule
  /// A policy that recognizes special tokens in the parts `trusted` of `text` only.
  SpecialRule(std::string_view text, TextSpans trusted, SpecialTokens p)
      : policy(p), text_(text), trusted_(trusted), trusts_all_(false) {}
  /// Whether `match`, a part of the text or of its normalization, is the special token that it spells.
  bool recognizes(std::string_view match) const;

  const SpecialTokens policy;
  /// Whether tokens for filling in the middle are text, too, where a vocabulary has them among those that are always
  /// found.
  bool fim_is_text = false;

 private:
  bool trusts(std::size_t begin, std::size_t end) const;

  std::string_view text_;
  TextSpans trusted_;
  bool trusts_all_ = true;
};

/// Two texts as one sequence, with the type ("segment") of each token.
struct PairEncoding {
  std::vector<std::int32_t> ids, types;
  bool is_cut = false;  ///< The texts had more tokens.
};

struct PlacedIds;
struct PlacedTexts;

/// A vocabulary and the rules that divide text into its pieces. Immutable and thread-safe. Functions that take an id
/// throw BadInput if it is outside [0, vocab_size()).
class Tokenizer {
 public:
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// The ids of `text`, which may contain any bytes, including NUL and invalid UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy) const;

  /// The ids of what is before or after the middle of a text that is filled in: nothing that is written in it is a
  /// special token or one for filling in the middle.
  std::vector<std::int32_t> encode_part(std::string_view text) const;

  /// The ids of a text that a chat template has made. Special tokens count only where they are written within the parts
  /// `trusted` of the text, which the template has written: elsewhere, `<|im_end|>` is text. BOS and EOS are added with
  /// SpecialTokens::apply only.
  std::vector<std::int32_t> encode_trusted(std::string_view text, TextSpans trusted,
                                           SpecialTokens policy = SpecialTokens::written) const;

  /// The ids of a pair of texts, such as a question and a passage: BERT's [CLS] a [SEP] b [SEP], with types 0 for the
  /// first text and 1 for the second. With `most`, at most so many ids: the longer text loses its last ones, then both,
  /// as in the tokenizers library (longest_first). Throws Unsupported if the tokenizer has no rule for pairs, BadInput
  /// if `most` leaves no room for a token of each text.
  PairEncoding encode_pair(std::string_view a, std::string_view b, SpecialTokens policy,
                           std::optional<std::int64_t> most = std::nullopt) const;

  /// The ids of a text without those of a template, with their places in it. Throws BadInput for a text that is not
  /// UTF-8, Unsupported if the tokenizer does not know places.
  PlacedIds encode_placed(std::string_view text, SpecialTokens policy) const;

  /// One or two texts with what the template adds, if `policy` is SpecialTokens::apply. Throws Unsupported if there is
  /// no rule for pairs.
  virtual PlacedTexts with_template(const PlacedIds& first, const PlacedIds* second, SpecialTokens policy) const;

  /// What the pieces after the first of a word begin with, as "##" of WordPiece; "" if such pieces have no mark.
  virtual std::string continuing_prefix() const { return ""; }

  /// The token of what the vocabulary cannot spell, if there is one.
  virtual std::optional<std::int32_t> unknown() const { return std::nullopt; }

  /// The text of pieces, which may be no pieces of the vocabulary.
  virtual std::string join(std::span<const std::string> pieces) const;

  /// The same ids, and at most about `max_items` of the steps that lead to them. Throws what encode throws.
  Explanation explain(std::string_view text, SpecialTokens policy, std::size_t max_items = 20'000) const;

  /// The piece as the vocabulary spells it ("<0x0A>", "\n<s>\n"), for display.
  virtual std::string piece(std::int32_t id) const = 0;

  /// The bytes of the token, independent of the tokens before it; "" for control tokens. They may end inside a
  /// character.
  virtual std::string bytes(std::int32_t id) const = 0;

  /// Whether `id` stands for text: not for control, unknown and unused tokens and special added ones.
  virtual bool is_text(std::int32_t id) const { return !bytes(id).empty(); }

  /// The bytes that `id` adds to a text whose last token is `previous`, or to an empty text.
  virtual std::string bytes_after(std::optional<std::int32_t> /*previous*/, std::int32_t id) const { return bytes(id); }

  /// The same with special tokens as the vocabulary spells them, where the format has a rule for that.
  virtual std::string spelled_after(std::optional<std::int32_t> previous, std::int32_t id) const {
    return bytes_after(previous, id);
  }

  /// Where encode() puts the token of a text's language: an index, below 0 from the end; none if it puts none.
  virtual std::optional<std::int64_t> language_place() const { return std::nullopt; }

  /// Whether the token after a leading `id` is decoded like the first one. (SentencePiece drops the dummy prefix after
  /// control tokens, too.)
  virtual bool keeps_start(std::int32_t /*id*/) const { return false; }

  /// Whether decoded text loses the spaces that clean_up_spaces() removes.
  virtual bool cleans_up() const { return false; }

  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> bos() const = 0;

  /// Every id that ends a text, in ascending order.
  virtual const std::vector<std::int32_t>& stop_ids() const = 0;

  /// The tokens for filling in the middle of a text, those of them that the vocabulary has.
  const FimTokens& fim_tokens() const { return fim_tokens_; }

  /// Whether encode() with SpecialTokens::apply begins a text with BOS.
  bool adds_bos() const;

  /// The text of `ids`, as raw bytes.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The tokenizer of what the decoder of an encoder–decoder reads and writes, which may have another vocabulary: its
  /// own ids, pieces and text. This tokenizer itself, unless the files of the tokenizer define two.
  const Tokenizer& target() const { return target_ != nullptr ? *target_ : *this; }

 protected:
  explicit Tokenizer(std::unique_ptr<const Tokenizer> target = nullptr) : target_(std::move(target)) {}
  /// `id` as an index. Throws BadInput if it is outside [0, vocab_size()).
  std::size_t checked_index(std::int32_t id) const;
  /// For the constructors.
  void set_fim_tokens(const FimTokens& tokens) { fim_tokens_ = tokens; }

  /// What encode_placed() returns; `text` is valid UTF-8. By default, throws Unsupported.
  virtual PlacedIds encode_places(std::string_view text, SpecialTokens policy) const;

  /// What encode_pair() returns. By default, throws Unsupported.
  virtual PairEncoding encode_texts(std::string_view a, std::string_view b, SpecialTokens policy,
                                    std::optional<std::int64_t> most) const;

 private:
  /// `text` has at most 2^30 bytes, so that offsets fit into int32. Records every step unless `recorder` is null.
  virtual std::vector<std::int32_t> encode(std::string_view text, const SpecialRule& rule,
                                           EncodingRecorder* recorder) const = 0;

  std::unique_ptr<const Tokenizer> target_;
  FimTokens fim_tokens_;
};

/// Converts ids to bytes one at a time. The results, concatenated, equal the result of decode for all ids, unless the
/// tokenizer cleans it up.
class Detokenizer {
 public:
  /// `previous` is the id before the first one, if any: the last id of the prompt when a continuation is decoded.
  /// `tokenizer` must outlive this object.
  explicit Detokenizer(const Tokenizer& tokenizer, std::optional<std::int32_t> previous = std::nullopt)
      : tokenizer_(&tokenizer), previous_(previous && tokenizer.keeps_start(*previous) ? std::nullopt : previous) {}

  /// The bytes that `id` adds. Throws BadInput if `id` is outside the vocabulary.
  std::string push(std::int32_t id);

 private:
  const Tokenizer* tokenizer_;
  std::optional<std::int32_t> previous_;
};

/// Settings that some tokenizer files lack.
struct TokenizerOptions {
  std::string pattern;      ///< The regex that splits text into words, for tiktoken ranks; "": the published one.
  std::string source_lang;  ///< The language of source texts, of those that the tokenizer marks; "": the files' one.
};

/// The id of the token of a language: `language` itself, or the form `__fr__` of M2M-100. Throws BadInput if there is
/// no such token; `option` names the language in errors.
std::int32_t language_token(const Tokenizer& tokenizer, const std::string& language, std::string_view option);

/// Marks the ids of a source text, which encode() has made, with another language. Throws BadInput if they have no
/// mark.
void set_source_language(const Tokenizer& tokenizer, const std::string& language, std::vector<std::int32_t>& ids);

/// Opens the tokenizer at `path`, a file or a folder. Detects the format from the contents. Throws BadInput if there is
/// no tokenizer, Unsupported for a known format that is not supported, BadCheckpoint for a malformed file.
std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& path, const TokenizerOptions& options = {});

/// The files of the tokenizer at `path`, and the names under which load_tokenizer() finds them in a folder. Throws what
/// load_tokenizer() throws, and Unsupported for a tokenizer that is part of a GGUF model.
struct TokenizerFile {
  std::string path, name;
};
std::vector<TokenizerFile> tokenizer_files(const std::string& path);

/// A number that identifies a tokenizer; token shards store it. FNV-1a (64 bit) of the vocabulary and of the ids of a
/// text that exercises the rules. A tokenizer in two formats has the same fingerprint if both spell its pieces alike.
std::uint64_t tokenizer_fingerprint(const Tokenizer& tokenizer);

}  // namespace vitrine
