// llama2.c's model .bin: reads it and runs it.
#include "exercise_model.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer(
      [&] { fuzz::exercise_model(load_checkpoint(folder.put("model.bin", fuzz::text_of(data, size)))); });
}
