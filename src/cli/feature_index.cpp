// vitrine features index: what each feature of dictionaries does in a corpus; vitrine features show: one of them.
#include "inspect/feature_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/exclusive_folder.h"
#include "cli/commands.h"
#include "cli/corpus_windows.h"
#include "cli/feature_index.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

struct FeatureIndexOptions : Options {
  std::string out;
  std::optional<std::int64_t> window;
  IndexOptions index;
};

constexpr std::int64_t kDefaultWindow = 128;

/// The texts of all tokens: of those that are no text, their pieces.
std::vector<std::string> texts_of_tokens(const Session& session) {
  std::vector<std::string> texts;
  if (session.tokenizer == nullptr) return texts;
  for (std::int32_t id = 0; id < session.tokenizer->vocab_size(); ++id) {
    const std::string bytes = session.tokenizer->bytes(id);
    texts.push_back(bytes.empty() ? session.tokenizer->piece(id) : bytes);
  }
  return texts;
}

Json feature_index_settings(const FeatureIndexOptions& o, const Session& session, const CorpusWindows& corpus,
                            std::int64_t window, std::optional<std::int32_t> bos) {
  Json saes = Json::array();
  const SkippedTokens* skipped = nullptr;
  for (const AppliedDictionary& applied : session.applied.dictionaries) {
    saes.push_back(index_key(*applied.dictionary));
    if (applied.skipped != nullptr) skipped = applied.skipped.get();
  }
  return {{"corpus", corpus.identity()},
          {"window", window},
          {"contexts", o.index.contexts},
          {"bos", bos ? Json(*bos) : Json()},
          {"skipped", skipped != nullptr ? Json(skipped->ids) : Json::array()},
          {"saes", std::move(saes)}};
}

/// The finished index that a folder has; none if it has none, or an unfinished one. Throws BadInput for one with other
/// settings.
FeatureIndexes finished_index(const std::string& folder, const Session& session, const Json& settings) {
  FeatureIndexes all;
  std::error_code error;
  if (fs::exists(unfinished_folder(folder) + "/progress.safetensors", error)) return all;
  for (const AppliedDictionary& applied : session.applied.dictionaries) {
    const std::string path = folder + "/" + index_key(*applied.dictionary) + ".safetensors";
    if (!fs::exists(path, error)) continue;
    all.push_back(std::make_shared<const FeatureIndex>(path));
    if (all.back()->settings() == settings) continue;
    throw BadInput(folder, "it already has an index of features with other settings; choose another folder");
  }
  if (all.size() < session.applied.dictionaries.size()) all.clear();
  return all;
}

void report_index(const FeatureIndexOptions& o, const FeatureIndexes& all) {
  Json saes = Json::array();
  for (const auto& index : all) {
    saes.push_back({{"name", index->sae()["name"]},
                    {"site", index->sae()["site"]},
                    {"d_sae", index->d_sae()},
                    {"tokens", index->tokens()},
                    {"dead", index->dead()}});
  }
  if (o.json) return print_json({{"out", o.out}, {"windows", all.front()->windows()}, {"saes", std::move(saes)}});
  for (const auto& index : all) {
    print(fmt::format("{}/{}: {} features, {} of them never active, over {} tokens in {} windows\n", o.out,
                      index->key(), grouped(index->d_sae()), grouped(index->dead()), grouped(index->tokens()),
                      grouped(index->windows())));
  }
}

std::int64_t window_of(const FeatureIndexOptions& o, const Session& session) {
  const std::int64_t max_seq_len = session.checkpoint.model->config().max_seq_len;
  const std::int64_t window = o.window.value_or(std::min(kDefaultWindow, max_seq_len));
  if (window > max_seq_len) {
    throw BadInput("--window", "expected at most {} tokens (the model's context), got {}", max_seq_len, window);
  }
  if (window > kMostShownTokens / o.index.contexts) {
    throw BadInput("--contexts", "expected at most {} tokens in the contexts of a feature, got {} of {}",
                   kMostShownTokens, o.index.contexts, window);
  }
  return window;
}

void run_feature_index(const FeatureIndexOptions& o) {
  if (o.positionals == 0) throw MissingArgument("CORPUS");
  if (o.dictionaries.empty()) throw MissingArgument("--sae");
  const bool has_model = o.positionals == 2;
  const Session session = open_for_texts(o, has_model ? o.first : "", false);
  const std::string path = has_model ? o.second : o.first;
  if (session.has_encoder()) throw Unsupported("features", "the model is an encoder–decoder");
  const std::int64_t window = window_of(o, session);
  std::optional<std::int32_t> bos;
  if (!o.no_special) bos = session.bos();
  if (bos && window < 2) throw BadInput("--window", "expected at least 2 tokens, of which BOS is one, got {}", window);

  std::error_code error;
  fs::create_directories(o.out, error);
  if (error) throw BadInput(o.out, "cannot create the folder: {}", error.message());
  const ExclusiveFolder lock(o.out);
  stop_cleanly();
  CorpusWindows corpus(path, session, unfinished_folder(o.out));
  corpus.divide(window, bos);
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  if (corpus.tokens() == 0) throw BadInput(path, "expected at least one token, got none");
  if (corpus.tokens() >= kMostTokens) throw BadInput(path, "expected fewer than 2^31 tokens, got {}", corpus.tokens());
  IndexOptions options = o.index;
  options.settings = feature_index_settings(o, session, corpus, window, bos);
  if (const auto finished = finished_index(o.out, session, options.settings); !finished.empty()) {
    fs::remove_all(unfinished_folder(o.out), error);
    return report_index(o, finished);
  }
  options.window_at = [&](std::int64_t start) { return corpus.at(start); };
  options.texts = texts_of_tokens(session);
  FeatureIndexer indexer(session.context(o), o.out, std::move(options));
  try {
    {
      ProgressBar bar("windows");
      indexer.read(corpus.tokens(), bar.reporter());
    }
    ProgressBar bar("logits");
    indexer.finish(bar.reporter());
  } catch (const Interrupted&) {
    note(fmt::format("{} has {} windows; the same command goes on", o.out, grouped(indexer.windows())));
    throw;
  }
  report_index(o, finished_index(o.out, session, indexer.settings()));
}

void add_index(Command& group) {
  const auto [command, o] = new_command<FeatureIndexOptions>(
      group, "index", "Find the strongest contexts of every feature in a corpus, and what it does to the logits");
  add_positionals(command, *o, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME", "CORPUS",
                  "A text file, JSON Lines with \"text\", a folder of them, or a folder of data pack; a single "
                  "positional is CORPUS");
  add_modifiers(command, *o);
  add_read_dictionaries(command, *o);
  command.add_option("--out", o->out, "The folder to write; an unfinished index in it is continued")->required();
  add_number<std::int64_t>(command, "--window", o->window,
                           "Tokens of a context, including BOS (default: 128, or the model's context)", 1);
  add_number<std::int64_t>(command, "--contexts", o->index.contexts, "Contexts of a feature to keep (default: 10)", 1,
                           10'000);
  add_number<std::int64_t>(command, "--save-every", o->index.save_every,
                           "Windows between savings of the progress (default: 1000)", 1);
  finish_command(
      command, o, run_feature_index,
      "A context is a window of one document. Windows do not overlap, and each begins with BOS if the model\n"
      "has one (not with --no-special). The memory does not depend on the length of the corpus. A command\n"
      "that was interrupted or killed goes on when it is given again (docs/features.md).\n"
      "Example: vitrine features index story.txt --sae models/default/sae --out features/");
}

struct FeatureShowOptions : Options {
  std::string index, feature, site;
};

/// The bins as blocks of eight heights.
std::string bars_of(const std::vector<std::int32_t>& counts) {
  constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::int32_t most = std::max(1, *std::ranges::max_element(counts));
  std::string bars;
  for (const std::int32_t count : counts) {
    const std::int64_t height = (std::int64_t{8} * std::max(0, count) + most - 1) / most;
    bars += kBlocks[height];
  }
  return bars;
}

/// The text around the strongest token, which is between marks.
std::string text_around(const FeatureIndex& index, const FeatureContext& context) {
  constexpr std::int64_t kBefore = 14, kAfter = 6;
  std::string text;
  const std::int64_t n = std::ssize(context.ids);
  const std::int64_t first = std::max<std::int64_t>(0, context.position - kBefore);
  for (std::int64_t t = first; t < std::min(n, context.position + kAfter); ++t) {
    const std::string own = index.text(context.ids[static_cast<std::size_t>(t)]);
    text += t == context.position ? "»" + own + "«" : own;
  }
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string logits_line(const FeatureIndex& index, const char* name, const std::vector<LogitWeight>& logits) {
  std::string line = name;
  for (const auto& [id, weight] : logits) line += fmt::format("  {} {:.3f}", in_quotes(index.text(id)), weight);
  return line + "\n";
}

void show_dashboard(const FeatureIndex& index, std::int64_t feature, const FeatureDashboard& dashboard) {
  print(fmt::format("feature {} of {}: active at {:.4f}% of {} tokens\n", feature, index.key(), 100 * dashboard.density,
                    grouped(index.tokens())));
  if (!dashboard.logits.top.empty()) {
    print(logits_line(index, "raises", dashboard.logits.top));
    print(logits_line(index, "lowers", dashboard.logits.bottom));
  }
  if (dashboard.contexts.empty()) return;
  print(
      fmt::format("{:.4g} |{}| {:.4g}\n", dashboard.edges.front(), bars_of(dashboard.counts), dashboard.edges.back()));
  Table table({{"max", Table::Align::right}, {"token", Table::Align::right}, {"context"}});
  for (const FeatureContext& context : dashboard.contexts) {
    table.add({fmt::format("{:.3f}", context.max), grouped(context.start), text_around(index, context)});
  }
  print(table.text());
}

void run_feature_show(const FeatureShowOptions& o) {
  const auto feature = number_in<std::int64_t>(o.feature);
  if (!feature) throw UsageError("N", "expected the number of a feature, got \"" + o.feature + "\"");
  const auto all = open_feature_indexes(o.index);
  const FeatureIndex& index = index_named(all, o.site, "--site");
  const FeatureDashboard dashboard = index.dashboard(*feature);
  if (o.json) return print_json(dashboard_json(index, dashboard));
  show_dashboard(index, *feature, dashboard);
}

void add_show(Command& group) {
  const auto [command, o] = new_command<FeatureShowOptions>(group, "show", "Show what a feature does in a corpus");
  command.add_option("DIR", o->index, "A folder of features index, or a file of it")->required()->type_name("");
  command.add_option("N", o->feature, "The feature")->required()->type_name("");
  command.add_option("--site", o->site, "The dictionary, if DIR has several: SITE or SITE.NAME");
  finish_command(command, o, run_feature_show, "Example: vitrine features show features/ 77");
}

}  // namespace

void add_features_index(Command& command, std::string& path, const std::string& what_for) {
  command.add_option("--features-index", path, "A folder of features index, " + what_for)->type_name("DIR");
}

void add_feature_index(Command& features) {
  add_index(features);
  add_show(features);
}

}  // namespace vitrine::cli
