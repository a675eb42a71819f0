#include "hub/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "hub/gguf_choices.h"

namespace vitrine {
namespace {

constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr std::string_view kAdapter = "adapter_model.safetensors", kTemplate = "chat_template.jinja";
/// Without a quantization in the name, the first of these.
constexpr const char* kUsual[] = {"Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "Q6_K", "Q8_0", "BF16", "F16", "F32"};

/// Whether `*` and other characters of a pattern match a whole text. `*` matches no slash.
bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*') {
    return !text.empty() && text.front() == pattern.front() && matches(text.substr(1), pattern.substr(1));
  }
  for (std::size_t n = 0;; ++n) {
    if (matches(text.substr(n), pattern.substr(1))) return true;
    if (n == text.size() || text[n] == '/') return false;
  }
}

bool matches_any(std::string_view text, std::initializer_list<std::string_view> patterns) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) { return matches(text, pattern); });
}

}  // namespace

bool is_of_tokenizer(std::string_view path) {
  return matches_any(path, {"tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt",
                            "*.model", "*.spm", "*.tiktoken", "chat_template*", "additional_chat_templates/*"});
}

namespace {

/// Everything that a folder needs except its weights.
bool is_of_folder(std::string_view path) {
  return is_of_tokenizer(path) ||
         matches_any(path, {"config.json", "generation_config.json", "modules.json", "sentence_bert_config.json",
                            "config_sentence_transformers.json", "*_Pooling/config.json", "*_Dense/*", "*_LayerNorm/*",
                            "*_Normalize/config.json", "*_SpladePooling/config.json", "*_MultiVectorMask/config.json",
                            "*_LogitScore/config.json", "quantize_config.json", "adapter_config.json"});
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

bool is_separator(char c) { return c == '-' || c == '.' || c == '_' || c == '/'; }

/// Whether `rest`, which follows the name of a quantization, makes it another one, as _M does with Q4_K.
bool continues_quantization(std::string_view rest) {
  if (!rest.starts_with('_')) return false;
  const std::size_t end = rest.find_first_of("-._/", 1);
  const std::string_view word = rest.substr(1, end == rest.npos ? end : end - 1);
  const bool is_size = matches_any(word, {"K", "S", "M", "L", "XL", "XS", "XXS", "NL"});
  return is_size || (!word.empty() && word.find_first_not_of("0123456789") == word.npos);
}

/// Whether a path has the quantization between two of `-._/`, or the ends.
bool has_quantization(const std::string& path, const std::string& what) {
  const std::string text = upper(path), sought = upper(what);
  for (std::size_t at = text.find(sought); at != text.npos; at = text.find(sought, at + 1)) {
    const std::string_view rest = std::string_view(text).substr(at + sought.size());
    const bool begins = at == 0 || is_separator(text[at - 1]);
    if (begins && (rest.empty() || is_separator(rest.front())) && !continues_quantization(rest)) return true;
  }
  return false;
}

/// A GGUF file, or the files of one that is split.
struct Choice {
  std::string path;  ///< The first file.
  std::vector<std::string> files;
  std::string missing{};  ///< The first file that the repository lacks; "": none.
};

/// The place of "-00001-of-00003.gguf" in a path, if it ends so.
std::optional<std::size_t> place_of_number(std::string_view path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (path.size() < kForm.size()) return std::nullopt;
  const std::string_view end = path.substr(path.size() - kForm.size());
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? end[i] < '0' || end[i] > '9' : end[i] != kForm[i]) return std::nullopt;
  }
  return path.size() - kForm.size();
}

std::vector<Choice> choices_in(const std::vector<std::string>& paths) {
  std::vector<Choice> choices;
  const std::set<std::string> present(paths.begin(), paths.end());
  for (const std::string& path : present) {
    const std::string shown = upper(path);
    if (!shown.ends_with(".GGUF") || shown.find("MMPROJ") != shown.npos || shown.find("IMATRIX") != shown.npos)
      continue;
    const auto at = place_of_number(path);
    if (!at) {
      choices.push_back({path, {path}});
      continue;
    }
    if (path.substr(*at + 1, 5) != "00001") continue;
    Choice choice{path, {}};
    const int count = number_in<int>(std::string_view(path).substr(*at + 10, 5)).value_or(1);
    for (int i = 1; i <= count; ++i) {
      choice.files.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", path.substr(0, *at), i, count));
      if (!present.contains(choice.files.back())) {
        if (choice.missing.empty()) choice.missing = choice.files.back();
      }
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

const Choice& chosen(const HubName& name, const std::vector<Choice>& choices) {
  const auto matching = [&](const std::string& what) {
    std::vector<const Choice*> found;
    for (const Choice& choice : choices) {
      if (has_quantization(choice.path, what)) found.push_back(&choice);
    }
    return found;
  };
  std::vector<const Choice*> found;
  if (!name.what.empty()) {
    const auto exact = std::ranges::find(choices, name.what, &Choice::path);
    if (exact != choices.end()) return *exact;
    found = matching(name.what);
  } else if (choices.size() == 1) {
    return choices.front();
  } else {
    for (const char* const what : kUsual) {
      if (found.empty()) found = matching(what);
    }
  }
  if (found.size() == 1) return *found.front();
  std::vector<std::string> names;
  for (const Choice& choice : choices) names.push_back(choice.path);
  const std::string asked = name.what.empty() ? "none of the usual quantizations" : "\"" + name.what + "\"";
  throw BadInput(name.text(), "{} {} of the repository's GGUF files; name one of them, as in hf:{}:{}: {}",
                 name.what.empty() && found.empty() ? "there is" : asked + " matches",
                 found.empty() ? (name.what.empty() ? asked : "none") : std::to_string(found.size()), name.repository,
                 names.front(), fmt::join(names, ", "));
}

/// The shards that an index names, which are in its folder.
std::vector<std::string> shards_of(const HubName& name, const std::string& index) {
  const std::string where = name.text() + ", " + std::string(kIndex);
  const Json json = parse_json(index, where);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) throw BadCheckpoint(where, "expected a weight_map");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    check_path_inside(file, where + ", tensor " + tensor);
    if (file.find('/') != file.npos || !file.ends_with(".safetensors")) {
      throw BadCheckpoint(where, "tensor {}: expected the name of a .safetensors in this folder, got \"{}\"", tensor,
                          file);
    }
    shards.insert(file);
  }
  return {shards.begin(), shards.end()};
}

[[noreturn]] void refuse_without_weights(const HubName& name, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (matches_any(path, {"pytorch_model*.bin", "adapter_model.bin", "*.pth", "*.pt", "*.ckpt", "*.pkl"})) {
      throw Unsupported(name.text(),
                        "the weights are pickles alone ({}), which can run any code: expected safetensors or GGUF",
                        path);
    }
  }
  throw BadInput(name.text(), "the repository has no {}, no {} and no .gguf", kSingle, kAdapter);
}

}  // namespace

std::vector<std::string> gguf_choices(const std::vector<std::string>& paths) {
  std::vector<std::string> first;
  for (const Choice& choice : choices_in(paths)) first.push_back(choice.path);
  return first;
}

HubSelection select_files(const HubName& name, HubWanted wanted, const std::vector<std::string>& paths,
                          const std::function<std::string(const std::string& path)>& read) {
  const auto has = [&](std::string_view path) { return std::ranges::find(paths, path) != paths.end(); };
  if (wanted == HubWanted::chat_template) {
    const std::string file(kTemplate);
    if (!has(file)) throw BadInput(name.text(), "the repository has no {}", file);
    return {{file}, file};
  }
  HubSelection folder;
  std::ranges::copy_if(paths, std::back_inserter(folder.files), is_of_folder);
  const bool has_weights = has(kSingle) || has(kIndex) || has(kAdapter);
  if (name.what.empty() && wanted == HubWanted::tokenizer && std::ranges::any_of(paths, is_of_tokenizer)) return folder;
  if (name.what.empty() && has_weights) {
    if (wanted == HubWanted::tokenizer) throw BadInput(name.text(), "the repository has no tokenizer");
    if (has(kAdapter)) folder.files.emplace_back(kAdapter);
    if (has(kSingle)) {
      folder.files.emplace_back(kSingle);
    } else if (has(kIndex)) {
      folder.files.emplace_back(kIndex);
      for (std::string& shard : shards_of(name, read(std::string(kIndex)))) {
        if (!has(shard)) throw BadInput(name.text(), "{} names {}, which the repository does not have", kIndex, shard);
        folder.files.push_back(std::move(shard));
      }
    }
    return folder;
  }
  const std::vector<Choice> choices = choices_in(paths);
  if (choices.empty() && !name.what.empty() && has_weights) {
    throw BadInput(name.text(), "the repository has no .gguf, so \"{}\" matches nothing; it is a folder, hf:{}",
                   name.what, name.repository);
  }
  if (choices.empty()) refuse_without_weights(name, paths);
  const Choice& choice = chosen(name, choices);
  if (!choice.missing.empty()) {
    throw BadInput(name.text(), "expected {} files of {}, {} is missing", choice.files.size(), choice.path,
                   choice.missing);
  }
  return {choice.files, choice.path};
}

}  // namespace vitrine
