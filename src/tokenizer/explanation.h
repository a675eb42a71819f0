// The steps by which a text becomes ids, recorded while it is encoded.
//
// The functions that encode take a recorder, which is null unless an explanation was requested.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vitrine {

/// The steps are in the order of the text. The ids of its tokens and words, concatenated, are `ids`.
struct Explanation {
  /// A text, or the beginning of a long one.
  struct Excerpt {
    std::string text;
    std::size_t n_bytes = 0;  ///< Of the whole text.
  };
  /// Plain text between special and added tokens.
  struct Part {
    Excerpt text;
  };
  /// A special or added token.
  struct Token {
    enum class From { text, policy };  ///< Written in the text, or added to it (BOS, the post-processor's template).
    std::int32_t id;
    From from;
  };
  /// The result of a normalizer that changed the part.
  struct Normalized {
    std::string by;
    Excerpt text;
  };
  /// The words that one pre-tokenizer of a sequence made from the part.
  struct Cut {
    std::string by;
    std::vector<Excerpt> words;
  };
  /// Two adjacent symbols become one.
  struct Merge {
    double order;       ///< Its rank (the lowest first), or the score of its piece (the highest first).
    std::size_t place;  ///< Index, in `Word::symbols`, of the first symbol of the left one.
    std::string left, right, result;
  };
  /// A piece that matches [begin, end) of the word.
  struct Candidate {
    std::size_t begin, end;  ///< Bytes.
    std::int32_t id;
    double score = 0;     ///< Of the piece, if the model has scores.
    double best = 0;      ///< The score of the best path that ends with this piece.
    bool chosen = false;  ///< Whether the piece is on the best path.
  };
  /// The unit that the model encodes: a pre-token, or a part if there is no pre-tokenizer.
  struct Word {
    enum class Rule { merges_by_rank, merges_by_score, best_sum, longest_first, whole };
    Excerpt text;
    Rule rule = Rule::whole;
    std::vector<std::string> symbols;   ///< Before the first merge.
    std::vector<Merge> merges;          ///< In the order in which they were applied.
    std::vector<Candidate> candidates;  ///< Sorted by begin.
    std::vector<std::int32_t> ids;
  };
  using Step = std::variant<Part, Token, Normalized, Cut, Word>;

  std::vector<Step> steps;
  std::vector<std::int32_t> ids;  ///< Of the whole text, even if `is_cut`.
  bool is_cut = false;            ///< There were too many steps; only the first ones were recorded.
};

/// Records the steps up to a limit, which bounds its memory.
class EncodingRecorder {
 public:
  /// `max_items` limits the number of steps, symbols, merges and candidates together. Every 64 bytes of text count as
  /// one more item.
  explicit EncodingRecorder(std::size_t max_items) : items_left_(max_items) {}

  void part(std::string_view text);
  void token(std::int32_t id, Explanation::Token::From from);
  /// Records nothing if the text did not change.
  void normalized(std::string_view by, std::string_view before, std::string_view after);

  /// Begins a step for each pre-tokenizer. pre_token() then adds a word to the step of pre-tokenizer `stage`.
  void begin_cuts(std::span<const std::string> names);
  void pre_token(std::size_t stage, std::string_view word);

  void begin_word(std::string_view word);
  void rule(Explanation::Word::Rule rule);
  void end_word(std::span<const std::int32_t> ids);

  /// Begins a segment of the word that is merged on its own. `place` counts from its first symbol.
  void begin_symbols();
  void symbol(std::string_view text);
  void merge(double order, std::size_t place, std::string_view left, std::string_view right, std::string_view result);

  /// Candidates must be added in ascending order of `begin`.
  void candidate(const Explanation::Candidate& candidate);
  void chosen(std::size_t begin, std::size_t end);

  Explanation finish(std::vector<std::int32_t> ids);

 private:
  bool take(std::size_t n_bytes);
  Explanation::Word* word();

  Explanation explanation_;
  std::size_t items_left_;
  bool in_word_ = false;          // the last step is a word that is being recorded
  std::size_t first_cut_ = 0;     // index of the first pre-tokenizer's step
  std::size_t first_symbol_ = 0;  // of the segment
};

/// Appends a special or added token to `ids`, and records it unless `recorder` is null.
inline void add_token(std::int32_t id, Explanation::Token::From from, std::vector<std::int32_t>& ids,
                      EncodingRecorder* recorder) {
  ids.push_back(id);
  if (recorder != nullptr) recorder->token(id, from);
}

/// Encodes one word with `encode()`, which appends to `ids`, and records it unless `recorder` is null.
template <class Encode>
void record_word(EncodingRecorder* recorder, std::string_view word, std::vector<std::int32_t>& ids, Encode&& encode) {
  if (recorder == nullptr) return encode();
  const std::size_t n_before = ids.size();
  recorder->begin_word(word);
  encode();
  recorder->end_word(std::span(ids).subspan(n_before));
}

}  // namespace vitrine
