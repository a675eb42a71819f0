// config.json of every family. The tensors are missing, so reading ends there.
#include "checkpoint/load.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer([&] {
    folder.put("config.json", fuzz::text_of(data, size));
    load_checkpoint(folder.path());
  });
}
