// vitrine score: BLEU and chrF of translations.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/scores.h"
#include "cli/texts.h"

namespace vitrine::cli {
namespace {

struct ScoreOptions : Options {
  std::string hypotheses, references;
  ScoreSettings settings;
};

void run_score(const ScoreOptions& o) {
  const auto hypotheses = MappedFile::open_or_read(o.hypotheses), references = MappedFile::open_or_read(o.references);
  const auto [h, r] = line_pairs(*hypotheses, *references);
  std::vector<LinePair> pairs;
  for (std::size_t i = 0; i < h.size(); ++i) pairs.push_back({h[i], r[i]});
  const Scores scores = scores_of(pairs, o.settings);
  if (!o.json) return print(to_string(scores));
  Json object = Json::object();
  add_scores(scores, object);
  print_json(object);
}

}  // namespace

void add_score(Command& program) {
  const auto [command, o] =
      new_command<ScoreOptions>(program, "score", "Compare translations with references: BLEU, chrF and chrF++");
  command.add_option("HYP", o->hypotheses, "The translations, one per line")->required()->type_name("");
  command.add_option("REF", o->references, "The references, one per line")->required()->type_name("");
  add_score_settings(command, o->settings);
  finish_command(command, o, run_score,
                 "The numbers are those of sacreBLEU, from 0 to 100; report the signature with them.\n"
                 "Example: vitrine score translations.txt references.txt --lowercase");
}

}  // namespace vitrine::cli
