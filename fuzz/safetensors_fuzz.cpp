// safetensors files.
#include "checkpoint/safetensors.h"

#include <numeric>

#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  return fuzz::answer([&] {
    const SafetensorsFile file = SafetensorsFile::open(folder.put("f.safetensors", fuzz::text_of(data, size)));
    std::size_t bytes = 0, ones = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      bytes += tensor.bytes.size();
      for (const std::byte byte : tensor.bytes) ones += byte == std::byte{1} ? 1 : 0;
    }
    fuzz::expect(bytes <= size && ones <= bytes, "every byte of the file can be read and belongs to one tensor");
  });
}
