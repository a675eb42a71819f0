#include <memory>

#include "engine.h"

namespace vitrine::python {
namespace {

nb::object array_over(float* data, std::span<const std::int64_t> shape, const nb::capsule& owner) {
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  return nb::cast(nb::ndarray<nb::numpy, float>(data, sizes.size(), sizes.data(), owner));
}

}  // namespace

nb::object array_of(std::vector<float> values, std::span<const std::int64_t> shape) {
  auto kept = std::make_unique<std::vector<float>>(std::move(values));
  const nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return array_over(kept.release()->data(), shape, owner);
}

nb::object new_array(std::span<const std::int64_t> shape, float*& memory) {
  std::size_t n = 1;
  for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
  auto kept = std::make_unique_for_overwrite<float[]>(n);
  const nb::capsule owner(kept.get(), [](void* p) noexcept { delete[] static_cast<float*>(p); });
  memory = kept.release();
  return array_over(memory, shape, owner);
}

nb::object text_of(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

Prompt prompt_of(const nb::object& prompt) {
  if (PyUnicode_Check(prompt.ptr())) {
    Py_ssize_t n = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(prompt.ptr(), &n);
    if (text == nullptr) throw nb::python_error();
    return std::string(text, static_cast<std::size_t>(n));
  }
  const auto ids = nb::cast<nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(prompt);
  return std::vector<std::int32_t>(ids.data(), ids.data() + ids.size());
}

}  // namespace vitrine::python
