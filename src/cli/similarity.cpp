// vitrine similarity: how alike texts are.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/text_inputs.h"
#include "cli/texts.h"
#include "generate/text_vectors.h"

namespace vitrine::cli {
namespace {

struct SimilarityOptions : TextInputOptions {
  VectorInputOptions input;
  std::vector<std::string> texts;
  std::optional<std::int64_t> dimensions;
};

/// The matrix of all texts with all texts, row by row.
std::vector<std::vector<double>> matrix_of(const SimilarityOptions& o, const Session& session, TextInputs& inputs) {
  const SentenceConfig& folder = inputs.config();
  if (folder.result() == TextValue::scores) {
    throw Unsupported("similarity", "the folder is a CrossEncoder, which makes scores of pairs (vitrine rerank)");
  }
  std::vector<TextVectors> vectors(inputs.size());
  const VectorOptions options{.dimensions = o.dimensions, .max_rows = o.batch * kRowsOfText};
  read_vectors(session.context(o), folder, inputs.texts(), options,
               [&](std::size_t i, TextVectors own) { vectors[i] = std::move(own); });
  std::vector<std::vector<double>> matrix;
  for (const TextVectors& a : vectors) {
    std::vector<double>& row = matrix.emplace_back();
    for (const TextVectors& b : vectors) row.push_back(similarity_of(folder.similarity, a, b));
  }
  return matrix;
}

void run_similarity(const SimilarityOptions& o) {
  if (o.lines != o.texts.empty()) throw UsageError("TEXT", "give texts, or --lines");
  const Session session = open_for_texts(o, o.model, true);
  TextInputs inputs(session, o);
  inputs.use(o.input);
  std::vector<std::string> labels = o.texts;
  for (const std::string& text : o.texts) inputs.add(text);
  if (o.lines) {
    TextReader reader("-", false);
    std::int64_t number = 0;
    for (auto lines = reader.next(1); !lines.empty(); lines = reader.next(1)) {
      inputs.add_line(lines.front(), ++number);
      labels.push_back(lines.front());
    }
  }
  const auto matrix = matrix_of(o, session, inputs);
  inputs.report_cut();
  if (o.json) return print(Json({{"similarities", matrix}}).dump() + "\n");
  Table table([&] {
    std::vector<Table::Column> columns;
    for (std::size_t i = 0; i < labels.size(); ++i) columns.push_back({std::to_string(i), Table::Align::right});
    columns.push_back({"text"});
    return columns;
  }());
  const int width = std::max(20, terminal_columns() - 9 * static_cast<int>(labels.size()) - 4);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    std::vector<std::string> cells;
    for (const double x : matrix[i]) cells.push_back(fmt::format("{:.4f}", x));
    cells.push_back(fitted(one_line(labels[i]), width));
    table.add(std::move(cells));
  }
  print(table.text());
}

}  // namespace

void add_similarity(Command& program) {
  const auto [command, o] =
      new_command<SimilarityOptions>(program, "similarity", "Compare texts by their vectors, each with each");
  add_text_inputs(command, *o, "Read a text, as a JSON string, from each line of stdin");
  command.add_option("TEXT", o->texts, "The texts")->type_name("");
  add_vector_inputs(command, o->input);
  add_number<std::int64_t>(command, "--dimensions", o->dimensions,
                           "Cut vectors to their first N elements, and divide by the length again", 1);
  finish_command(command, o, run_similarity,
                 "The function is the folder's similarity_fn_name (default: the cosine; of sparse vectors the product; "
                 "of vectors of\n"
                 "tokens MaxSim, in which the rows are queries).\n"
                 "Example: vitrine similarity encoder/ \"Cats eat fish.\" \"A cat eats.\" \"The sea is deep.\"");
}

}  // namespace vitrine::cli
