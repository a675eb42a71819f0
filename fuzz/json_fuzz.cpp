// JSON: reads it, writes it, and reads it again.
#include "base/json.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::answer([&] {
    const Json value = parse_json(fuzz::text_of(data, size), "f");
    const std::string written = value.dump();
    fuzz::expect(parse_json(written, "f").dump() == written, "what was read can be written and read again");
  });
}
