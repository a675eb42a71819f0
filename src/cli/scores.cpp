#include "cli/scores.h"

#include <fmt/format.h>

#include "cli/options.h"

namespace vitrine::cli {
namespace {

ScoreTokenizer score_tokenizer(const std::string& name) {
  for (const auto tokenizer : {ScoreTokenizer::intl, ScoreTokenizer::character, ScoreTokenizer::none}) {
    if (name == name_of(tokenizer)) return tokenizer;
  }
  return ScoreTokenizer::v13a;
}

}  // namespace

void add_score_settings(Command& command, ScoreSettings& settings) {
  add_choice(command, "--tokenize", settings.tokenize, {"13a", "intl", "char", "none"},
             "Tokenizer of BLEU: 13a, intl, char or none (default: 13a)");
  command.add_flag("--lowercase", settings.lowercase, "Compare texts in lower case");
}

Scores scores_of(std::span<const LinePair> lines, const ScoreSettings& settings) {
  const BleuSettings bleu{score_tokenizer(settings.tokenize), settings.lowercase};
  return {corpus_bleu(lines, bleu), corpus_chrf(lines, settings.lowercase), bleu.signature()};
}

void add_scores(const Scores& scores, Json& object) {
  object.update({{"bleu", scores.bleu.score},
                 {"precisions", scores.bleu.precisions},
                 {"brevity_penalty", scores.bleu.brevity_penalty},
                 {"chrf", scores.chrf.chrf},
                 {"chrf++", scores.chrf.chrf_plus_plus},
                 {"signature", scores.signature}});
}

std::string to_string(const Scores& scores) {
  const Bleu& bleu = scores.bleu;
  return fmt::format(
      "BLEU             {:.2f}\nprecisions       {:.1f} / {:.1f} / {:.1f} / {:.1f}\n"
      "brevity penalty  {:.3f}, {} tokens for {}\nchrF             {:.2f}\nchrF++           {:.2f}\n"
      "signature        {}\n",
      bleu.score, bleu.precisions[0], bleu.precisions[1], bleu.precisions[2], bleu.precisions[3], bleu.brevity_penalty,
      bleu.hypothesis_length, bleu.reference_length, scores.chrf.chrf, scores.chrf.chrf_plus_plus, scores.signature);
}

}  // namespace vitrine::cli
