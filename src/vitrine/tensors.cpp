// Models as tensors in memory, and as folders.
#include <algorithm>
#include <filesystem>

#include "base/file_writer.h"
#include "base/folder_writer.h"
#include "base/mapped_file.h"
#include "checkpoint/bind_tensors.h"
#include "train/trainable.h"
#include "vitrine/opened_model.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInMemory = "tensors";  // names such a model in errors
constexpr std::size_t kBytesPerPoll = std::size_t{1} << 24;

/// The format's name of a type.
const char* stored_type_name(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    default:
      throw Unsupported(kInMemory, "expected tensors of f32, f16 or bf16, got {}", name_of(type));
  }
}

StoredTensors stored_tensors(const std::vector<StateTensor>& tensors, std::shared_ptr<const void> owner) {
  StoredTensors stored;
  stored.where = kInMemory;
  stored.storage = {std::move(owner)};
  for (const StateTensor& tensor : tensors) {
    std::int64_t n = size_of(tensor.type);
    for (const std::int64_t size : tensor.shape) {
      if (size < 0 || __builtin_mul_overflow(n, size, &n)) {
        throw BadInput(kInMemory, "{}: expected sizes of at least 0 that fit in memory", tensor.name);
      }
    }
    if (n != static_cast<std::int64_t>(tensor.bytes.size())) {
      throw BadInput(kInMemory, "{}: expected {} bytes for its shape, got {}", tensor.name, n, tensor.bytes.size());
    }
    StoredTensor entry{stored_type_name(tensor.type), tensor.type, tensor.shape, tensor.bytes, kInMemory};
    if (!stored.all.emplace(tensor.name, std::move(entry)).second) {
      throw BadInput(kInMemory, "{} appears twice", tensor.name);
    }
  }
  return stored;
}

/// Keeps the tensors of a model in training as they are now.
class StateSink : public TensorSink {
 public:
  void begin(const std::string& name, DType type, const std::vector<std::int64_t>& shape) override {
    std::int64_t bytes = size_of(type);
    for (const std::int64_t size : shape) bytes *= size;
    tensors_.push_back({name, type, shape, {}});
    memory_->push_back({});
    memory_->back().reserve(static_cast<std::size_t>(bytes));
  }
  void append(std::span<const std::byte> bytes) override {
    std::vector<std::byte>& memory = memory_->back();
    memory.insert(memory.end(), bytes.begin(), bytes.end());
    tensors_.back().bytes = memory;
  }
  std::vector<StateTensor> take() {
    for (StateTensor& tensor : tensors_) tensor.owner = memory_;
    return std::move(tensors_);
  }

 private:
  std::vector<StateTensor> tensors_;
  std::shared_ptr<std::vector<std::vector<std::byte>>> memory_ =
      std::make_shared<std::vector<std::vector<std::byte>>>();
};

}  // namespace

LanguageModel LanguageModel::from_tensors(const std::string& config_json, const std::vector<StateTensor>& tensors,
                                          std::shared_ptr<const void> owner, const OpenOptions& options) {
  const Json config = parse_json(config_json, "config");
  Checkpoint checkpoint = bind_hugging_face(config, stored_tensors(tensors, std::move(owner)), "config",
                                            {options.allowed_config_keys, options.allowed_tensors});
  checkpoint.description = checkpoint.family + ", tensors in memory";
  std::string none;  // the model has no path
  return LanguageModel(
      std::make_shared<const State>(kInMemory, std::move(checkpoint), with_local_paths(none, options)));
}

std::vector<StateTensor> LanguageModel::state() const {
  const State& s = *state_;
  const Checkpoint& c = s.checkpoint;
  if (s.training) {
    const Call call(s, {});
    StateSink sink;
    write_hugging_face_tensors(sink, *c.table, c.model->config(), s.training->dtype(), values_of(*c.model),
                               call.pool());
    return sink.take();
  }
  if (c.stored == nullptr) throw Unsupported(s.model_path, "the tensors of a {} have no names", c.description);
  std::vector<StateTensor> tensors;
  for (const auto& [name, tensor] : c.stored->all) {
    if (!tensor.type) continue;  // a buffer that can be computed
    if (is_quantized(*tensor.type)) {
      throw Unsupported(s.model_path, "{}: expected f32, f16 or bf16, got {}", name, tensor.dtype);
    }
    tensors.push_back({name, *tensor.type, tensor.shape, tensor.bytes, c.stored});
  }
  return tensors;
}

void LanguageModel::save(const std::string& folder) const {
  const State& s = *state_;
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) throw BadInput(folder, "expected a folder");
  if (s.training) {
    const Call call(s, {});
    FolderWriter writer(folder);
    s.training->save(fs::path(writer.file("")).parent_path().string());
    return writer.commit();
  }
  const Checkpoint& c = s.checkpoint;
  if (c.config.empty()) throw Unsupported(s.model_path, "only models of Hugging Face folders are saved as such");
  const std::vector<StateTensor> tensors = state();
  CallerPoll poll(s.poll ? s.poll : [] {});
  FolderWriter writer(folder);
  SafetensorsWriter file(writer.file("model.safetensors"), header_bytes_for(tensors.size()));
  for (const StateTensor& tensor : tensors) {
    file.begin(tensor.name, tensor.type, tensor.shape);
    for (std::span<const std::byte> rest = tensor.bytes; !rest.empty(); poll.poll()) {
      const std::span<const std::byte> part = rest.first(std::min(rest.size(), kBytesPerPoll));
      file.append(part);
      rest = rest.subspan(part.size());
    }
  }
  file.commit();
  write_file(writer.file("config.json"), c.config);
  const fs::path generation = fs::path(c.tokenizer_path) / "generation_config.json";
  if (!c.tokenizer_path.empty() && fs::exists(generation, error)) {
    write_file(writer.file("generation_config.json"), MappedFile::open(generation.string())->text());
  }
  if (s.tokenizer) {
    copy_tokenizer(s.tokenizer_path, fs::path(writer.file("")).parent_path().string());
  }
  writer.commit();
}

}  // namespace vitrine
