// How a text becomes ids, step by step, as recorded while it is encoded.
//
// The functions that encode take a recorder, null where nobody watches; there is no second tokenizer that explains.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vitrine {

/// The steps in the order of the text. The ids of its tokens and words, joined, are `ids`.
struct Explanation {
  /// A text, or the front of a long one.
  struct Excerpt {
    std::string text;
    std::size_t n_bytes = 0;  ///< Of the whole.
  };
  /// Plain text: what stands between special and added tokens.
  struct Part {
    Excerpt text;
  };
  /// A token that merging does not make.
  struct Token {
    enum class From { text, policy };  ///< Written in the text, or put around it (BOS, a post-processor's template).
    std::int32_t id;
    From from;
  };
  /// What a normalizer made of the part, where it changed something.
  struct Normalized {
    std::string by;
    Excerpt text;
  };
  /// What a pre-tokenizer cut the part into, where there are several one below the other.
  struct Cut {
    std::string by;
    std::vector<Excerpt> words;
  };
  /// Two neighbours become one symbol.
  struct Merge {
    double order;       ///< Its rank (less goes first), or its piece's score (more goes first).
    std::size_t place;  ///< Number of the first symbol, counted as the word began, that stands in the left one.
    std::string left, right, result;
  };
  /// A piece that could stand at [begin, end) of the word.
  struct Candidate {
    std::size_t begin, end;  ///< Bytes.
    std::int32_t id;
    double score = 0;     ///< Of the piece, where the model has scores.
    double best = 0;      ///< With the best way to `begin`.
    bool chosen = false;  ///< On the way that was taken.
  };
  /// What a model takes at once: a pre-token, or a part where nothing cuts it further.
  struct Word {
    enum class Rule { merges_by_rank, merges_by_score, best_sum, longest_first, whole };
    Excerpt text;
    Rule rule = Rule::whole;
    std::vector<std::string> symbols;   ///< Before the first merge.
    std::vector<Merge> merges;          ///< In the order in which they are applied.
    std::vector<Candidate> candidates;  ///< Ascending by begin.
    std::vector<std::int32_t> ids;
  };
  using Step = std::variant<Part, Token, Normalized, Cut, Word>;

  std::vector<Step> steps;
  std::vector<std::int32_t> ids;  ///< Of the whole text in any case.
  bool is_cut = false;            ///< There were too many steps: only the first ones stand here.
};

/// Writes down what the functions that encode tell. What goes beyond its limit is left out, so that memory is bounded.
class EncodingRecorder {
 public:
  /// `max_items` bounds steps, symbols, merges and candidates together; 64 bytes of their texts count as one more.
  explicit EncodingRecorder(std::size_t max_items) : items_left_(max_items) {}

  void part(std::string_view text);
  void token(std::int32_t id, Explanation::Token::From from);
  void tokens(std::span<const std::int32_t> ids, Explanation::Token::From from);
  /// Records nothing where the text is as before.
  void normalized(std::string_view by, std::string_view before, std::string_view after);

  /// The pre-tokenizers of what comes next; pre_token tells what the one of number `stage` cuts.
  void begin_cuts(std::span<const std::string> names);
  void pre_token(std::size_t stage, std::string_view word);

  void begin_word(std::string_view word);
  void rule(Explanation::Word::Rule rule);
  void end_word(std::span<const std::int32_t> ids);

  /// A stretch of the word that is merged alone; `place` counts from its first symbol.
  void begin_symbols();
  void symbol(std::string_view text);
  void merge(double order, std::size_t place, std::string_view left, std::string_view right, std::string_view result);
  /// The same, where `place` counts the symbols as they are before this merge.
  void merge_now(double order, std::size_t place, std::string_view left, std::string_view right,
                 std::string_view result);

  /// It begins not before those that were told before.
  void candidate(const Explanation::Candidate& candidate);
  void chosen(std::size_t begin, std::size_t end);

  Explanation finish(std::vector<std::int32_t> ids);

 private:
  bool take(std::size_t n_bytes);
  Explanation::Word* word();

  Explanation explanation_;
  std::size_t items_left_;
  bool in_word_ = false;             // the last step is a word that is being told
  std::size_t first_cut_ = 0;        // where the first pre-tokenizer's step stands
  std::size_t first_symbol_ = 0;     // of the stretch
  std::vector<std::size_t> places_;  // of the stretch's symbols as they are, for merge_now
};

/// Encodes one word by `encode()`, which appends to `ids`, and tells the recorder, if there is one.
template <class Encode>
void record_word(EncodingRecorder* recorder, std::string_view word, std::vector<std::int32_t>& ids, Encode&& encode) {
  if (recorder == nullptr) return encode();
  const std::size_t n_before = ids.size();
  recorder->begin_word(word);
  encode();
  recorder->end_word(std::span(ids).subspan(n_before));
}

}  // namespace vitrine
