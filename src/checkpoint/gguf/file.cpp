#include "checkpoint/gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/formats.h"
#include "checkpoint/gguf/architecture.h"
#include "checkpoint/gguf/heads.h"
#include "checkpoint/gguf/sentences.h"
#include "checkpoint/gguf/types.h"
#include "checkpoint/names.h"
#include "tokenizer/read/gguf_vocab.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMaxFiles = 65535;  // split.count is a uint16

/// A tensor with its bytes. Checks its type, sizes and offset.
StoredTensor stored_tensor(const GgufTensor& tensor, std::span<const std::byte> data, const std::string& path) {
  StoredTensor stored;
  stored.file = path;
  const GgmlType* type = find_ggml_type(tensor.type);
  stored.dtype = type != nullptr ? std::string(type->name) : "type " + std::to_string(tensor.type);
  if (type != nullptr) stored.type = type->dtype;
  stored.shape = tensor.shape;
  if (!stored.type) {
    throw Unsupported(path,
                      "tensor {} is {}; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS and "
                      "MXFP4 are supported: convert it to one of these",
                      tensor.name, stored.dtype);
  }
  const BlockSize block = block_size(*stored.type);
  if (tensor.shape.back() % block.elements != 0) {
    throw BadCheckpoint(path, "tensor {}: expected rows of whole blocks of {} ({} elements), got {} elements",
                        tensor.name, stored.dtype, block.elements, tensor.shape.back());
  }
  const auto count = checked_product(tensor.shape);
  const auto size = count ? checked_mul(*count / block.elements, block.bytes) : std::nullopt;
  if (!size || tensor.offset > data.size() || static_cast<std::uint64_t>(*size) > data.size() - tensor.offset) {
    throw BadCheckpoint(path,
                        "tensor {}: expected {} bytes from offset {} on, got {} bytes of data (an incomplete "
                        "download?)",
                        tensor.name, size ? std::to_string(*size) : "more than 2^63", tensor.offset, data.size());
  }
  stored.bytes = data.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(*size));
  return stored;
}

void check_overlap(const std::map<std::string, StoredTensor>& tensors, const std::string& path) {
  std::vector<std::tuple<const std::byte*, const std::byte*, std::string_view>> ranges;
  for (const auto& [name, tensor] : tensors) {
    ranges.emplace_back(tensor.bytes.data(), tensor.bytes.data() + tensor.bytes.size(), name);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (std::get<0>(ranges[i]) >= std::get<1>(ranges[i - 1])) continue;
    throw BadCheckpoint(path, "tensors {} and {} overlap", std::get<2>(ranges[i - 1]), std::get<2>(ranges[i]));
  }
}

/// Adds the tensors of one file.
void add_tensors(const GgufMetadata& metadata, const std::shared_ptr<const MappedFile>& file, StoredTensors& tensors) {
  const GgufContents contents = metadata.contents();
  std::map<std::string, StoredTensor> own;
  for (const GgufTensor& tensor : contents.tensors) {
    const std::string name(tensor.name);
    if (!own.emplace(name, stored_tensor(tensor, contents.data, file->path())).second) {
      throw BadCheckpoint(file->path(), "tensor {} appears twice", name);
    }
  }
  check_overlap(own, file->path());
  tensors.add(file);
  for (auto& [name, tensor] : own) {
    if (tensors.all.emplace(name, std::move(tensor)).second) continue;
    throw BadCheckpoint(file->path(), "tensor {} is also in another file of the model", name);
  }
}

/// The names of a split model's files.
std::vector<std::string> names_of_split(const std::string& first, std::int64_t count) {
  const std::string end = fmt::format("-00001-of-{:05}.gguf", count);
  if (!first.ends_with(end)) {
    throw BadInput(first, "the model is split into {} files: expected the first of them, a name ending in {}", count,
                   end);
  }
  const std::string_view name = std::string_view(first).substr(0, first.size() - end.size());
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= count; ++i) names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", name, i, count));
  return names;
}

/// Reads BOS and the ids that end a text, if the vocabulary has them.
void read_special_ids(const GgufMetadata& metadata, Checkpoint& checkpoint) {
  const GgufValue* const tokens = metadata.find("tokenizer.ggml.tokens");
  auto n_tokens = static_cast<std::size_t>(checkpoint.model->config().vocab_size);
  if (tokens != nullptr) n_tokens = std::min(n_tokens, static_cast<std::size_t>(tokens->count));
  checkpoint.bos_id = gguf_special_id(metadata, "tokenizer.ggml.bos_token_id", n_tokens);
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = gguf_special_id(metadata, key, n_tokens)) checkpoint.stop_ids.push_back(*id);
  }
  for (std::string& text : gguf_ignored_ids(metadata, n_tokens)) checkpoint.notes.push_back(std::move(text));
}

/// Drops dimensions of 1 while there are more than `n`.
void drop_ones(std::vector<std::int64_t>& shape, std::size_t n) {
  for (std::size_t i = 0; i < shape.size() && shape.size() > n;) {
    if (shape[i] == 1) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

/// Reshapes the gates of shared experts to matrices of one row, corrections of routers that are such a matrix to
/// vectors, as are norms by group, and matrices by head to one matrix.
void reshape_tensors(StoredTensors& tensors) {
  for (auto& entry : tensors.all) {
    const std::string& name = entry.first;
    std::vector<std::int64_t>& shape = entry.second.shape;
    if (name.ends_with(kSharedGateName) && shape.size() == 1) shape.insert(shape.begin(), 1);
    if (name.ends_with(kCorrectionName) && shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
    const bool is_rates = name.ends_with(kRatesName) || name.ends_with(kSkipName);
    if (is_rates && shape.size() == 2 && shape[1] == 1) shape.pop_back();
    const bool is_of_channels = std::any_of(std::begin(kConvolutionNames), std::end(kConvolutionNames),
                                            [&](std::string_view end) { return name.ends_with(end); });
    if (is_of_channels || is_rates) drop_ones(shape, is_rates ? 1 : 2);
    if (name.ends_with(kGroupNormName) && shape.size() == 2) shape = {shape[0] * shape[1]};
    const bool is_by_head = name.ends_with(kKeysByHead) || name.ends_with(kValuesByHead);
    if (is_by_head && shape.size() == 3) shape = {shape[0] * shape[1], shape[2]};
  }
}

/// Removes the layers after the model's own, which predict further tokens.
std::vector<UnreadTensors> take_further_layers(StoredTensors& tensors, std::size_t n_layers, std::int64_t n_further) {
  UnreadTensors unread{"layers that predict further tokens (MTP)"};
  for (std::int64_t i = 0; i < n_further; ++i) {
    const std::string prefix = with_layer("blk.{l}.", static_cast<std::int64_t>(n_layers) + i);
    std::erase_if(tensors.all, [&](const auto& entry) {
      if (!entry.first.starts_with(prefix)) return false;
      ++unread.count;
      unread.bytes += std::ssize(entry.second.bytes);
      return true;
    });
  }
  return unread.count > 0 ? std::vector{unread} : std::vector<UnreadTensors>();
}

/// Adds the numbers that are keys of the file as tensors of one element. One number is that of all layers.
void add_numbers_of_layers(const GgufArchitecture& architecture, const GgufMetadata& metadata, std::size_t n_layers,
                           StoredTensors& tensors) {
  for (const std::string_view name : architecture.numbers_of_layers) {
    const GgufValue* const value = metadata.find(name);
    const bool is_list = value != nullptr && value->type == GgufType::array && value->element == GgufType::f32;
    const bool is_number = value != nullptr && value->type == GgufType::f32;
    if (!is_number && !(is_list && value->count == n_layers)) {
      throw BadCheckpoint(tensors.where, "key {}: expected a list of {} numbers (block_count)", name, n_layers);
    }
    for (std::size_t layer = 0; layer < n_layers; ++layer) {
      StoredTensor tensor;
      tensor.file = tensors.where;
      tensor.dtype = "F32";
      tensor.type = DType::f32;
      tensor.shape = {1};
      tensor.bytes = value->bytes.subspan(is_list ? layer * sizeof(float) : 0, sizeof(float));
      const std::string full = with_layer("blk.{l}.", static_cast<std::int64_t>(layer)) + std::string(name);
      if (tensors.all.emplace(full, tensor).second) continue;
      throw BadCheckpoint(tensors.where, "{} is a key and a tensor", full);
    }
  }
}

}  // namespace

GgufModelFile open_gguf(const std::shared_ptr<const MappedFile>& file) {
  GgufModelFile model{GgufMetadata::parse(file->bytes(), file->path()), {}};
  model.tensors.where = file->path();
  const std::int64_t count = model.metadata.integer("split.count").value_or(1);
  const std::int64_t number = model.metadata.integer("split.no").value_or(0);
  if (count < 0 || count > kMaxFiles || number < 0 || number >= std::max<std::int64_t>(1, count)) {
    throw BadCheckpoint(file->path(), "expected split.no < split.count <= {}, got {} and {}", kMaxFiles, number, count);
  }
  add_tensors(model.metadata, file, model.tensors);
  if (count <= 1) return model;
  const std::vector<std::string> names = names_of_split(file->path(), count);
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto part = MappedFile::open(names[i]);
    const GgufMetadata metadata = GgufMetadata::parse(part->bytes(), part->path());
    if (metadata.integer("split.no") != static_cast<std::int64_t>(i) || metadata.integer("split.count") != count) {
      throw BadCheckpoint(part->path(), "expected part {} of {} (split.no and split.count), got another", i, count);
    }
    add_tensors(metadata, part, model.tensors);
  }
  const auto total = model.metadata.integer("split.tensors.count");
  if (total && *total != static_cast<std::int64_t>(model.tensors.all.size())) {
    throw BadCheckpoint(file->path(), "expected {} tensors in all files (split.tensors.count), got {}", *total,
                        model.tensors.all.size());
  }
  return model;
}

namespace {

/// Llama 3's scaling: divisors of the RoPE frequencies.
void divide_frequencies(const StoredTensor& tensor, RopeConfig& rope) {
  const std::vector<float> factors = read_rope_factors(tensor, "rope_freqs.weight");
  if (factors.size() != rope.frequency.size()) {
    throw BadCheckpoint(tensor.file, "tensor rope_freqs.weight: expected {} elements, got {}", rope.frequency.size(),
                        factors.size());
  }
  for (std::size_t i = 0; i < factors.size(); ++i) rope.frequency[i] /= factors[i];
}

}  // namespace

void apply_format(const GgufArchitecture& architecture, const StoredTensors& tensors, ModelConfig& model) {
  const auto holds = [&](const char* pattern, std::size_t layer) {
    return tensors.all.contains(with_layer(pattern, static_cast<std::int64_t>(layer)));
  };
  const auto frequencies = tensors.all.find(kRopeDivisors);
  fold_weight_offsets(model);
  const bool has_older_form = holds("blk.{l}.ssm_in.weight", 0) || holds("blk.{l}.ssm_in.weight", 1);
  std::vector<DeltaNetConfig::Projections> projections;
  for (DeltaNetConfig* net : every<DeltaNetConfig>(model.blocks)) projections.push_back(net->projections);
  set_file_form(architecture, model);
  if (has_older_form) {
    std::size_t i = 0;
    for (DeltaNetConfig* net : every<DeltaNetConfig>(model.blocks)) net->projections = projections[i++];
  }
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    BlockConfig& block = model.blocks[layer];
    if (auto* const latent = find<LatentAttentionConfig>(block)) {
      latent->keys_apart = holds("blk.{l}.attn_k_b.weight", layer);
      continue;
    }
    auto* const ffn = find<DenseConfig>(block);
    if (ffn != nullptr && holds("blk.{l}.ffn_up.bias", layer)) ffn->bias = true;
    AttentionConfig* const attention = find<AttentionConfig>(block);
    if (attention == nullptr) continue;
    if (holds("blk.{l}.attn_q.bias", layer) || holds("blk.{l}.attn_qkv.bias", layer)) attention->qkv_bias = true;
    if (holds("blk.{l}.attn_output.bias", layer)) attention->out_bias = true;
    if (!attention->rope) continue;
    attention->rope->layout = architecture.layout;
    if (frequencies != tensors.all.end() && !architecture.has_rope_by_kind)
      divide_frequencies(frequencies->second, *attention->rope);
  }
}

Family gguf_family(const GgufArchitecture& architecture) {
  for (const Family& known : all_families()) {
    if (known.model_type != architecture.family) continue;
    Family family = known;
    family.prefixes = {""};
    family.embedding = "token_embd.weight";
    family.tensors = gguf_tensor_rules(architecture);
    family.ignored = {kRopeDivisors, kShortFactors, kLongFactors,  // read with the config
                      "blk.{l}.attn_rot_embd.weight"};             // computed
    family.ignored.insert(family.ignored.end(), architecture.unread.begin(), architecture.unread.end());
    return family;
  }
  throw InternalError("gguf", "the architecture {} has no family", architecture.name);
}

Checkpoint load_gguf(const std::shared_ptr<const MappedFile>& file, const LoadOptions& options) {
  GgufModelFile gguf = open_gguf(file);
  const GgufMetadata& metadata = gguf.metadata;
  const std::string_view kind = metadata.string("general.type").value_or("model");
  if (kind != "model") throw Unsupported(file->path(), "general.type: expected \"model\", got \"{}\"", kind);
  const GgufArchitecture& architecture = gguf_architecture(metadata);

  GgufConfig config = read_gguf_config(architecture, metadata, gguf.tensors, options);
  std::vector<UnreadTensors> unread =
      take_further_layers(gguf.tensors, config.model.blocks.size(), config.n_further_layers);
  take_dense(architecture, metadata, gguf.tensors);
  reshape_tensors(gguf.tensors);
  add_numbers_of_layers(architecture, metadata, config.model.blocks.size(), gguf.tensors);
  gguf.tensors.allowed = options.allowed_tensors;
  Family family = gguf_family(architecture);
  if (config.model.task) {
    const std::vector<TensorRule> of_head = gguf_head_tensors();
    family.tensors.insert(family.tensors.end(), of_head.begin(), of_head.end());
    family.unused.push_back("output");
  }
  Checkpoint result = bind_tensors(family, std::move(config.model), std::move(gguf.tensors));
  result.unread = std::move(unread);
  result.published_layout = config.published_layout;
  result.has_folded_factors = architecture.folds_factors;
  result.description = std::string(architecture.family) + ", GGUF";
  result.tokenizer_path = file->path();
  read_special_ids(metadata, result);
  return result;
}

}  // namespace vitrine
