// vocab.json and merges.txt: `vocab #merges merges`.
#include "exercise_tokenizer.h"
#include "fuzzing.h"
#include "tokenizer/read/tokenizer_json.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::fuzz_tokenizer(fuzz::text_of(data, size), [](std::string_view file) {
    const auto [vocab, merges] = fuzz::cut(file, "#merges");
    return make_json_tokenizer(parse_vocab_and_merges(vocab, "vocab.json", merges, "merges.txt"), "vocab.json");
  });
}
