// The metadata of a GGUF file, and its tokenizer.
#include "base/gguf.h"
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/gguf_vocab.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    return make_gguf_tokenizer(GgufMetadata::parse(std::as_bytes(std::span(file)), "f"));
  });
}
