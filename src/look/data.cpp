#include "look/data.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tokenizer/read/base64.h"

namespace vitrine {

static_assert(std::endian::native == std::endian::little, "blocks are written as they are in memory");

void LookData::share_with_after(std::string_view block) {
  Json shared = Json::array();
  for (const Json& array : arrays_) {
    if (array["block"] != block) continue;
    shared.push_back(array);
    shared.back()["name"] = std::string(kAfter) + array["name"].get<std::string>();
  }
  for (Json& array : shared) {
    numbers_[array["name"]] = arrays_.size();
    arrays_.push_back(std::move(array));
  }
}

const Json* LookData::same_before(const std::string& name, const Json& entry, const char* values,
                                  std::size_t n_bytes) const {
  const auto number = prefix_.empty() ? numbers_.end() : numbers_.find(name);
  if (number == numbers_.end()) return nullptr;
  const Json& before = arrays_[number->second];
  if (before["shape"] != entry["shape"] || before["type"] != entry["type"]) return nullptr;
  const auto block =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const LookBlock& b) { return b.name == before["block"]; });
  const bool is_same = std::memcmp(block->bytes.data() + before["offset"].get<std::size_t>(), values, n_bytes) == 0;
  return is_same ? &before : nullptr;
}

void LookData::append(std::string_view block_name, const std::string& name, const Sizes& shape, const char* type,
                      bool exact, const void* values, std::size_t n_bytes) {
  const std::string block = prefix_ + std::string(block_name);
  Json entry = {{"name", prefix_ + name}, {"shape", shape}, {"type", type}, {"exact", exact}};
  numbers_[prefix_ + name] = arrays_.size();
  if (const Json* const same = same_before(name, entry, static_cast<const char*>(values), n_bytes)) {
    for (const char* const key : {"block", "offset"}) entry[key] = (*same)[key];
    return arrays_.push_back(std::move(entry));
  }
  auto it = std::find_if(blocks_.begin(), blocks_.end(), [&](const LookBlock& b) { return b.name == block; });
  if (it == blocks_.end()) it = blocks_.insert(it, {block, "", !exact});
  it->bytes.resize((it->bytes.size() + 7) / 8 * 8);
  entry["block"] = block;
  entry["offset"] = it->bytes.size();
  arrays_.push_back(std::move(entry));
  it->bytes.append(static_cast<const char*>(values), n_bytes);
}

void LookData::add_picture(std::string_view block, const std::string& name, const Sizes& shape,
                           std::span<const float> values) {
  std::string levels;
  levels.reserve(values.size());
  for (const float x : values) levels += static_cast<char>(std::lround(255 * std::sqrt(std::clamp(x, 0.0f, 1.0f))));
  append(block, name, shape, "u8", false, levels.data(), levels.size());
}

std::string packed(const LookBlock& block, bool is_tight) {
  // Of floats only the exponents repeat. Huffman codes save 7 %, in more time than all other work on them; a search for
  // matches saves little more, in three times that time. Operands of cells repeat, in a smaller block.
  const bool repeats = block.has_pictures || block.name.ends_with(kCellsBlock);
  const int fast = is_tight ? Z_BEST_SPEED : Z_NO_COMPRESSION;
  const int level = block.has_pictures ? Z_DEFAULT_COMPRESSION : fast;
  constexpr int kWindowBits = 15, kMemLevel = 8;  // zlib's defaults
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, kWindowBits, kMemLevel, repeats ? Z_DEFAULT_STRATEGY : Z_HUFFMAN_ONLY) !=
      Z_OK) {
    throw InternalError("look", "zlib could not start on block {}", block.name);
  }
  std::vector<unsigned char> bytes(deflateBound(&stream, block.bytes.size()));
  // zlib only reads its input.
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(block.bytes.data()));
  stream.avail_in = static_cast<uInt>(block.bytes.size());
  stream.next_out = bytes.data();
  stream.avail_out = static_cast<uInt>(bytes.size());
  const int status = deflate(&stream, Z_FINISH);
  const std::size_t size = stream.total_out;
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw InternalError("look", "zlib could not compress block {}", block.name);
  return encode_base64({bytes.data(), size});
}

}  // namespace vitrine
