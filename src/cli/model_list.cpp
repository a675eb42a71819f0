#include "cli/model_list.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/object_fields.h"
#include "checkpoint/adapters/modifier_text.h"
#include "hub/gguf_choices.h"
#include "hub/name.h"
#include "train/toml_file.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

/// A number, and the factor that the letter after it stands for.
std::optional<double> number_and_unit(const std::string& text, std::initializer_list<std::pair<char, double>> units) {
  if (text.empty()) return std::nullopt;
  double factor = 1;
  std::string_view digits = text;
  for (const auto& [letter, value] : units) {
    if (text.back() != letter) continue;
    factor = value;
    digits.remove_suffix(1);
  }
  const auto number = number_in<double>(digits);
  if (!number || !(*number >= 0) || *number * factor > 9e18) return std::nullopt;
  return *number * factor;
}

/// The keys of a table of a TOML file. Errors name the file and the line.
class TomlFields : public ObjectFields {
 public:
  /// `name`: of the table, with a dot at its end; "": the whole file. All are borrowed.
  TomlFields(const TomlFile& file, const std::string& path, const Json& table, std::string name)
      : ObjectFields(table, "there is no such key"), file_(file), path_(path), name_(std::move(name)) {}

  /// Calls read(name, value, place) for each entry of a table.
  template <class Read>
  void each(std::string_view key, Read&& read) {
    const Json* const table = find(key);
    if (table == nullptr) return;
    if (!table->is_object()) fail(key, "expected a table, got " + table->dump());
    for (const auto& [name, value] : table->items()) read(name, value);
  }
  TomlFields of(std::string_view key, const Json& table) const {
    return {file_, path_, table, name_ + std::string(key) + "."};
  }
  std::optional<std::chrono::duration<double>> duration(std::string_view key) {
    const auto value = text(key);
    if (!value) return std::nullopt;
    const auto seconds = parse_duration(*value);
    if (!seconds) fail(key, "expected a time such as \"5m\", got \"" + *value + "\"");
    return std::chrono::duration<double>(*seconds);
  }
  /// A path is relative to the file.
  std::optional<std::string> path(std::string_view key) {
    auto value = text(key);
    if (!value || is_hub_name(*value)) return value;
    if (value->empty()) fail(key, "expected a path, got an empty text");
    return (fs::path(path_).parent_path() / *value).lexically_normal().string();
  }
  std::optional<std::string> choice(std::string_view key, const std::vector<std::string>& choices) {
    auto value = text(key);
    if (value && std::ranges::count(choices, *value) == 0) {
      fail(key, fmt::format("expected {}, got \"{}\"", fmt::join(choices, ", "), *value));
    }
    return value;
  }

 protected:
  std::exception_ptr error_of(std::string_view key, const std::string& message) const override {
    const std::string full = name_ + std::string(key);
    return std::make_exception_ptr(BadInput(file_.place_of(full, path_), "{}: {}", full, message));
  }

 private:
  const TomlFile& file_;
  const std::string& path_;
  std::string name_;
};

void read_defaults(TomlFields& fields, SamplingOverrides& defaults) {
  fields.each("defaults", [](const std::string&, const Json&) {});
  const Json* const table = fields.find("defaults");
  if (table == nullptr) return;
  TomlFields own = fields.of("defaults", *table);
  defaults.temperature = own.number("temperature", 0, 100);
  defaults.top_p = own.number("top_p", 0, 1);
  defaults.min_p = own.number("min_p", 0, 1);
  defaults.typical_p = own.number("typical_p", 0, 1);
  defaults.epsilon_cutoff = own.number("epsilon_cutoff", 0, 1);
  defaults.eta_cutoff = own.number("eta_cutoff", 0, 1);
  defaults.repeat_penalty = own.number("repeat_penalty", 0, 100);
  defaults.top_k = own.whole<int>("top_k", 0);
  own.finish();
}

/// Adapters or control vectors, NAME = PATH or NAME = {path, scale, layers}, as the command line has them.
std::vector<std::string> read_modifiers(TomlFields& fields, const char* key, bool has_layers,
                                        std::vector<std::string>& texts) {
  std::vector<std::string> names;
  const Json* const all = fields.find(key);
  fields.each(key, [&](const std::string& name, const Json& value) {
    TomlFields table = fields.of(key, *all);
    if (!is_modifier_name(name)) table.fail(name, "expected a name of 1 to 128 letters, digits and . _ -");
    std::string text;
    if (value.is_object()) {
      TomlFields own = table.of(name, value);
      const auto path = own.path("path");
      if (!path) table.fail(name, "the key path is missing");
      text = fmt::format("{}={}={}", name, *path, own.number("scale", -3e38, 3e38).value_or(1));
      if (has_layers) {
        const auto layers = own.get<std::vector<int>>("layers", "a list of the first and the last layer");
        const bool is_range =
            layers && layers->size() == 2 && layers->front() >= 0 && layers->front() <= layers->back();
        if (layers && !is_range) own.fail("layers", "expected [FIRST, LAST] with 0 <= FIRST <= LAST");
        if (layers) text += fmt::format(":{}-{}", layers->front(), layers->back());
      }
      own.finish();
    } else {
      text = fmt::format("{}={}=1", name, *table.path(name));
    }
    texts.push_back(std::move(text));
    names.push_back(name);
  });
  return names;
}

/// Dictionaries of features or probes, NAME = PATH or NAME = {path, site}, as the command line has them.
void read_dictionaries(TomlFields& fields, const char* key, std::vector<std::string>& texts) {
  const Json* const all = fields.find(key);
  fields.each(key, [&](const std::string& name, const Json& value) {
    TomlFields table = fields.of(key, *all);
    if (!value.is_object()) {
      texts.push_back(fmt::format("{}={}", name, *table.path(name)));
      return;
    }
    TomlFields own = table.of(name, value);
    const auto path = own.path("path"), site = own.text("site");
    if (!path) table.fail(name, "the key path is missing");
    texts.push_back(fmt::format("{}={}{}", name, *path, site ? "@" + *site : ""));
    own.finish();
  });
}

/// Options of a model of a list: those of the server without those that are about MODEL.
std::shared_ptr<ServeOptions> options_of(const ServeOptions& server, const std::string& path) {
  auto options = std::make_shared<ServeOptions>(server);
  ServeOptions& o = *options;
  o.hub_places.clear();  // they are of the options that were copied
  o.hub_names.clear();
  o.model = path;
  o.threads = 1;  // the rounds have a pool of their own
  o.adapters.clear();
  o.controls.clear();
  o.dictionaries.clear();
  o.features_index.clear();
  o.probes.clear();
  o.tokenizer.clear();
  o.template_path.clear();
  o.draft.clear();
  if (o.speculate == "draft") o.speculate.clear();
  return options;
}

void read_options(TomlFields& fields, ServeOptions& o, ListedModel& model) {
  const auto set = [](std::string& place, std::optional<std::string> value) {
    if (value) place = std::move(*value);
  };
  if (const auto kv = fields.text("kv")) {
    try {
      kv_types(*kv);
    } catch (const std::exception& e) {
      fields.fail("kv", e.what());
    }
    o.kv = *kv;
  }
  set(o.compute, fields.choice("compute", {"auto", "f32", "int8", "bf16"}));
  set(o.template_path, fields.path("template"));
  set(o.tokenizer, fields.path("tokenizer"));
  set(o.draft, fields.path("draft"));
  set(o.speculate, fields.choice("speculate", {"lookup", "draft", "none"}));
  o.max_sequences = fields.whole<std::size_t>("max_sequences", 1, 4096).value_or(o.max_sequences);
  read_defaults(fields, o.defaults);
  model.adapters = read_modifiers(fields, "adapters", false, o.adapters);
  read_modifiers(fields, "controls", true, o.controls);
  set(o.features_index, fields.path("features_index"));
  read_dictionaries(fields, "saes", o.dictionaries);
  read_dictionaries(fields, "probes", o.probes);
}

ModelList read_file(const std::string& path, const ServeOptions& server) {
  const TomlFile file = parse_toml(MappedFile::open_or_read(path)->text(), path);
  TomlFields fields(file, path, file.values, "");
  ModelList list;
  if (const Json* const memory = fields.find("memory")) {
    list.memory = parse_size(memory->is_string() ? memory->get<std::string>() : memory->dump());
    if (!list.memory) fields.fail("memory", "expected a size such as \"12G\", got " + memory->dump());
  }
  list.ttl = fields.duration("ttl");
  const Json* const models = fields.find("models");
  fields.each("models", [&](const std::string& name, const Json& value) {
    TomlFields table = fields.of("models", *models);
    if (!value.is_object()) table.fail(name, "expected a table, got " + value.dump());
    TomlFields own = table.of(name, value);
    const auto model_path = own.path("path");
    if (!model_path) table.fail(name, "the key path is missing");
    ListedModel model{name, file.place_of("models." + name, path)};
    model.options = options_of(server, *model_path);
    model.aliases = own.get<std::vector<std::string>>("aliases", "a list of texts").value_or(model.aliases);
    model.ttl = own.duration("ttl");
    model.preloads = own.flag("preload").value_or(false);
    read_options(own, *model.options, model);
    own.finish();
    list.models.push_back(std::move(model));
  });
  fields.finish();
  if (list.models.empty()) throw BadInput(path, "expected at least one table [models.NAME], got none");
  return list;
}

ModelList read_folder(const std::string& path, const ServeOptions& server) {
  ModelList list;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    std::error_code error;
    if (fs::exists(entry.path() / "config.json", error)) {
      list.models.push_back({.name = name, .place = path, .options = options_of(server, entry.path().string())});
    } else if (entry.is_regular_file(error)) {
      files.push_back(name);
    }
  }
  for (const std::string& file : gguf_choices(files)) {
    const fs::path own = fs::path(path) / file;
    list.models.push_back({.name = own.stem().string(), .place = path, .options = options_of(server, own.string())});
  }
  if (list.models.empty()) throw BadInput(path, "expected folders with a config.json, or .gguf files, found none");
  std::ranges::sort(list.models, {}, &ListedModel::name);
  return list;
}

}  // namespace

std::optional<std::int64_t> parse_size(const std::string& text) {
  constexpr double kKibi = 1024;
  const auto bytes = number_and_unit(
      text, {{'K', kKibi}, {'M', kKibi * kKibi}, {'G', kKibi * kKibi * kKibi}, {'T', kKibi * kKibi * kKibi * kKibi}});
  return bytes ? std::optional(static_cast<std::int64_t>(*bytes)) : std::nullopt;
}

std::optional<double> parse_duration(const std::string& text) {
  return number_and_unit(text, {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}});
}

ModelList read_model_list(const std::string& path, const ServeOptions& server) {
  ModelList list = fs::is_directory(path) ? read_folder(path, server) : read_file(path, server);
  for (ListedModel& model : list.models) {
    model.options->names = model.aliases;
    model.options->names.insert(model.options->names.begin(), model.name);
  }
  return list;
}

}  // namespace vitrine::cli
