// vitrine features: the features of dictionaries that are active at each token of a text.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/safetensors.h"
#include "cli/commands.h"
#include "cli/feature_index.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "inspect/feature_reader.h"
#include "report/features.h"

namespace vitrine::cli {
namespace {

struct FeaturesOptions : Options {
  int top = 5;
  std::optional<std::string> rows;
  std::string out;
};

void show(const Session& session, const std::vector<ActiveFeatures>& all, const RowSelection& rows, std::size_t top) {
  const auto right = Table::Align::right;
  constexpr int kTokenWidth = 16;
  for (const ActiveFeatures& own : all) {
    const Dictionary& d = *own.dictionary;
    print(fmt::format("{}{}: {}, {} features\n", &own == all.data() ? "" : "\n", key_of(d), d.architecture, d.d_sae()));
    Table table({{"", right}, {"token"}, {"active", right}, {"strongest features"}});
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      std::string features;
      for (const auto& [index, value] : strongest(own.rows.row(t), top)) {
        features += fmt::format("{}{}: {:.3f}", features.empty() ? "" : "  ", index, value);
      }
      table.add({std::to_string(t), fitted(session.label(session.ids[static_cast<std::size_t>(t)]), kTokenWidth),
                 std::to_string(own.n_active[static_cast<std::size_t>(t)]), features});
    }
    print(table.text());
  }
}

/// A member of all elements of some rows.
template <class T>
std::vector<T> column_of(const SparseRows& all, const RowSelection& rows, T SparseValue::*member) {
  std::size_t n = 0;
  for (std::int64_t t = rows.begin; t < rows.end; ++t) n += all.row(t).size();
  std::vector<T> column;
  column.reserve(n);
  for (std::int64_t t = rows.begin; t < rows.end; ++t) {
    for (const SparseValue& element : all.row(t)) column.push_back(element.*member);
  }
  return column;
}

/// All non-zero activations: compressed sparse rows.
void write(const std::string& path, const std::vector<ActiveFeatures>& all, const RowSelection& rows) {
  SafetensorsWriter writer(path, header_bytes_for(3 * all.size() + 4));
  for (const ActiveFeatures& own : all) {
    const std::string key = key_of(*own.dictionary);
    writer.set_metadata("d_sae." + key, std::to_string(own.dictionary->d_sae()));
    std::vector<std::int64_t> indptr = {0};
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      indptr.push_back(indptr.back() + std::ssize(own.rows.row(t)));
    }
    writer.add(key + ".indptr", std::span<const std::int64_t>(indptr));
    // One array after another: there may be as many features as fit into memory.
    writer.add(key + ".indices", std::span<const std::int32_t>(column_of(own.rows, rows, &SparseValue::index)));
    std::vector<float> values = column_of(own.rows, rows, &SparseValue::value);
    writer.add(key + ".values", Tensor{values.data(), {std::ssize(values)}});
  }
  writer.commit();
}

void run_features(const FeaturesOptions& o) {
  if (o.dictionaries.empty()) throw MissingArgument("--sae");
  const Session session = open_session(o);
  const auto n = static_cast<std::int64_t>(session.ids.size());
  const RowSelection rows = o.rows ? parse_rows(*o.rows, n) : RowSelection{0, n};
  const std::optional<std::size_t> keep = o.out.empty() ? std::optional(static_cast<std::size_t>(o.top)) : std::nullopt;
  stop_cleanly();
  const std::vector<ActiveFeatures> all = read_features(session.context(o), session.ids, keep);
  if (!o.out.empty()) write(o.out, all, rows);
  const auto top = static_cast<std::size_t>(o.top);
  if (!o.json) {
    if (o.out.empty()) show(session, all, rows, top);
    return;
  }
  print_json(features_json(session.ids, all, {rows.begin, rows.end}, top, session.tokenizer.get()));
}

}  // namespace

void add_features(Command& program) {
  const auto [command, o] = new_command<FeaturesOptions>(
      program, "features", "Show the strongest features of sparse autoencoders and transcoders at every token");
  add_feature_index(command);
  add_model_and_text(command, *o);
  add_dictionaries(command, *o);
  add_number<int>(command, "--top", o->top, "The number of features to show of each token (default: 5)", 1, 1 << 20);
  add_optional(command, "--rows", o->rows, "Only positions A:B");
  command.add_option("--out", o->out, "Write all features that are not 0 to a .safetensors file, as sparse rows");
  finish_command(
      command, o, run_features,
      "docs/features.md lists the formats. --out has KEY.indptr, KEY.indices and KEY.values, where KEY is the\n"
      "dictionary's name or site.\n"
      "Example: vitrine features hf:google/gemma-2-2b \"The Eiffel Tower\" --sae gemma-scope-2b-pt-res/layer_20/"
      "width_16k/average_l0_71");
}

}  // namespace vitrine::cli
