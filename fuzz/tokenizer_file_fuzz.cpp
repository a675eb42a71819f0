// A tokenizer of unknown format, which is detected from the content.
#include "exercise_tokenizer.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [&](std::string_view file) {
    return load_tokenizer(folder.put("tokenizer.model", file), {"[^ ]+| +", ""});
  });
}
