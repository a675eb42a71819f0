// An importance matrix in either format: reads it, uses every tensor, adds it to itself and writes it.
#include <cmath>

#include "checkpoint/gguf/importance_matrix.h"
#include "folder.h"
#include "fuzzing.h"

using namespace vitrine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  const std::string path = folder.put("imatrix", fuzz::text_of(data, size));
  return fuzz::answer([&] {
    ImportanceMatrix matrix = read_importance_matrix(path);
    for (const auto& [name, squares] : matrix.tensors) {
      const auto n = static_cast<std::int64_t>(squares.sums.size());
      const auto copies = static_cast<std::int64_t>(squares.counts.size());
      for (const float weight : matrix.weights_of(name, n / copies, copies)) {
        fuzz::expect(weight >= 0, "a weight is at least 0");
      }
    }
    matrix.add(matrix);
    write_importance_matrix(path + ".written", matrix);
    const ImportanceMatrix back = read_importance_matrix(path + ".written");
    fuzz::expect(back.tensors.size() == matrix.tensors.size(), "what was written is read");
  });
}
