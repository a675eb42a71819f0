// vitrine embed: cosines of token embeddings, nearest tokens, analogies.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/embedding.h"

namespace vitrine::cli {
namespace {

struct EmbedOptions : Options {
  std::string model;
  std::vector<std::string> words;
  std::int64_t top = 10;
};

bool is_sign(const std::string& word) { return word == "+" || word == "-"; }

Json to_json(const Session& session, const std::vector<Neighbor>& near) {
  Json list = Json::array();
  for (const Neighbor& x : near) list.push_back({{"id", x.id}, {"piece", session.piece(x.id)}, {"cosine", x.cosine}});
  return list;
}

void show_nearest(const EmbedOptions& o, const Session& session, const EmbeddingSpace& space,
                  const std::vector<EmbeddingTerm>& terms, const std::vector<std::int32_t>& ids) {
  const std::vector<Neighbor> near = space.nearest(std::span(&terms, 1), o.top).front();
  if (o.json) return print_json({{"ids", ids}, {"nearest", to_json(session, near)}});
  Table table({{"token"}, {"id", Table::Align::right}, {"cosine", Table::Align::right}});
  for (const Neighbor& x : near)
    table.add({session.label(x.id), std::to_string(x.id), fmt::format("{:.3f}", x.cosine)});
  print(table.text());
}

/// Shows the cosines of all pairs.
void show_grid(const EmbedOptions& o, const Session& session, const EmbeddingSpace& space,
               const std::vector<std::int32_t>& ids) {
  std::vector<Table::Column> columns = {{""}};
  for (const std::int32_t id : ids) columns.push_back({session.label(id), Table::Align::right});
  Table table(std::move(columns));
  Json rows = Json::array();
  for (const std::int32_t a : ids) {
    std::vector<std::string> cells = {session.label(a)};
    Json row = Json::array();
    for (const std::int32_t b : ids) {
      row.push_back(space.cosine(a, b));
      cells.push_back(fmt::format("{:.3f}", row.back().get<double>()));
    }
    table.add(std::move(cells));
    rows.push_back(std::move(row));
  }
  if (o.json) return print_json({{"ids", ids}, {"cosine", rows}});
  print(table.text());
}

void run_embed(const EmbedOptions& o) {
  const auto is_text = [](const std::string& word) { return !is_sign(word) && !is_id(word); };
  const Session session = open_model(o, o.model, std::any_of(o.words.begin(), o.words.end(), is_text));
  const EmbeddingSpace space(*session.checkpoint.model, *session.pool, default_kernels());
  const bool has_signs = std::any_of(o.words.begin(), o.words.end(), is_sign);
  const std::vector<EmbeddingTerm> terms = terms_of(session, o.words, "WORD");
  std::vector<std::int32_t> ids;
  for (const EmbeddingTerm& term : terms) ids.push_back(term.id);
  if (has_signs || terms.size() == 1) return show_nearest(o, session, space, terms, ids);
  show_grid(o, session, space, ids);
}

}  // namespace

void add_embed(Command& program) {
  const auto [command, o] =
      new_command<EmbedOptions>(program, "embed", "Compare token embeddings: cosines, nearest tokens, analogies");
  command.add_option("MODEL", o->model, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME")
      ->required()
      ->type_name("");
  allow_hub(*o, o->model);
  command.add_option("WORD", o->words, "Words of one token each, or #ID; + and - between them make an analogy")
      ->required()
      ->type_name("");
  add_number<std::int64_t>(command, "--top", o->top, "Number of tokens to show (default: 10)", 1);
  finish_command(command, o, run_embed,
                 "One word: the tokens whose embeddings have the largest cosine with it. Several words: the cosine of "
                 "each pair. With\n"
                 "+ and -: the tokens nearest to the sum of the embeddings, each normalized to length 1.\n"
                 "Example: vitrine embed gpt2/ '#464' '#3139' '#286'");
}

}  // namespace vitrine::cli
