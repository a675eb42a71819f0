#include "look/data.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "tokenizer/base64.h"

namespace vitrine {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are written as they are in memory");

}  // namespace

void LookData::append(const std::string& block, const std::string& name, const Sizes& shape, const char* type,
                      bool exact, const void* values, std::size_t n_bytes) {
  auto it = std::find_if(blocks_.begin(), blocks_.end(), [&](const LookBlock& b) { return b.name == block; });
  if (it == blocks_.end()) it = blocks_.insert(it, {block, ""});
  it->bytes.resize((it->bytes.size() + 7) / 8 * 8);
  arrays_.push_back({{"name", name},
                     {"shape", shape},
                     {"type", type},
                     {"block", block},
                     {"offset", it->bytes.size()},
                     {"exact", exact}});
  it->bytes.append(static_cast<const char*>(values), n_bytes);
}

void LookData::add(const std::string& block, const std::string& name, const Sizes& shape,
                   std::span<const float> values) {
  append(block, name, shape, "f32", true, values.data(), values.size_bytes());
}

void LookData::add(const std::string& block, const std::string& name, const Sizes& shape,
                   std::span<const double> values) {
  append(block, name, shape, "f64", true, values.data(), values.size_bytes());
}

void LookData::add(const std::string& block, const std::string& name, const Sizes& shape,
                   std::span<const std::int32_t> values) {
  append(block, name, shape, "i32", true, values.data(), values.size_bytes());
}

void LookData::add_picture(const std::string& block, const std::string& name, const Sizes& shape,
                           std::span<const float> values) {
  std::string levels;
  levels.reserve(values.size());
  for (const float x : values) levels += static_cast<char>(std::lround(255 * std::sqrt(std::clamp(x, 0.0f, 1.0f))));
  append(block, name, shape, "u8", false, levels.data(), levels.size());
}

std::string packed(const LookBlock& block) {
  uLongf size = compressBound(block.bytes.size());
  std::vector<unsigned char> bytes(size);
  const auto* const from = reinterpret_cast<const unsigned char*>(block.bytes.data());
  if (compress2(bytes.data(), &size, from, block.bytes.size(), Z_DEFAULT_COMPRESSION) != Z_OK) {
    throw InternalError("look", "zlib could not compress block {}", block.name);
  }
  return encode_base64({bytes.data(), size});
}

}  // namespace vitrine
