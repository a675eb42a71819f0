#include <memory>

#include "engine.h"

namespace vitrine::python {
namespace {

std::vector<std::size_t> sizes_of(std::span<const std::int64_t> shape) { return {shape.begin(), shape.end()}; }

template <class T>
nb::object owned(std::unique_ptr<T> owner, float* data, std::span<const std::int64_t> shape) {
  nb::capsule keeper(owner.get(), [](void* p) noexcept { delete static_cast<T*>(p); });
  owner.release();
  const std::vector<std::size_t> sizes = sizes_of(shape);
  return nb::cast(Floats(data, sizes.size(), sizes.data(), keeper));
}

}  // namespace

nb::object array_of(std::vector<float> values, const std::vector<std::int64_t>& shape) {
  auto owner = std::make_unique<std::vector<float>>(std::move(values));
  float* const data = owner->data();
  return owned(std::move(owner), data, shape);
}

nb::object new_array(std::span<const std::int64_t> shape, float*& memory) {
  std::size_t n = 1;
  for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
  struct Block {
    explicit Block(std::size_t count) : floats(new float[count]) {}
    std::unique_ptr<float[]> floats;
  };
  auto owner = std::make_unique<Block>(n);
  memory = owner->floats.get();
  return owned(std::move(owner), memory, shape);
}

nb::object array_of(const std::vector<std::int32_t>& ids) {
  auto owner = std::make_unique<std::vector<std::int32_t>>(ids);
  std::int32_t* const data = owner->data();
  const std::size_t n = owner->size();
  nb::capsule keeper(owner.get(), [](void* p) noexcept { delete static_cast<std::vector<std::int32_t>*>(p); });
  owner.release();
  return nb::cast(nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>(data, {n}, keeper));
}

std::vector<std::int32_t> ids_of(const Ids& ids) { return {ids.data(), ids.data() + ids.size()}; }

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
  return ids_of(nb::cast<Ids>(prompt));
}

}  // namespace vitrine::python
