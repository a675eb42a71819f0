// tokenizer.json.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/tokenizer_json.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size),
                              [](std::string_view file) { return parse_tokenizer_json(file, "f"); });
}
