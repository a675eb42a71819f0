#include "cli/search.h"

#include <algorithm>

#include "base/error.h"
#include "generate/choose_sampling.h"

namespace vitrine::cli {

void add_search(CLI::App& command, SearchOptions& o) {
  SearchOverrides& s = o.search;
  add_number<std::int64_t>(command, "--max-tokens", s.max_tokens,
                           "Generate at most N tokens (default: the model's, else 128)", 0, 1 << 30);
  add_number<int>(command, "--beam", s.n_beams, "Search with N beams (default: the model's, else 1)", 1, 1024);
  add_number<int>(command, "--n-best", s.n_best, "With --json: the N best texts of the search (default: 1)", 1, 1024);
  add_number<double>(command, "--length-penalty", s.length_penalty,
                     "Divide a text's log-probability by its length to the power of N (default: the model's, else 1)");
  const auto take_early = [&s](const std::string& name) { s.early_stop = name; };
  command
      .add_option_function<std::string>("--early-stop", take_early,
                                        "End the search with as many texts as beams: no, yes or never")
      ->check(CLI::IsMember({"no", "yes", "never"}));
  add_number<std::int64_t>(command, "--min-tokens", s.min_tokens, "Generate at least N tokens", 0, 1 << 30);
  add_number<std::int64_t>(command, "--no-repeat-ngram", s.no_repeat_ngram, "No N tokens in a row occur twice", 0,
                           1024);
  command.add_option("--prefix", o.prefix.text, "The beginning of what an encoder–decoder writes");
  const auto take_ids = [&o](const std::string& text) { o.prefix.ids = parse_ids(text, "--prefix-ids"); };
  command.add_option_function<std::string>("--prefix-ids", take_ids, "Its token ids, without the start symbol");
  command.add_option("--target-lang", o.prefix.language,
                     "The token of a language that the text begins with, as in fr_XX");
}

void set_search(const Session& session, const SearchOptions& o, bool samples, GenerateRequest& request) {
  SearchOverrides search = o.search;
  search.forced_first = language_id(o.prefix, session.tokenizer.get());
  request.stop_ids = stop_ids(session.checkpoint, session.tokenizer.get());
  choose_search(search, session.checkpoint.search, samples, request);
  request.wants_score = session.has_encoder() || request.beam.n_beams > 1;
}

GenerateRequest translation_of(const Session& session, const SearchOptions& o, const std::vector<std::int32_t>& ids,
                               const std::string& where) {
  GenerateRequest request;
  choose_texts(o.prefix, session.checkpoint, session.tokenizer.get(), ids, request);
  const std::int64_t most = session.checkpoint.model->config().encoder->max_seq_len;
  if (static_cast<std::int64_t>(ids.size()) > most) {
    throw BadInput(where, "the text has {} tokens, the encoder's context is {}", ids.size(), most);
  }
  set_search(session, o, false, request);
  request.sampling.temperature = 0;
  request.sampling.repeat_penalty = session.checkpoint.generation.repeat_penalty.value_or(1);
  return request;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool wants_to_sample(const SamplingOverrides& s) { return s.temperature || s.top_k || s.top_p || s.min_p; }

}  // namespace vitrine::cli
