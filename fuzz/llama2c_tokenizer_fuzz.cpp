// llama2.c's tokenizer .bin.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/llama2c.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    return parse_llama2c_tokenizer(std::as_bytes(std::span(file)), "f");
  });
}
