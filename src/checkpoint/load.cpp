#include "checkpoint/load.h"

#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/nearest.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/formats.h"
#include "checkpoint/hugging_face/static_embedding.h"
#include "checkpoint/hugging_face/text_modules.h"
#include "model/check_compute.h"

namespace vitrine {

Compute checked_compute(const Checkpoint& checkpoint, Compute asked) {
  check_compute(*checkpoint.model, asked);
  return asked == Compute::automatic && checkpoint.asks_float32 ? Compute::int8 : asked;
}

namespace {

Checkpoint load(const std::string& path, const LoadOptions& options) {
  if (path.empty()) throw BadInput("MODEL", "expected a path, got an empty text");
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw BadInput(path, "no such file or folder{}", did_you_mean_file(path));
  }
  if (std::filesystem::is_directory(status)) {
    const std::string folder = folder_of_model(path);
    return is_table_of_embeddings(path) ? load_static_embedding(folder) : load_hugging_face(folder, options);
  }

  const auto file = MappedFile::open(path);  // gives the reason if the status could not be read
  if (is_llama2c(*file)) return load_llama2c(file);
  const std::string_view text = file->text();
  if (text.starts_with("GGUF")) return load_gguf(file, options);
  if (text.starts_with("24ka")) throw Unsupported(path, "llama2.c files of version 1 and later are not supported");
  if (path.ends_with(".safetensors") || path.ends_with("config.json")) {
    throw BadInput(path, "expected the folder of the checkpoint, got a file in it");
  }
  if (path.ends_with(".bin")) return load_llama2c(file);  // its message says what is wrong
  throw BadInput(path, "expected a Hugging Face folder, a .gguf or a llama2.c .bin, got {} bytes of something else",
                 file->bytes().size());
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path, const LoadOptions& options) {
  Checkpoint checkpoint = load(path, options);
  if (checkpoint.stored != nullptr) checkpoint.files = checkpoint.stored->files;
  return checkpoint;
}

}  // namespace vitrine
