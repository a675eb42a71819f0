// SentencePiece's .model.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/sentencepiece.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    return make_sentencepiece_tokenizer(parse_sentencepiece_model(std::as_bytes(std::span(file)), "f"));
  });
}
