// Text to token ids and back: the interface that every tokenizer format implements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/explanation.h"

namespace vitrine {

/// What encode does about special tokens (BOS, EOS, control tokens).
enum class SpecialTokens {
  apply,  ///< the tokenizer's own BOS and EOS are added, special tokens written in the text are recognized
  none,   ///< nothing is added, nothing is recognized: text is only text
};

/// A vocabulary and the rule that cuts text into it. Immutable, so one object may serve any number of threads.
/// Functions that take an id throw BadInput where it lies outside [0, vocab_size()).
class Tokenizer {
 public:
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// The ids of `text`, which may hold any bytes, NUL and broken UTF-8 included.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy) const {
    return encode(text, policy, nullptr);
  }

  /// The same ids and how they came about, in about `max_items` steps at most. Throws what encode throws.
  Explanation explain(std::string_view text, SpecialTokens policy, std::size_t max_items = 20'000) const;

  /// The piece as the vocabulary spells it ("<0x0A>", "\n<s>\n"): for display.
  virtual std::string piece(std::int32_t id) const = 0;

  /// The bytes that the token stands for, whatever stands before it; "" for control tokens. They need not end on a
  /// whole character.
  virtual std::string bytes(std::int32_t id) const = 0;

  /// The bytes that `id` adds to a text whose last token is `previous` (none: it is the first one).
  virtual std::string bytes_after(std::optional<std::int32_t> previous, std::int32_t id) const = 0;

  /// Whether a text that begins with `id` is still at its start behind it: then the next id is read as the first one.
  /// (SentencePiece drops the dummy prefix also behind control tokens.)
  virtual bool keeps_start(std::int32_t id) const;

  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> bos() const = 0;

  /// Every id that ends a text, ascending.
  virtual const std::vector<std::int32_t>& stop_ids() const = 0;

  /// The whole text of `ids`, as raw bytes.
  std::string decode(std::span<const std::int32_t> ids) const;

 protected:
  Tokenizer() = default;

 private:
  /// Tells `recorder` every step, unless it is null.
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens policy,
                                           EncodingRecorder* recorder) const = 0;
};

/// Turns ids into bytes one at a time; what it returns, joined, is what decode gives for the same ids at once.
class Detokenizer {
 public:
  /// `previous` is the last id of the prompt where a continuation is read, none at the start of a text. `tokenizer`
  /// must outlive this object.
  explicit Detokenizer(const Tokenizer& tokenizer, std::optional<std::int32_t> previous = std::nullopt)
      : tokenizer_(&tokenizer), previous_(previous && tokenizer.keeps_start(*previous) ? std::nullopt : previous) {}

  /// The bytes that `id` adds. Throws BadInput where `id` is outside the vocabulary.
  std::string push(std::int32_t id);

 private:
  const Tokenizer* tokenizer_;
  std::optional<std::int32_t> previous_;
};

/// What a file of vocabulary may need to be told besides.
struct TokenizerOptions {
  std::string pattern;  ///< The regex that cuts text into words, for tiktoken ranks; "": the published one.
};

/// Opens the tokenizer at `path`, a file whose format is told from its content, or a folder that holds one. Throws
/// BadInput where nothing is found, Unsupported for a known format that cannot be read yet, BadCheckpoint for a broken
/// file.
std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& path, const TokenizerOptions& options = {});

/// The files of the tokenizer at `path`, and the names under which load_tokenizer() finds them in a folder. Throws as
/// it does, and Unsupported for one that lies within a model's file (GGUF).
struct TokenizerFile {
  std::string path, name;
};
std::vector<TokenizerFile> tokenizer_files(const std::string& path);

}  // namespace vitrine
