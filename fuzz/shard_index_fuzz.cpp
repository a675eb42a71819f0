// model.safetensors.index.json of two valid shards.
#include "checkpoint/load.h"
#include "fuzzing.h"
#include "tiny_checkpoint.h"

using namespace vitrine;

namespace {

struct SoundFolder : fuzz::Folder {
  SoundFolder() {
    put("config.json", fuzz::kTinyConfig);
    const fuzz::TinyTensors all = fuzz::tiny_tensors();
    fuzz::write_tensors(path() + "/a.safetensors", {all.begin(), all.begin() + 4});
    fuzz::write_tensors(path() + "/b.safetensors", {all.begin() + 4, all.end()});
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SoundFolder folder;
  return fuzz::answer([&] {
    folder.put("model.safetensors.index.json", fuzz::text_of(data, size));
    load_checkpoint(folder.path());
  });
}
