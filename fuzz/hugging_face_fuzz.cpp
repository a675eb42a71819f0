// A complete Hugging Face folder, `config.json #tensors model.safetensors`: reads it and runs it.
#include "exercise_model.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer([&] {
    const auto [config, tensors] = fuzz::cut(fuzz::text_of(data, size), "#tensors");
    folder.put("config.json", config);
    folder.put("model.safetensors", tensors);
    fuzz::exercise_model(load_checkpoint(folder.path()));
  });
}
