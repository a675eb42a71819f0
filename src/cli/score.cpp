// vitrine score: BLEU and chrF of translations.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "tokenizer/utf8.h"

namespace vitrine::cli {
namespace {

struct ScoreOptions : Options {
  std::string hypotheses, references;
  std::string tokenize = "13a";
  bool lowercase = false;
};

ScoreTokenizer score_tokenizer(const std::string& name) {
  for (const auto tokenizer : {ScoreTokenizer::intl, ScoreTokenizer::character, ScoreTokenizer::none}) {
    if (name == name_of(tokenizer)) return tokenizer;
  }
  return ScoreTokenizer::v13a;
}

/// The lines of a file, with or without a line break after the last one. Throws BadInput if there are none, or for one
/// that is not UTF-8.
std::vector<std::string_view> lines_of(const MappedFile& file) {
  std::vector<std::string_view> lines = split(file.text(), '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty()) throw BadInput(file.path(), "expected lines of text, got an empty file");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_valid_utf8(lines[i])) throw BadInput(fmt::format("{}:{}", file.path(), i + 1), "expected text in UTF-8");
  }
  return lines;
}

std::vector<LinePair> pair_lines(const MappedFile& hypotheses, const MappedFile& references) {
  const std::vector<std::string_view> h = lines_of(hypotheses), r = lines_of(references);
  if (h.size() != r.size()) {
    throw BadInput(hypotheses.path(), "expected {} lines, as many as in {}, got {}", r.size(), references.path(),
                   h.size());
  }
  std::vector<LinePair> pairs;
  for (std::size_t i = 0; i < h.size(); ++i) pairs.push_back({h[i], r[i]});
  return pairs;
}

void run_score(const ScoreOptions& o) {
  const auto hypotheses = MappedFile::open(o.hypotheses), references = MappedFile::open(o.references);
  const std::vector<LinePair> lines = pair_lines(*hypotheses, *references);
  const BleuSettings settings{score_tokenizer(o.tokenize), o.lowercase};
  const Bleu bleu = corpus_bleu(lines, settings);
  const Chrf chrf = corpus_chrf(lines, o.lowercase);
  if (o.json) {
    return print_json({{"bleu", bleu.score},
                       {"precisions", bleu.precisions},
                       {"brevity_penalty", bleu.brevity_penalty},
                       {"chrf", chrf.chrf},
                       {"chrf++", chrf.chrf_plus_plus},
                       {"signature", settings.signature()}});
  }
  print(fmt::format(
      "BLEU             {:.2f}\nprecisions       {:.1f} / {:.1f} / {:.1f} / {:.1f}\n"
      "brevity penalty  {:.3f}, {} tokens for {}\nchrF             {:.2f}\nchrF++           {:.2f}\n"
      "signature        {}\n",
      bleu.score, bleu.precisions[0], bleu.precisions[1], bleu.precisions[2], bleu.precisions[3], bleu.brevity_penalty,
      bleu.hypothesis_length, bleu.reference_length, chrf.chrf, chrf.chrf_plus_plus, settings.signature()));
}

}  // namespace

void add_score(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("score", "Compare translations with references: BLEU, chrF and chrF++");
  const auto o = std::make_shared<ScoreOptions>();
  command.add_option("HYP", o->hypotheses, "The translations, one per line")->required()->type_name("");
  command.add_option("REF", o->references, "The references, one per line")->required()->type_name("");
  command.add_option("--tokenize", o->tokenize, "Tokenizer of BLEU: 13a, intl, char or none (default: 13a)")
      ->check(CLI::IsMember({"13a", "intl", "char", "none"}));
  command.add_flag("--lowercase", o->lowercase, "Compare texts in lower case");
  finish_command(command, o, run_score,
                 "The numbers are those of sacreBLEU, from 0 to 100; report the signature with them.\n"
                 "Example: vitrine score translations.txt references.txt --lowercase");
}

}  // namespace vitrine::cli
