// vitrine rerank: the order of documents for a query.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/text_inputs.h"
#include "cli/texts.h"
#include "generate/rerank.h"
#include "generate/text_vectors.h"

namespace vitrine::cli {
namespace {

struct RerankOptions : TextInputOptions {
  std::optional<std::string> query;
  std::vector<std::string> documents;
  std::string file;
  std::optional<std::int64_t> top;
  bool raw = false;
};

/// The score of each document, and the outputs that it is made of, if there is a head.
struct Ranking {
  std::vector<float> scores;
  std::vector<std::vector<float>> outputs;
};

Ranking by_head(const RerankOptions& o, const Session& session, TextInputs& inputs, const std::string& query,
                const std::vector<std::string>& documents) {
  const ModelConfig& model = session.checkpoint.model->config();
  const ScoreFunction of_folder = rank_function(model, inputs.config());
  const ScoreFunction function = o.raw ? ScoreFunction::none : of_folder;
  for (const std::string& document : documents) inputs.add(query, document);
  Ranking ranking{std::vector<float>(documents.size()), std::vector<std::vector<float>>(documents.size())};
  const std::int64_t most = o.batch * kRowsOfText;
  read_scores(session.context(o), inputs.config(), inputs.texts(), most, [&](std::size_t i, const Tensor& outputs) {
    ranking.outputs[i].assign(outputs.row(0), outputs.row(0) + outputs.row_size());
    ranking.scores[i] = scores_of(function, ranking.outputs[i]).front();
  });
  return ranking;
}

/// By the similarity of vectors, with the prompts that the folder has for queries and documents.
Ranking by_vectors(const RerankOptions& o, const Session& session, TextInputs& inputs, const std::string& query,
                   const std::vector<std::string>& documents) {
  inputs.use_role(TextRole::query);
  inputs.add(query);
  inputs.use_role(TextRole::document);
  for (const std::string& document : documents) inputs.add(document);
  std::vector<TextVectors> vectors(inputs.size());
  read_vectors(session.context(o), inputs.config(), inputs.texts(), {.max_rows = o.batch * kRowsOfText},
               [&](std::size_t i, TextVectors own) { vectors[i] = std::move(own); });
  Ranking ranking;
  for (std::size_t i = 1; i < vectors.size(); ++i) {
    ranking.scores.push_back(
        static_cast<float>(similarity_of(inputs.config().similarity, vectors.front(), vectors[i])));
  }
  return ranking;
}

void show(const RerankOptions& o, const Ranking& ranking, const std::vector<std::string>& documents) {
  std::vector<std::size_t> order = descending(ranking.scores);
  if (o.top) order.resize(std::min(order.size(), static_cast<std::size_t>(*o.top)));
  if (o.json) {
    Json results = Json::array();
    for (const std::size_t i : order) {
      Json result = {{"index", i}, {"score", ranking.scores[i]}};
      if (!ranking.outputs.empty()) result["logits"] = ranking.outputs[i];
      results.push_back(std::move(result));
    }
    return print(Json({{"results", results}}).dump() + "\n");
  }
  if (o.lines) {
    std::vector<std::string> words;
    for (const std::size_t i : order) words.push_back(fmt::format("{}:{:.6f}", i, ranking.scores[i]));
    return print(fmt::format("{}\n", fmt::join(words, " ")));
  }
  Table table({{"score", Table::Align::right}, {"index", Table::Align::right}, {"document"}});
  const int width = std::max(20, terminal_columns() - 24);
  for (const std::size_t i : order) {
    table.add({fmt::format("{:.6f}", ranking.scores[i]), std::to_string(i), fitted(one_line(documents[i]), width)});
  }
  print(table.text());
}

/// The query and the documents of a line of --lines.
std::pair<std::string, std::vector<std::string>> request_in(const std::string& line, std::int64_t number) {
  const std::string where = fmt::format("line {}", number);
  const Json json = parse_json(line, where);
  const auto is_text = [](const Json& value) { return value.is_string(); };
  const bool is_request = json.is_object() && json.size() == 2 && json.contains("query") && json["query"].is_string() &&
                          json.contains("documents") && json["documents"].is_array() &&
                          std::all_of(json["documents"].begin(), json["documents"].end(), is_text);
  if (!is_request) throw BadInput(where, "expected {{\"query\": TEXT, \"documents\": [TEXT, …]}}");
  return {json["query"].get<std::string>(), json["documents"].get<std::vector<std::string>>()};
}

std::vector<std::string> documents_of(const RerankOptions& o) {
  if (o.file.empty()) return o.documents;
  if (!o.documents.empty()) throw UsageError("--documents", "give DOCUMENT or --documents, not both");
  return read_documents(o.file);
}

void run_rerank(const RerankOptions& o) {
  if (o.lines == o.query.has_value()) throw UsageError("QUERY", "give QUERY and documents, or --lines");
  if (o.query && o.documents.empty() && o.file.empty()) throw MissingArgument("DOCUMENT (or --documents)");
  const Session session = open_for_texts(o, o.model, true);
  stop_cleanly();
  TextInputs inputs(session, o);
  const bool has_scores = rank_method(session.checkpoint.model->config(), inputs.config()) == RankMethod::pairs;
  const auto rank = [&](const std::string& query, const std::vector<std::string>& documents) {
    const Ranking ranking =
        has_scores ? by_head(o, session, inputs, query, documents) : by_vectors(o, session, inputs, query, documents);
    inputs.clear();
    show(o, ranking, documents);
  };
  if (o.query) {
    rank(*o.query, documents_of(o));
  } else {
    TextReader reader("-", false);
    std::int64_t number = 0;
    for (auto lines = reader.next(1); !lines.empty(); lines = reader.next(1)) {
      const auto [query, documents] = request_in(lines.front(), ++number);
      rank(query, documents);
    }
  }
  inputs.report_cut();
}

}  // namespace

void add_rerank(Command& program) {
  const auto [command, o] =
      new_command<RerankOptions>(program, "rerank", "Order documents by how well they fit a query");
  add_text_inputs(command, *o, "Read {\"query\",\"documents\"} from each line of stdin");
  add_optional(command, "QUERY", o->query, "The query");
  command.add_option("DOCUMENT", o->documents, "The documents")->type_name("");
  command.add_option("--documents", o->file, "File with a document on each line; - reads stdin");
  add_number<std::int64_t>(command, "--top", o->top, "Show only the N best documents", 1);
  command.add_flag("--raw", o->raw, "Show the outputs of a head instead of scores");
  finish_command(
      command, o, run_rerank,
      "A model with one label reads each document with the query (a cross-encoder); its score is the sigmoid "
      "of the output,\nor what the folder says. Any other model compares the vectors of encode by the "
      "folder's similarity.\n"
      "Example: vitrine rerank reranker/ \"What do cats eat?\" \"Cats eat fish.\" \"Dogs bark.\" --json");
}

}  // namespace vitrine::cli
