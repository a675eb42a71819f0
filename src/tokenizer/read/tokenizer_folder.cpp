#include "tokenizer/read/tokenizer_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Records the keys of the outermost objects in the order of the text, in which tokens are numbered.
class OrderedReader : public JsonBuilder {
 public:
  using JsonBuilder::JsonBuilder;
  bool key(string_t& name) override {
    if (depth() <= 2) names_.push_back(name);
    return JsonBuilder::key(name);
  }
  std::vector<std::string> take_names() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
};

/// The object of a file; an empty one without the file. `names`: its keys and those of the objects in it, in order.
Json object_of(const fs::path& path, std::vector<std::string>* names = nullptr) {
  if (!is_file(path)) return Json::object();
  const std::string where = path.string();
  OrderedReader reader(where);
  reader.parse(MappedFile::open(where)->text());
  Json json = reader.take();
  if (!json.is_object()) throw BadCheckpoint(where, "expected a JSON object, got {}", json.type_name());
  if (names != nullptr) *names = reader.take_names();
  return json;
}

/// The list of a key; an empty one if it is missing or no list.
Json list_of(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found == config.end() || !found->is_array() ? Json::array() : *found;
}

/// A list and the entries of another that it lacks.
Json joined(Json list, const Json& more) {
  for (const Json& entry : more) {
    if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
  }
  return list;
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

/// Names of classes that use tokenizer.json as it is.
bool is_backend(const std::string& name) {
  return name == "TokenizersBackend" || name == "PreTrainedTokenizer" || name == "PythonBackend" ||
         name == "BloomTokenizer";
}

/// The class that AutoTokenizer chooses.
std::string class_of(const TokenizerFolder& folder, const Json& model, bool is_byte_level) {
  const JsonFields config(folder.config, "the configuration", folder.config_path);
  const auto text = [](const Json& json, const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  const std::string type = text(model, "model_type");
  std::string named = config.string("tokenizer_class", "");
  if (named.empty()) named = text(model, "tokenizer_class");
  named = without_fast(named);
  const std::string registered(tokenizer_class_of(type));
  // Llama 3's files name LlamaTokenizer, which is not byte-level.
  const bool is_llama_3 = named == "LlamaTokenizer" && !is_misnamed(type) && is_byte_level;
  if (is_llama_3) return "TokenizersBackend";
  if (named.empty() || (is_misnamed(type) && registered != "TokenizersBackend")) return registered;
  if (is_backend(named)) return "TokenizersBackend";
  return registered == "TokenizersBackend" ? registered : named;
}

/// Whether the class is byte-level. A tokenizer.json that is not like its class is used as it is. (transformers does
/// this for LlamaTokenizer only; other classes then look for pieces that the vocabulary does not have.)
bool has_byte_level_pipeline(const TokenizerFolder& folder) {
  const JsonFields config(folder.config, "the configuration", folder.config_path);
  return folder.rules->pipeline(config, nullptr)["decoder"]["type"] == "ByteLevel";
}

std::string vocabulary_of(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model",
                           "sentencepiece.model", "vocab.json", "vocab.txt"}) {
    const bool is_whole = std::string_view(name) != "vocab.json" || is_file(folder / "merges.txt");
    if (is_whole && is_file(folder / name)) return (folder / name).string();
  }
  return "";
}

std::int64_t id_of(const std::string& text, std::string_view where) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  throw BadCheckpoint(where, "expected ids in added_tokens_decoder, got \"{}\"", text);
}

/// Reads "added_tokens_decoder". Without it, the older files count: special_tokens_map.json, added_tokens.json and the
/// added tokens of tokenizer.json.
void read_added_tokens(const TokenizerFiles& files, TokenizerFolder& folder) {
  std::map<std::int64_t, Json> by_id;
  const auto decoder = folder.config.find("added_tokens_decoder");
  if (decoder != folder.config.end() && !decoder->is_null()) {
    if (!decoder->is_object()) {
      throw BadCheckpoint(folder.config_path, "expected an object as added_tokens_decoder, got {}",
                          decoder->type_name());
    }
    for (const auto& [id, token] : decoder->items()) {
      if (!token.is_object()) {
        throw BadCheckpoint(folder.config_path, "expected ids and tokens in added_tokens_decoder, got \"{}\"", id);
      }
      by_id[id_of(id, folder.config_path)] = added_token(token, folder.config_path, "an entry of added_tokens_decoder");
    }
  } else {
    for (const auto& [key, value] : files.special_tokens_map.items()) {
      Json token = value;
      if (key == "extra_special_tokens" && token.is_array()) token = joined(list_of(folder.config, key.c_str()), token);
      if (token.is_object() && token.contains("content")) token["special"] = true;
      folder.config[key] = std::move(token);
    }
    const std::string added_path = (fs::path(folder.path) / "added_tokens.json").string();
    std::vector<std::string> special;
    for (const char* role : kTokenRoles) {
      const auto found = folder.config.find(role);
      if (found != folder.config.end() && !found->is_null())
        special.push_back(token_text(*found, folder.config_path, role));
    }
    for (const Json& token : list_of(folder.config, "extra_special_tokens")) {
      special.push_back(token_text(token, folder.config_path));
    }
    for (const auto& [text, id] : files.added_tokens.items()) {
      if (!id.is_number_unsigned()) throw BadCheckpoint(added_path, "expected an id for \"{}\"", text);
      const bool is_special = std::find(special.begin(), special.end(), text) != special.end();
      by_id[id.get<std::int64_t>()] = added_token({{"content", text}, {"special", is_special}}, added_path);
    }
  }
  for (auto& [id, token] : by_id) {
    token["id"] = static_cast<std::uint64_t>(id);
    folder.added.push_back(std::move(token));
  }
}

/// The tokens of Code Llama around the parts of a text that it completes in the middle.
constexpr std::pair<const char*, const char*> kInfillTokens[] = {{"prefix_token", "\u2581<PRE>"},
                                                                 {"middle_token", "\u2581<MID>"},
                                                                 {"suffix_token", "\u2581<SUF>"},
                                                                 {"eot_token", "\u2581<EOT>"},
                                                                 {"fill_token", "<FILL_ME>"}};

/// The tokens of other names than kTokenRoles, in the order in which transformers numbers them: objects, texts, the
/// entries of "extra_special_tokens"; those of "model_specific_special_tokens" count only without texts and entries.
std::vector<std::pair<std::string, Json>> other_tokens(const Json& config, const std::vector<std::string>& order) {
  std::vector<std::pair<std::string, Json>> objects, texts, stored;
  const auto add_sorted = [&](const Json& object, auto&& add) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) names.push_back(name);
    const auto place = [&](const std::string& name) { return std::find(order.begin(), order.end(), name); };
    std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
    for (const std::string& name : names) add(name, object[name]);
  };
  const auto is_role = [](const std::string& key) {
    return std::find(kTokenRoles.begin(), kTokenRoles.end(), key) != kTokenRoles.end();
  };
  add_sorted(config, [&](const std::string& name, const Json& value) {
    if (!name.ends_with("_token") || is_role(name)) return;
    if (value.is_string()) texts.emplace_back(name, value);
    if (value.is_object() && value.contains("content")) objects.emplace_back(name, value);
  });
  const auto add_entries = [&](const char* key, std::vector<std::pair<std::string, Json>>& list) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) return;
    add_sorted(*found, [&](const std::string& name, const Json& value) { list.emplace_back(name, value); });
  };
  add_entries("extra_special_tokens", texts);
  add_entries("model_specific_special_tokens", stored);
  const auto& specific = texts.empty() ? stored : texts;
  objects.insert(objects.end(), specific.begin(), specific.end());
  return objects;
}

/// The tokens of kTokenRoles, with the defaults of the class, followed by those of other names.
void name_tokens(const std::vector<std::string>& order, TokenizerFolder& folder) {
  for (std::size_t i = 0; i < kTokenRoles.size(); ++i) {
    const auto found = folder.config.find(kTokenRoles[i]);
    const char* const usual = folder.rules == nullptr ? nullptr : folder.rules->roles[i];
    if (found == folder.config.end() && usual != nullptr) {
      folder.named.emplace_back(kTokenRoles[i], usual);
    } else if (found != folder.config.end() && !found->is_null()) {
      token_text(*found, folder.config_path, kTokenRoles[i]);  // refuses what is no token
      folder.named.emplace_back(kTokenRoles[i], *found);
    }
  }
  if (folder.class_name == "CodeLlamaTokenizer") {
    for (const auto& [name, usual] : kInfillTokens) {
      const auto found = folder.config.find(name);
      if (found == folder.config.end()) {
        folder.named.emplace_back(name, usual);
      } else if (!found->is_null()) {
        folder.named.emplace_back(name, *found);
      }
    }
  }
  const auto is_known = [&](const std::string& key) {
    return std::any_of(folder.named.begin(), folder.named.end(), [&](const auto& named) { return named.first == key; });
  };
  for (auto& [name, value] : other_tokens(folder.config, order)) {
    if (!is_known(name)) folder.named.emplace_back(name, std::move(value));
  }
}

}  // namespace

std::string token_text(const Json& token, std::string_view where, std::string_view what) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) throw BadCheckpoint(where, "{}: expected text or an object, got {}", what, token.type_name());
  return JsonFields(token, what, where).string("content");
}

Json added_token(const Json& token, std::string_view where, std::string_view what) {
  if (token.is_string()) return added_token({{"content", token}, {"special", true}}, where);
  const JsonFields fields(token, what, where);
  const bool special = fields.boolean("special", false);
  return {{"content", fields.string("content")},
          {"single_word", fields.boolean("single_word", false)},
          {"lstrip", fields.boolean("lstrip", false)},
          {"rstrip", fields.boolean("rstrip", false)},
          {"normalized", fields.boolean("normalized", !special)},
          {"special", special}};
}

TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& vocabulary) {
  std::vector<std::string> order;
  const auto file = [&](const char* name, std::vector<std::string>* names = nullptr) {
    return object_of(fs::path(path) / name, names);
  };
  const std::string found = vocabulary.empty() ? vocabulary_of(path) : vocabulary;
  const bool is_byte_level = found.ends_with("tokenizer.json") &&
                             MappedFile::open(found)->text().find("\"ByteLevel\"") != std::string_view::npos;
  TokenizerFiles files = {file("tokenizer_config.json", &order), file("special_tokens_map.json"),
                          file("added_tokens.json"), file("config.json"), std::move(order)};
  TokenizerFolder folder = make_tokenizer_folder(path, found, std::move(files), is_byte_level);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    folder.is_configured |= is_file(fs::path(path) / name);
  }
  return folder;
}

TokenizerFolder make_tokenizer_folder(const std::string& path, const std::string& vocabulary, TokenizerFiles files,
                                      bool is_byte_level) {
  TokenizerFolder folder;
  folder.path = path;
  folder.vocabulary = vocabulary;
  folder.config_path = (fs::path(path) / "tokenizer_config.json").string();
  folder.config = std::move(files.config);
  if (folder.config.contains("additional_special_tokens") && list_of(folder.config, "extra_special_tokens").empty()) {
    folder.config["extra_special_tokens"] = std::move(folder.config["additional_special_tokens"]);
    folder.config.erase("additional_special_tokens");
  }
  folder.class_name = class_of(folder, files.model, is_byte_level);
  folder.rules = find_tokenizer_class(folder.class_name);
  if (folder.rules == nullptr && folder.vocabulary.ends_with("vocab.txt") && folder.class_name.empty()) {
    folder.rules = find_tokenizer_class("BertTokenizer");
  }
  const bool is_bpe = folder.rules != nullptr && folder.rules->model == "BPE";
  if (is_bpe && folder.vocabulary.ends_with("tokenizer.json") && is_byte_level != has_byte_level_pipeline(folder)) {
    folder.rules = nullptr;
  }
  read_added_tokens(files, folder);
  name_tokens(files.config_order, folder);
  return folder;
}

bool is_refused(const TokenizerFolder& folder) {
  return !folder.vocabulary.ends_with("tokenizer.json") && is_other_tokenizer_class(folder.class_name);
}

bool is_plain(const TokenizerFolder& folder) {
  const bool is_tiktoken = folder.vocabulary.ends_with(".model") &&
                           !MappedFile::open(folder.vocabulary)->text().starts_with('\n');  // not SentencePiece
  return is_tiktoken || (!folder.is_configured && folder.rules == nullptr && !is_refused(folder));
}

std::optional<std::int64_t> model_max_length(const TokenizerFolder& folder) {
  constexpr double kLargest = 1e15;
  for (const char* key : {"model_max_length", "max_len"}) {
    const auto found = folder.config.find(key);
    if (found == folder.config.end() || !found->is_number()) continue;
    const double length = found->get<double>();
    return length >= 1 && length < kLargest ? std::optional(static_cast<std::int64_t>(length)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace vitrine
