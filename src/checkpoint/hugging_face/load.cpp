// Hugging Face folders: a family's reader reads config.json, and its table binds the tensors. Every tensor must belong
// to the model and every parameter must be in the file.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/formats.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_rules.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// Whether a file or folder of that name exists, or may exist but cannot be examined: opening it then gives the reason.
bool may_exist(const fs::path& path) {
  std::error_code error;
  return fs::status(path, error).type() != fs::file_type::not_found;
}

void add_file(StoredTensors& tensors, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensors.all.emplace(name, tensor).second) continue;
    throw BadCheckpoint(path, "tensor {} is also in another shard", name);
  }
  tensors.storage.push_back(file.file());
}

/// All tensors of the folder, from one file or from shards.
StoredTensors open_tensors(const fs::path& folder) {
  StoredTensors tensors;
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (may_exist(single)) {
    tensors.where = single.string();
    add_file(tensors, single.string());
    return tensors;
  }
  if (!may_exist(index)) {
    const bool is_pickled =
        may_exist(folder / "pytorch_model.bin") || may_exist(folder / "pytorch_model.bin.index.json");
    throw BadInput(
        folder.string(), "expected model.safetensors or model.safetensors.index.json in the folder{}",
        is_pickled ? " (pytorch_model.bin is a pickle, which can run any code: save it as safetensors)" : "");
  }
  tensors.where = index.string();
  const Json json = read_json_file(index.string());
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw BadCheckpoint(tensors.where, "expected a weight_map");
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    const bool is_name = shard.is_string() && fs::path(shard.get<std::string>()).filename() == shard.get<std::string>();
    if (!is_name) throw BadCheckpoint(tensors.where, "tensor {}: expected the name of a file in this folder", name);
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) add_file(tensors, (folder / shard).string());
  for (const auto& [name, shard] : json["weight_map"].items()) {
    const auto it = tensors.all.find(name);
    if (it == tensors.all.end() || fs::path(it->second.file).filename() != shard.get<std::string>()) {
      throw BadCheckpoint(tensors.where, "tensor {} is not in {}", name, shard.get<std::string>());
    }
  }
  for (const auto& [name, tensor] : tensors.all) {
    if (!json["weight_map"].contains(name)) {
      throw BadCheckpoint(tensor.file, "tensor {} is not in the weight_map of {}", name, tensors.where);
    }
  }
  return tensors;
}

/// Early checkpoints of BERT call the weight and the bias of a LayerNorm gamma and beta.
void rename_gamma_and_beta(StoredTensors& tensors) {
  const std::pair<std::string_view, std::string_view> kNames[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                                                  {"LayerNorm.beta", "LayerNorm.bias"}};
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, tensor] : tensors.all) {
    for (const auto& [early, known] : kNames) {
      if (name.ends_with(early)) {
        found.emplace_back(name, name.substr(0, name.size() - early.size()) + std::string(known));
      }
    }
  }
  for (const auto& [early, known] : found) {
    auto node = tensors.all.extract(early);
    node.key() = known;
    if (!tensors.all.insert(std::move(node)).inserted) {
      throw BadCheckpoint(tensors.where, "tensors {} and {} hold the same parameter", early, known);
    }
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

DType dtype_of(const StoredTensor& tensor, const std::string& name) {
  if (tensor.type) return *tensor.type;
  throw Unsupported(tensor.file, "tensor {} is {}; F32, F16 and BF16 are supported", name, tensor.dtype);
}

/// Binds stored tensors to parameters by a family's table.
class Binder {
 public:
  /// Copies of tensors with interleaved rows are added to the storage of `tensors`.
  Binder(const Family& family, const ModelConfig& config, StoredTensors& tensors, ModelParams& params)
      : family_(family), config_(config), tensors_(tensors) {
    params = empty_params(config);
    for_each_param(config, params, [&](Param& param, const std::string& name, const Shape& shape) {
      param.name = name;
      param.shape = shape;
      slots_.emplace(name, &param);
    });
    const auto holds = [&](std::string_view prefix) {
      return tensors.all.contains(with_prefix(family.embedding, prefix));
    };
    const auto it = std::find_if(family.prefixes.begin(), family.prefixes.end(), holds);
    prefix_ = it != family.prefixes.end() ? *it : family.prefixes.front();
  }

  void bind() {
    for (const TensorRule& rule : family_.tensors) {
      for_each_place(rule, prefix_, config_, [&](const TensorPlace& place) { bind(place); });
    }
    for (const std::string_view name : family_.ignored) {
      const std::size_t n_in_encoder = config_.encoder ? config_.encoder->n_layers() : 0;
      for (std::size_t layer = 0; layer < std::max(config_.n_layers(), n_in_encoder); ++layer) {
        used_.insert(with_layer(with_prefix(name, prefix_), static_cast<std::int64_t>(layer)));
      }
    }
    check_head();
    for (const auto& [name, param] : slots_) {
      if (!param->present()) {
        throw BadCheckpoint(tensors_.where, "tensor {} ({}) is missing", param->stored_name, name);
      }
    }
    for (const auto& [name, tensor] : tensors_.all) {
      if (!used_.contains(name)) throw BadCheckpoint(tensor.file, "tensor {} is not part of this model", name);
    }
  }

  std::string_view prefix() const { return prefix_; }

 private:
  void bind(const TensorPlace& place) {
    const std::string& stored = place.stored;
    std::vector<Param*> params;
    std::vector<Shape> shapes;
    for (const std::string& ours : place.ours) {
      const auto slot = slots_.find(ours);
      if (slot == slots_.end()) return;  // this config has no such parameter
      params.push_back(slot->second);
      if (!slot->second->present()) slot->second->stored_name = stored;
      shapes.push_back(slot->second->shape);
    }
    const auto it = tensors_.all.find(stored);
    if (it == tensors_.all.end()) return;
    used_.insert(stored);
    const StoredTensor& tensor = it->second;
    for (const Param* param : params) {
      if (!param->present()) continue;
      if (place.rule->is_copy) return check_copy(tensor, stored, *param);
      throw BadCheckpoint(tensor.file, "tensors {} and {} hold the same parameter", stored, param->stored_name);
    }

    const auto [is_vector, transposed, rows, cols, expected] = shape_of(place, config_, shapes);
    if (tensor.shape != expected) {
      throw BadCheckpoint(tensor.file, "tensor {}: expected shape {} ({}), got {}", stored, shape_text(expected),
                          params.front()->name, shape_text(tensor.shape));
    }
    const DType dtype = dtype_of(tensor, stored);
    if (is_vector && is_blocks(dtype)) {
      throw Unsupported(tensor.file, "tensor {}: a vector in {} is not supported; F32, F16 and BF16 are", stored,
                        tensor.dtype);
    }
    const std::byte* bytes = tensor.bytes.data();
    if (place.rule->rows != Rows::stacked) {
      bytes = stack(tensor.bytes, row_runs(place, config_, shapes), shapes, bytes_of(dtype, cols));
    }
    const MatrixView whole =
        transposed ? MatrixView{bytes, dtype, rows, cols, 1, rows} : MatrixView{bytes, dtype, rows, cols, cols, 1};
    std::int64_t first = 0;
    for (Param* param : params) {
      const std::int64_t count = param->shape[0];
      const MatrixView part = whole.row_range(first, count);
      param->view = is_vector ? MatrixView{part.data, dtype, 1, count, count, 1} : part;
      first += count;
    }
  }

  /// A copy of a tensor in which the rows of each part are consecutive.
  const std::byte* stack(std::span<const std::byte> from, const std::vector<RowRun>& runs,
                         const std::vector<Shape>& parts, std::int64_t row_bytes) {
    const auto copy = std::make_shared<std::vector<std::byte>>(from.size());
    std::vector<std::int64_t> first(parts.size());
    for (std::size_t part = 1; part < parts.size(); ++part) first[part] = first[part - 1] + parts[part - 1][0];
    const std::byte* next = from.data();
    for (const RowRun& run : runs) {
      const std::int64_t n = run.count * row_bytes;
      std::copy_n(next, n, copy->data() + (first[run.part] + run.first) * row_bytes);
      next += n;
    }
    tensors_.storage.push_back(copy);
    return copy->data();
  }

  /// Throws BadCheckpoint unless a tensor has the bytes of `param`, which is bound to another one.
  static void check_copy(const StoredTensor& tensor, const std::string& name, const Param& param) {
    const auto size = static_cast<std::size_t>(bytes_of(param.view.dtype, param.shape.count()));
    const bool same = tensor.type == param.view.dtype && tensor.bytes.size() == size &&
                      std::memcmp(tensor.bytes.data(), param.view.data, size) == 0;
    if (!same) throw BadCheckpoint(tensor.file, "tensor {} differs from {}, whose copy it is", name, param.stored_name);
  }

  /// If the file also holds a tied head, it must equal the embedding byte for byte.
  void check_head() {
    if (!config_.head.tied) return;
    const Param& embed =
        *slots_.at(config_.encoder && !config_.shared_embedding ? "decoder.embed.weight" : "embed.weight");
    for (const TensorRule& rule : family_.tensors) {
      if (rule.ours.front() != "unembed" || !embed.present()) continue;
      const auto head = tensors_.all.find(with_prefix(rule.stored, prefix_) + ".weight");
      if (head == tensors_.all.end()) continue;
      check_copy(head->second, head->first, embed);
      used_.insert(head->first);
    }
  }

  const Family& family_;
  const ModelConfig& config_;
  StoredTensors& tensors_;
  std::map<std::string, Param*> slots_;  // by our name
  std::set<std::string> used_;           // stored names of this model
  std::string_view prefix_;
};

std::vector<std::int32_t> read_ids(const Json& json, const char* key, std::int64_t vocab_size,
                                   const std::string& where) {
  std::vector<std::int32_t> ids;
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return ids;
  for (const Json& id : it->is_array() ? *it : Json::array({*it})) {
    if (!id.is_number_integer()) throw BadCheckpoint(where, "{}: expected ids, got {}", key, it->dump());
    if (id >= 0 && id < vocab_size) ids.push_back(id.get<std::int32_t>());  // others mean none, as −1 does
  }
  return ids;
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
  if (const auto penalty = reader.optional_number("length_penalty")) search.length_penalty = penalty;
  if (const auto it = json.find("early_stopping"); it != json.end() && !it->is_null()) {
    const bool is_never = it->is_string() && it->get<std::string>() == "never";
    if (!is_never && !it->is_boolean()) {
      throw BadCheckpoint(where, "early_stopping: expected true, false or \"never\", got {}", it->dump());
    }
    search.early_stop = is_never ? "never" : it->get<bool>() ? "yes" : "no";
  }
  const auto id = [&](const char* key, std::optional<std::int32_t>& place) {
    const auto ids = read_ids(json, key, vocab_size, where);
    if (!ids.empty()) place = ids.front();
  };
  id("forced_bos_token_id", search.forced_first);
  id("forced_eos_token_id", search.forced_last);
  if (auto ids = read_ids(json, "suppress_tokens", vocab_size, where); !ids.empty()) search.suppressed = std::move(ids);
  const auto words = json.find("bad_words_ids");
  if (words == json.end() || words->is_null()) return;
  if (!words->is_array()) throw BadCheckpoint(where, "bad_words_ids: expected lists of ids, got {}", words->dump());
  search.bad_words.clear();
  for (const Json& word : *words) {
    const Json one = {{"word", word}};
    search.bad_words.push_back(read_ids(one, "word", vocab_size, where + ", bad_words_ids"));
  }
}

/// Reads BOS, EOS, the decoder's start and sampling defaults from generation_config.json; BOS or EOS that it lacks,
/// from config.json.
void read_generation(const fs::path& folder, const Json& config, Checkpoint& checkpoint) {
  const std::int64_t vocab_size = checkpoint.model->config().vocab_size;
  const auto read_special = [&](const Json& json, const std::string& where) {
    const auto bos = read_ids(json, "bos_token_id", vocab_size, where);
    const auto eos = read_ids(json, "eos_token_id", vocab_size, where);
    const auto start = read_ids(json, "decoder_start_token_id", vocab_size, where);
    if (!bos.empty()) checkpoint.bos_id = bos.front();
    if (!start.empty()) checkpoint.start_id = start.front();
    const auto pad = read_ids(json, "pad_token_id", vocab_size, where);
    if (!pad.empty()) checkpoint.pad_id = pad.front();
    if (!eos.empty()) checkpoint.stop_ids = eos;
  };
  read_special(config, (folder / "config.json").string());
  checkpoint.generation.greedy = checkpoint.model->config().encoder.has_value();  // as in transformers
  const fs::path path = folder / "generation_config.json";
  if (!may_exist(path)) return read_search(config, vocab_size, (folder / "config.json").string(), checkpoint.search);
  const Json json = read_json_file(path.string());
  read_search(json, vocab_size, path.string(), checkpoint.search);
  ConfigReader reader(json, path.string());
  read_special(json, path.string());
  SamplingOverrides& g = checkpoint.generation;
  g.temperature = reader.optional_number("temperature");
  g.top_p = reader.optional_number("top_p");
  g.min_p = reader.optional_number("min_p");
  g.repeat_penalty = reader.optional_number("repetition_penalty");
  if (const auto top_k = reader.optional_number("top_k")) g.top_k = static_cast<int>(std::clamp(*top_k, 0.0, 1e9));
  g.greedy = !reader.flag_or("do_sample", !checkpoint.model->config().encoder);
}

}  // namespace

Checkpoint bind_tensors(const Family& family, ModelConfig config, StoredTensors tensors) {
  if (family.adapt) {
    family.adapt(config, [&](std::string_view name) { return tensors.all.contains(std::string(name)); });
    validate(config, tensors.where);
  }
  ModelParams params;
  Binder binder(family, config, tensors, params);
  binder.bind();
  Checkpoint result;
  result.table = std::make_shared<const Family>(family);
  result.prefix = binder.prefix();
  result.family = family.model_type;
  result.model = std::make_shared<const Model>(std::move(config), std::move(params), tensors.storage);
  result.stored = std::make_shared<const StoredTensors>(std::move(tensors));
  return result;
}

Checkpoint bind_hugging_face(const Json& config, StoredTensors tensors, const std::string& where,
                             const LoadOptions& options) {
  const Family& family = family_of(config, where);
  ModelConfig model = read_model_config(family, config, where, options.allowed_config_keys);
  rename_gamma_and_beta(tensors);
  Checkpoint result = bind_tensors(family, std::move(model), std::move(tensors));
  result.config = config.dump(2) + "\n";
  return result;
}

Checkpoint load_hugging_face(const std::string& folder, const LoadOptions& options) {
  const fs::path config_path = fs::path(folder) / "config.json";
  if (!may_exist(config_path) && may_exist(fs::path(folder) / "adapter_config.json")) {
    throw Unsupported(folder, "expected a model, got an adapter (adapter_config.json): merge it into its base first");
  }
  if (!may_exist(config_path)) throw BadInput(folder, "expected config.json in the folder");
  const Json json = read_json_file(config_path.string());
  const Family& family = family_of(json, config_path.string());
  read_model_config(family, json, config_path.string(), options.allowed_config_keys);  // its errors come first
  Checkpoint result = bind_hugging_face(json, open_tensors(folder), config_path.string(), options);
  result.description = std::string(family.model_type) + ", Hugging Face checkpoint";
  result.tokenizer_path = folder;
  read_generation(folder, json, result);
  return result;
}

}  // namespace vitrine
