#include "checkpoint/hugging_face/generation_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"

namespace vitrine {
namespace {

bool is_in(const Json& id, std::int64_t vocab_size) { return id >= 0 && id < vocab_size; }

/// Ids, or one id. Those outside the vocabulary mean none, as −1 does.
std::vector<std::int32_t> read_ids(const Json& json, const char* key, std::int64_t vocab_size,
                                   const std::string& where) {
  std::vector<std::int32_t> ids;
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return ids;
  for (const Json& id : it->is_array() ? *it : Json::array({*it})) {
    if (!id.is_number_integer()) throw BadCheckpoint(where, "{}: expected ids, got {}", key, it->dump());
    if (is_in(id, vocab_size)) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

/// A list, or null or an absent key: empty.
Json read_list(const Json& json, const char* key, const char* expected, const std::string& where) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return Json::array();
  if (!it->is_array()) throw BadCheckpoint(where, "{}: expected {}, got {}", key, expected, it->dump());
  return *it;
}

/// A sequence of ids; empty if one of them is outside the vocabulary, so that the sequence cannot occur.
std::vector<std::int32_t> read_sequence(const Json& json, const char* key, std::int64_t vocab_size,
                                        const std::string& where) {
  const Json one = {{key, json}};
  std::vector<std::int32_t> ids = read_ids(one, key, vocab_size, where);
  return ids.size() == (json.is_array() ? json.size() : 1) ? ids : std::vector<std::int32_t>();
}

/// Reads the keys about words. Later files override earlier ones.
void read_words(const Json& json, std::int64_t vocab_size, const std::string& where, SearchDefaults& search) {
  if (auto ids = read_ids(json, "suppress_tokens", vocab_size, where); !ids.empty()) search.suppressed = std::move(ids);
  if (auto ids = read_ids(json, "begin_suppress_tokens", vocab_size, where); !ids.empty()) {
    search.suppressed_first = std::move(ids);
  }
  for (const Json& word : read_list(json, "bad_words_ids", "lists of ids", where)) {
    auto ids = read_sequence(word, "bad_words_ids", vocab_size, where);
    if (!ids.empty()) search.bad_words.push_back(std::move(ids));
  }
  for (const Json& pair : read_list(json, "sequence_bias", "pairs of ids and a number", where)) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_array() || !pair[1].is_number()) {
      throw BadCheckpoint(where, "sequence_bias: expected pairs of ids and a number, got {}", pair.dump());
    }
    auto ids = read_sequence(pair[0], "sequence_bias", vocab_size, where);
    const auto same = [&](const auto& other) { return other.first == ids; };
    std::erase_if(search.sequence_bias, same);  // of one sequence, the last counts
    if (!ids.empty()) search.sequence_bias.emplace_back(std::move(ids), pair[1].get<float>());
  }
  const auto stops = json.find("stop_strings");
  if (stops == json.end() || stops->is_null()) return;
  for (const Json& text : stops->is_array() ? *stops : Json::array({*stops})) {
    if (!text.is_string()) throw BadCheckpoint(where, "stop_strings: expected texts, got {}", stops->dump());
    search.stop_strings.push_back(text.get<std::string>());
  }
}

/// Reads the penalties that are no options of the sampler.
void read_penalties(ConfigReader& reader, const Json& json, SearchDefaults& search) {
  if (const auto penalty = reader.optional_number("length_penalty")) search.length_penalty = penalty;
  if (const auto penalty = reader.optional_number("encoder_repetition_penalty")) search.source_penalty = penalty;
  const Json growth =
      read_list(json, "exponential_decay_length_penalty", "a number of tokens and a factor", reader.where());
  if (growth.empty()) return;
  if (growth.size() != 2 || !growth[0].is_number() || !growth[1].is_number()) {
    throw BadCheckpoint(reader.where(),
                        "exponential_decay_length_penalty: expected a number of tokens and a factor, "
                        "got {}",
                        growth.dump());
  }
  search.stop_growth = {growth[0].get<std::int64_t>(), growth[1].get<double>()};
}

/// Reads what a config says about the search for texts. Later files override earlier ones.
void read_search(const Json& json, std::int64_t vocab_size, const std::string& where, SearchDefaults& search) {
  ConfigReader reader(json, where);
  const auto count = [&](const char* key, std::optional<std::int64_t>& place) {
    const auto number = reader.optional_number(key);
    if (!number) return;
    if (!(*number >= 0 && *number < 1e9))
      throw BadCheckpoint(where, "{}: expected a number of at least 0, got {}", key, *number);
    place = static_cast<std::int64_t>(*number);
  };
  count("num_beams", search.n_beams);
  count("max_length", search.max_length);
  count("max_new_tokens", search.max_new_tokens);
  count("min_length", search.min_length);
  count("min_new_tokens", search.min_new_tokens);
  count("no_repeat_ngram_size", search.no_repeat_ngram);
  count("encoder_no_repeat_ngram_size", search.source_no_repeat_ngram);
  read_penalties(reader, json, search);
  if (const auto it = json.find("early_stopping"); it != json.end() && !it->is_null()) {
    const bool is_never = it->is_string() && it->get<std::string>() == "never";
    if (!is_never && !it->is_boolean()) {
      throw BadCheckpoint(where, "early_stopping: expected true, false or \"never\", got {}", it->dump());
    }
    search.early_stop = is_never ? "never" : it->get<bool>() ? "yes" : "no";
  }
  const auto id = [&](const char* key, std::optional<std::int32_t>& place) {
    const auto ids = read_ids(json, key, vocab_size, where);
    if (ids.size() > 1 && search.refused.empty()) search.refused = key;
    if (!ids.empty()) place = ids.front();
  };
  id("forced_bos_token_id", search.forced_first);
  id("forced_eos_token_id", search.forced_last);
  read_words(json, vocab_size, where, search);
}

/// The keys of transformers that would change the text and are not supported, with values that do.
std::vector<std::string> unsupported_keys(const Json& json, const SearchDefaults& search) {
  std::vector<std::string> keys;
  const auto value = [&](const char* key) {
    const auto it = json.find(key);
    return it == json.end() ? Json() : *it;
  };
  const auto refuse = [&](const char* key, bool changes) {
    if (changes) keys.emplace_back(key);
  };
  const auto is_set = [&](const char* key) { return !value(key).is_null() && value(key) != false; };
  const auto is_above = [&](const char* key, double least) { return is_set(key) && value(key) > least; };
  const bool is_greedy = !search.samples && search.n_beams.value_or(1) <= 1;
  const bool has_many = value("top_k").is_null() || value("top_k") > 1;
  for (const char* key :
       {"constraints", "dola_layers", "force_words_ids", "max_time", "token_healing", "watermarking_config"}) {
    refuse(key, is_set(key));
  }
  refuse("assistant_ensemble_weight",
         is_set("assistant_ensemble_weight") && (is_set("assistant_early_exit") || is_set("prompt_lookup_num_tokens")));
  refuse("diversity_penalty", is_set("diversity_penalty") && value("diversity_penalty") != 0);
  refuse("guidance_scale", is_set("guidance_scale") && value("guidance_scale") != 1);
  refuse("num_beam_groups", is_above("num_beam_groups", 1));
  refuse("penalty_alpha", is_above("penalty_alpha", 0) && is_greedy && has_many);
  refuse("remove_invalid_values", is_set("remove_invalid_values") && search.stop_growth);
  refuse("renormalize_logits", is_set("renormalize_logits") && search.n_beams.value_or(1) > 1);
  refuse("top_h", is_set("top_h") && search.samples);
  return keys;
}

/// Reads the options of the sampler. Values beyond the ranges in which transformers applies them are off.
void read_sampling(ConfigReader& reader, SamplingOverrides& g) {
  g.temperature = reader.optional_number("temperature");
  g.top_p = reader.optional_number("top_p");
  if (g.top_p) g.top_p = std::min(*g.top_p, 1.0);
  g.min_p = reader.optional_number("min_p");
  g.repeat_penalty = reader.optional_number("repetition_penalty");
  if (const auto top_k = reader.optional_number("top_k")) g.top_k = static_cast<int>(std::clamp(*top_k, 0.0, 1e9));
  const auto fraction = [&](const char* key, double off) {
    const auto number = reader.optional_number(key);
    return number && *number >= 1 ? std::optional(off) : number;
  };
  const auto cutoff = [&](const char* key) {
    const auto number = fraction(key, 0);
    return number && *number <= 0 ? std::optional(0.0) : number;
  };
  g.typical_p = fraction("typical_p", 1);
  g.epsilon_cutoff = cutoff("epsilon_cutoff");
  g.eta_cutoff = cutoff("eta_cutoff");
}

void read_special(const Json& json, std::int64_t vocab_size, const std::string& where, Checkpoint& checkpoint) {
  const auto bos = read_ids(json, "bos_token_id", vocab_size, where);
  const auto eos = read_ids(json, "eos_token_id", vocab_size, where);
  const auto start = read_ids(json, "decoder_start_token_id", vocab_size, where);
  if (!bos.empty()) checkpoint.bos_id = bos.front();
  if (!start.empty()) checkpoint.start_id = start.front();
  const auto pad = read_ids(json, "pad_token_id", vocab_size, where);
  if (!pad.empty()) checkpoint.pad_id = pad.front();
  if (json.contains("eos_token_id")) checkpoint.stop_ids = eos;  // null: nothing ends a text
}

}  // namespace

void read_generation(const std::string& folder, const Json& config, const std::vector<std::string>& allowed,
                     Checkpoint& checkpoint) {
  namespace fs = std::filesystem;
  const std::int64_t vocab_size = checkpoint.model->config().vocab_size;
  const bool has_encoder = checkpoint.model->config().encoder.has_value();
  const std::string config_path = (fs::path(folder) / "config.json").string();
  const std::string path = (fs::path(folder) / "generation_config.json").string();
  SearchDefaults& search = checkpoint.search;
  read_special(config, vocab_size, config_path, checkpoint);
  checkpoint.generation.greedy = has_encoder;  // as in transformers
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) {
    read_search(config, vocab_size, config_path, search);
    if (!has_encoder) search.max_length.reset();  // libraries wrote their default, 20, into config.json
    return;
  }
  const Json json = read_json_file(path);
  ConfigReader reader(json, path);
  read_search(json, vocab_size, path, search);
  read_special(json, vocab_size, path, checkpoint);
  read_sampling(reader, checkpoint.generation);
  search.samples = reader.flag_or("do_sample", false);
  checkpoint.generation.greedy = !reader.flag_or("do_sample", !has_encoder);
  for (const std::string& key : unsupported_keys(json, search)) {
    const bool is_allowed = std::find(allowed.begin(), allowed.end(), key) != allowed.end();
    if (search.refused.empty() && !is_allowed) search.refused = key;
  }
}

}  // namespace vitrine
