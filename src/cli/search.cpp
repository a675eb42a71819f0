#include "cli/search.h"

#include <algorithm>

#include "base/error.h"
#include "generate/choose_sampling.h"

namespace vitrine::cli {
namespace {

/// The id of the vocabulary's piece `name`.
std::int32_t id_of_piece(const Session& session, const std::string& name) {
  if (session.tokenizer == nullptr) throw BadInput("--target-lang", "the piece of a token needs a tokenizer");
  const Tokenizer& tokenizer = session.tokenizer->target();
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.piece(id) == name) return id;
  }
  throw BadInput("--target-lang", "the vocabulary has no token {}", name);
}

}  // namespace

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
  command.add_option("--prefix", o.prefix, "The beginning of what an encoder–decoder writes");
  const auto take_ids = [&o](const std::string& text) { o.prefix_ids = parse_ids(text, "--prefix-ids"); };
  command.add_option_function<std::string>("--prefix-ids", take_ids, "Its token ids, without the start symbol");
  command.add_option("--target-lang", o.target_lang, "The token of a language that the text begins with, as in fr_XX");
}

void set_texts(const Session& session, const SearchOptions& o, const std::vector<std::int32_t>& ids,
               GenerateRequest& request) {
  const bool has_prefix = !o.prefix.empty() || !o.prefix_ids.empty();
  if (!session.has_encoder()) {
    if (has_prefix || !o.target_lang.empty()) {
      throw BadInput("--prefix", "the model has no encoder: the text is what it continues");
    }
    request.prompt = ids;
    return;
  }
  if (!o.prefix.empty() && !o.prefix_ids.empty()) {
    throw CLI::ValidationError("--prefix", "give --prefix or --prefix-ids, not both");
  }
  request.source = ids;
  request.prompt = {start_id(session)};
  if (!has_prefix) return;
  std::vector<std::int32_t> prefix = o.prefix_ids;
  if (!o.prefix.empty()) {
    if (session.tokenizer == nullptr) throw BadInput("--prefix", "--ids needs --prefix-ids");
    prefix = session.tokenizer->target().encode(o.prefix, SpecialTokens::none);
  }
  if (!o.target_lang.empty()) request.prompt.push_back(id_of_piece(session, o.target_lang));
  request.prompt.insert(request.prompt.end(), prefix.begin(), prefix.end());
}

void set_search(const Session& session, const SearchOptions& o, bool samples, GenerateRequest& request) {
  SearchOverrides search = o.search;
  if (!o.target_lang.empty()) search.forced_first = id_of_piece(session, o.target_lang);
  request.stop_ids = stop_ids(session.checkpoint, session.tokenizer.get());
  choose_search(search, session.checkpoint.search, samples, request);
  request.wants_score = session.has_encoder() || request.beam.n_beams > 1;
}

GenerateRequest translation_of(const Session& session, const SearchOptions& o, const std::vector<std::int32_t>& ids,
                               const std::string& where) {
  GenerateRequest request;
  set_texts(session, o, ids, request);
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
