// generation_config.json of a valid checkpoint.
#include "checkpoint/load.h"
#include "fuzzing.h"
#include "tiny_checkpoint.h"

using namespace vitrine;

namespace {

struct SoundFolder : fuzz::Folder {
  SoundFolder() {
    put("config.json", fuzz::kTinyConfig);
    fuzz::write_tensors(path() + "/model.safetensors", fuzz::tiny_tensors());
    load_checkpoint(path());  // throws if generation_config.json is invalid
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SoundFolder folder;
  return fuzz::answer([&] {
    folder.put("generation_config.json", fuzz::text_of(data, size));
    const Checkpoint checkpoint = load_checkpoint(folder.path());
    const std::int64_t vocab_size = checkpoint.model->config().vocab_size;
    for (const std::int32_t id : checkpoint.stop_ids) fuzz::expect(id >= 0 && id < vocab_size, "stop ids are ids");
    if (checkpoint.bos_id) fuzz::expect(*checkpoint.bos_id >= 0 && *checkpoint.bos_id < vocab_size, "BOS is an id");
  });
}
