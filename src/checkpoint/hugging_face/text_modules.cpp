#include "checkpoint/hugging_face/text_modules.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>

#include "base/error.h"
#include "checkpoint/hugging_face/open_tensors.h"
#include "checkpoint/hugging_face/step_table.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// `text` in lower case and without underscores: how the names of a class and of its file agree.
std::string folded(std::string_view text) {
  std::string folded;
  for (const char c : text) {
    if (c != '_') folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return folded;
}

/// The class of a module of sentence-transformers itself; "" for one of another package.
std::string class_of(const std::string& type) {
  constexpr std::string_view kPackages[] = {
      "models", "modules", "base", "sparse_encoder", "cross_encoder", "sentence_transformer", "multi_vector_encoder"};
  std::string rest = type;
  const std::size_t last = rest.rfind('.');
  if (last == rest.npos || !rest.starts_with("sentence_transformers.")) return "";
  std::string name = rest.substr(last + 1);
  rest = rest.substr(0, last);
  for (std::size_t at = rest.find('.'); at != rest.npos;) {
    const std::size_t end = rest.find('.', at + 1);
    const std::string part = rest.substr(at + 1, end == rest.npos ? end : end - at - 1);
    const bool is_package = std::find(std::begin(kPackages), std::end(kPackages), part) != std::end(kPackages);
    if (!is_package && !(end == rest.npos && folded(part) == folded(name))) return "";
    at = end;
  }
  return name;
}

/// A row of modules.json.
struct ModuleRow {
  std::string type, name, path;
};

/// Whether a path stays in the folder that it starts from.
bool is_within(const fs::path& path) {
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

std::vector<ModuleRow> read_rows(const fs::path& file) {
  const Json list = read_json_file(file.string());
  if (!list.is_array() || list.empty()) throw BadCheckpoint(file.string(), "expected a list of modules");
  std::vector<ModuleRow> rows;
  std::set<std::string> names;
  for (const Json& json : list) {
    ConfigReader c(json, file.string());
    refuse_unknown(c, {"idx", "name", "path", "type", "kwargs"});
    for (const char* const key : {"name", "path", "type"}) {
      if (!c.has(key)) throw BadCheckpoint(file.string(), "a module has no {}", key);
    }
    ModuleRow row{c.text_or("type", ""), c.text_or("name", ""), c.text_or("path", "")};
    const std::string type = class_of(row.type);
    if (type.empty()) throw Unsupported(file.string(), "module {} is not one of sentence-transformers", row.type);
    if (row.name.empty()) throw BadCheckpoint(file.string(), "a module has an empty name");
    if (!names.insert(row.name).second) throw BadCheckpoint(file.string(), "two modules have the name {}", row.name);
    if (!is_within(row.path))
      throw BadCheckpoint(file.string(), "path: expected a folder within this one, got {}", row.path);
    row.type = type;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The type and the path of the first module, if a folder has a list of modules and both are texts: what a model is
/// opened by, whatever the other modules are.
ModuleRow first_row(const std::string& folder) {
  const fs::path file = fs::path(folder) / "modules.json";
  if (!may_exist(file)) return {};
  const Json list = read_json_file(file.string());
  if (!list.is_array() || list.empty() || !list[0].is_object()) return {};
  const auto text = [&](const char* key) {
    const Json value = list[0].value(key, Json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  ModuleRow row{text("type"), text("name"), text("path")};
  if (!is_within(row.path))
    throw BadCheckpoint(file.string(), "path: expected a folder within this one, got {}", row.path);
  return row;
}

/// An object of options for transformers, of which only some have no effect on values or are read.
void refuse_options(ConfigReader& c, std::initializer_list<std::string_view> names,
                    std::initializer_list<std::string_view> known) {
  for (const std::string_view name : names) {
    const auto options = c.object(name);
    if (!options) continue;
    for (const std::string& key : options->keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw Unsupported(c.where(), "{}.{} is not supported", name, key);
    }
  }
}

QueryExpansion read_expansion(ConfigReader c) {
  refuse_unknown(c, {"strategy", "attend", "token", "length"});
  for (const char* const key : {"strategy", "length"}) {
    if (!c.has(key)) throw BadCheckpoint(c.where(), "query_expansion: {} is missing", key);
  }
  QueryExpansion expansion;
  expansion.is_fixed = choice_of(c, "strategy", "fixed", {"fixed", "min"}) == 0;
  expansion.attends = c.flag_or("attend", false);
  expansion.token = c.text_or("token", "");
  if (c.has("token") && expansion.token.empty()) throw BadCheckpoint(c.where(), "query_expansion: token is empty");
  expansion.length = c.size("length");
  return expansion;
}

/// The task of a Transformer, and the value that it must give for that.
TextSteps::Source read_task(ConfigReader& c, bool is_mlm, ReadingModule& reading) {
  constexpr std::string_view kOutputs[] = {"last_hidden_state", "logits", "logits", "logits"};
  constexpr std::string_view kValues[] = {"token_embeddings", "token_embeddings", "scores", "causal_logits"};
  const std::size_t task = choice_of(c, "transformer_task", is_mlm ? "fill-mask" : "feature-extraction",
                                     {"feature-extraction", "fill-mask", "sequence-classification", "text-generation"});
  const auto modalities = c.object("modality_config");
  if (!modalities) return static_cast<TextSteps::Source>(task);
  for (const std::string& key : modalities->keys()) {
    if (key != "text" && key != "message") throw Unsupported(c.where(), "modality_config.{} is not supported", key);
    ConfigReader all = *modalities;
    const auto modality = all.object(key);
    if (!modality) throw BadCheckpoint(c.where(), "modality_config.{}: expected an object", key);
    ConfigReader m = *modality;
    refuse_unknown(m, {"method", "method_output_name", "format"});
    const std::string output = m.text_or("method_output_name", "");
    if (m.text_or("method", "") != "forward" || output != kOutputs[task]) {
      throw Unsupported(c.where(), "modality_config.{}: expected the method forward and its {}, got {}", key,
                        kOutputs[task], output);
    }
    if (key != "message") continue;
    reading.is_chat = true;
    const std::size_t format = choice_of(m, "format", "auto", {"auto", "flat", "structured"});
    if (format > 0) reading.has_parts = format == 2;
  }
  if (!modalities->has("text")) throw Unsupported(c.where(), "modality_config has no text");
  if (c.text_or("module_output_name", "") != kValues[task]) {
    throw Unsupported(c.where(), "module_output_name: expected {}", kValues[task]);
  }
  return static_cast<TextSteps::Source>(task);
}

/// Reads sentence_bert_config.json, or the first of its older names that exists.
void read_transformer(const fs::path& folder, bool is_mlm, TextModules& modules) {
  constexpr const char* kFiles[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                    "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                    "sentence_xlnet_config.json"};
  ReadingModule& reading = modules.reading;
  modules.steps.source = is_mlm ? TextSteps::Source::word_logits : TextSteps::Source::rows;
  for (const char* const name : kFiles) {
    const fs::path file = folder / name;
    if (!may_exist(file)) continue;
    const Json json = read_json_file(file.string());
    ConfigReader c(json, file.string());
    refuse_unknown(c, {"transformer_task", "modality_config", "module_output_name", "processing_kwargs", "unpad_inputs",
                       "query_length", "document_length", "query_expansion", "max_seq_length", "do_lower_case",
                       "model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
                       "config_kwargs", "tokenizer_name_or_path"});
    modules.steps.source = read_task(c, is_mlm, reading);
    reading.most_tokens = c.optional_size("max_seq_length");
    reading.lowercase = c.flag_or("do_lower_case", false);
    reading.most_query_tokens = c.optional_size("query_length");
    reading.most_document_tokens = c.optional_size("document_length");
    if (const auto expansion = c.object("query_expansion")) reading.expansion = read_expansion(*expansion);
    refuse_options(c, {"model_args", "model_kwargs"}, {"attn_implementation", "trust_remote_code"});
    refuse_options(c, {"tokenizer_args", "processor_kwargs"},
                   {"model_max_length", "padding_side", "use_fast", "trust_remote_code"});
    refuse_options(c, {"config_args", "config_kwargs"}, {"trust_remote_code"});
    refuse_options(c, {"processing_kwargs"}, {});
    if (c.has("tokenizer_name_or_path")) throw Unsupported(c.where(), "tokenizer_name_or_path is not supported");
    for (const char* const key : {"tokenizer_args", "processor_kwargs"}) {
      auto options = c.object(key);
      if (options && options->has("model_max_length")) reading.most_tokens = options->size("model_max_length");
    }
    return;
  }
}

/// Throws BadCheckpoint for a step that reads a value which none before it has made, Unsupported for steps that read
/// logits in another place than the first.
void check_order(const TextSteps& steps, const std::string& where) {
  using Source = TextSteps::Source;
  std::set<TextValue> made;
  if (steps.source == Source::rows) made.insert(TextValue::tokens);
  if (steps.source == Source::outputs) made.insert(TextValue::scores);
  const auto needs = [&](TextValue value, std::string_view name) {
    if (!made.contains(value)) throw BadCheckpoint(where, "module {}: no module before it makes what it reads", name);
  };
  const bool reads_logits = steps.source == Source::word_logits || steps.source == Source::next_logits;
  if (reads_logits && steps.steps.empty()) throw Unsupported(where, "the logits of words alone are not supported");
  bool is_masked = false;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const TextStep& step = steps.steps[i];
    const bool is_splade = std::holds_alternative<SpladeStep>(step), is_logit = std::holds_alternative<LogitStep>(step);
    if (is_splade != (steps.source == Source::word_logits && i == 0)) {
      throw Unsupported(where, "expected SpladePooling directly after a Transformer with the task fill-mask");
    }
    if (is_logit != (steps.source == Source::next_logits && i == 0)) {
      throw Unsupported(where, "expected LogitScore directly after a Transformer with the task text-generation");
    }
    if (is_splade) made.insert(TextValue::vector);
    if (is_logit) made.insert(TextValue::scores);
    if (std::holds_alternative<PoolStep>(step)) {
      if (is_masked) throw Unsupported(where, "Pooling after MultiVectorMask is not supported");
      needs(TextValue::tokens, "Pooling");
      made.insert(TextValue::vector);
    }
    const auto keeps_tokens = [&](TextValue from, TextValue to, std::string_view name) {
      if ((from == TextValue::tokens) == (to == TextValue::tokens)) return;
      throw Unsupported(where, "module {}: token_embeddings become token_embeddings alone", name);
    };
    if (const auto* const dense = std::get_if<DenseStep>(&step)) {
      needs(dense->from, "Dense");
      keeps_tokens(dense->from, dense->to, "Dense");
      made.insert(dense->to);
    }
    if (const auto* const normalize = std::get_if<NormalizeStep>(&step)) {
      needs(normalize->from, "Normalize");
      keeps_tokens(normalize->from, normalize->to, "Normalize");
      made.insert(normalize->to);
    }
    if (std::holds_alternative<LayerNormStep>(step)) needs(TextValue::vector, "LayerNorm");
    is_masked = is_masked || std::holds_alternative<MaskStep>(step);
  }
}

}  // namespace

std::optional<std::int32_t> id_of_token(const Tokenizer& tokenizer, const std::string& token) {
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.piece(static_cast<std::int32_t>(id)) == token) return static_cast<std::int32_t>(id);
  }
  return std::nullopt;
}

std::string folder_of_modules(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  if (may_exist(path / "modules.json")) return folder;
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  const fs::path around = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  if (name.empty() || !may_exist(around / "modules.json")) return folder;
  const std::vector<ModuleRow> rows = read_rows(around / "modules.json");
  return fs::path(rows.front().path).lexically_normal() == name ? around.string() : folder;
}

std::string folder_of_model(const std::string& folder) {
  const std::string path = first_row(folder).path;
  return path.empty() ? folder : (fs::path(folder) / path).string();
}

bool is_table_of_embeddings(const std::string& folder) { return class_of(first_row(folder).type) == "StaticEmbedding"; }

ReadingModule read_reading_module(const std::string& folder) {
  TextModules modules;
  read_transformer(folder, false, modules);
  return modules.reading;
}

std::optional<TextModules> read_text_modules(const std::string& folder, const Tokenizer* tokenizer) {
  const fs::path root(folder), file = root / "modules.json";
  if (!may_exist(file)) return std::nullopt;
  const std::vector<ModuleRow> rows = read_rows(file);
  TextModules modules;
  modules.reading.path = rows.front().path;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ModuleRow& row = rows[i];
    const bool is_first = row.type == "Transformer" || row.type == "MLMTransformer" || row.type == "StaticEmbedding";
    if (is_first != (i == 0)) {
      throw Unsupported(file.string(), "module {} is not supported {}", row.type, i == 0 ? "first" : "after another");
    }
    if (row.type == "StaticEmbedding") {
      modules.reading.is_table = true;
      modules.steps.steps.emplace_back(PoolStep{});
      continue;
    }
    if (is_first) {
      read_transformer(root / row.path, row.type == "MLMTransformer", modules);
      continue;
    }
    if (row.type == "Dropout") {  // of training alone
      const fs::path options = root / row.path / "config.json";
      if (may_exist(options))
        refuse_unknown(ConfigReader(read_json_file(options.string()), options.string()), {"dropout"});
      continue;
    }
    const ReadStep read = step_reader(row.type);
    if (read == nullptr) {
      throw Unsupported(file.string(),
                        "module {} is not supported: without it in this list, the vectors are those before it",
                        row.type);
    }
    const fs::path config = root / row.path / "config.json";
    const bool is_alone = row.path.empty() && row.type == "Normalize";  // the folder's config.json is the model's
    const bool has_config = !is_alone && may_exist(config);
    const ModuleFolder module{config.string(), root / row.path,
                              has_config ? read_json_file(config.string()) : Json::object(), "modules." + row.name,
                              tokenizer};
    modules.steps.steps.push_back(read(module, modules.steps));
  }
  check_order(modules.steps, file.string());
  return modules;
}

}  // namespace vitrine
